package session

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// FuzzReplay: no bytes make a load fail, and where chunks are cut changes nothing.
func FuzzReplay(f *testing.F) {
	some := lines(0, 3)
	for _, text := range []string{
		some, array(0, 3, ""), array(0, 2, "\n"), array(0, 1, "") + array(1, 3, ""), some[:len(some)-30], some[40:],
		"[" + some, `[{"eventId":"` + some,
		strings.ReplaceAll(some, `"eventId"`, `"event_id"`), "{}[]{{{\"\\", "", "\x00", strings.Repeat(`{"event`, 20),
		`{"eventId"`, `,{"eventI`,
	} {
		f.Add([]byte(text), uint16(17), uint16(300))
	}
	f.Fuzz(func(t *testing.T, text []byte, first, second uint16) {
		if len(text) > 1<<16 {
			return
		}
		whole := newBucket()
		whole.objects[testWhole] = text
		want := loadBucket(t, whole)

		cut := newBucket()
		at := 0
		for _, n := range []int{int(first), int(second), 1, 1, len(text)} {
			n = min(n, len(text)-at)
			if n > 0 || at == 0 {
				cut.objects[layout.ChunkKey(testWhole, int64(at), layout.Plain)] = text[at : at+n]
			}
			at += n
		}
		got := loadBucket(t, cut)
		if dump(got) != dump(want) || strings.Join(got.Warnings, "\n") != strings.Join(want.Warnings, "\n") {
			t.Errorf("cut at %d and %d:\n got %s%q\nwant %s%q", first, second, dump(got), got.Warnings, dump(want),
				want.Warnings)
		}
	})
}

// TestCutEventIsNotReadAgainAtOnce: an event that arrives in small parts is decoded again only when there is twice as
// much of it. Otherwise a long one would be read from its beginning as often as it has parts.
func TestCutEventIsNotReadAgainAtOnce(t *testing.T) {
	event := strings.Replace(finishedEvent(1), `"eventId"`, `"message":"`+strings.Repeat("x", 10_000)+`","eventId"`, 1)
	tables, events := tasktable.NewBuilder(), entities.NewBuilder()
	r := &replayer{d: eventjson.NewDecoder(tablesSink{tables, events}, tables.Strings, tables.States, testSession.Name)}
	for _, separator := range []string{"\n", ","} {
		text := []byte(event + separator)
		b := block{left: toEnd, lines: separator == "\n", formKnown: true}
		var out replayed
		for _, step := range []struct {
			bytes int
			last  bool
			want  int64
		}{{4000, false, 0}, {len(text), false, 1}, {9000, false, 0}, {len(text), false, 0}, {len(text), true, 1}} {
			before := r.d.Counts.Events
			b.data, b.last = text[:step.bytes], step.last
			r.replayBlock(&b, &out)
			if got := r.d.Counts.Events - before; got != step.want || out.damaged > 0 || out.cut {
				t.Errorf("separator %q: %d bytes: %d events, want %d; %+v", separator, step.bytes, got, step.want, out)
			}
		}
	}
}

// FuzzSeries: whatever an hour of hardware figures holds, there are figures or none.
func FuzzSeries(f *testing.F) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	f.Add([]byte(`{"t": 1795216800000, "node": "ab", "cpu": 12.5, "mem": [1, 2], "gpus": [{"util": 1, "used": 2, "total": 3}]}` + "\n"))
	f.Add([]byte(`{"t": "1", "node": 3}` + "\n{\n\x00\n" + `{"mem": [1,2,3,4]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBucket()
		b.objects[layout.SeriesKey(layout.DefaultRoot, testSession, hour)] = body
		s := loadBucket(t, b)
		says.OK(t, says.Err(s.Snapshots.SamplesAt(t.Context(), hour.Add(time.Minute).UnixNano())))
	})
}

// FuzzSnapshotOfWorkers: whatever the saved list of workers holds, the session is loaded.
func FuzzSnapshotOfWorkers(f *testing.F) {
	f.Add([]byte(`{"data": {"result": {"result": [{"worker_id": "ab", "is_alive": false, "end_time_ms": 5, "exit_type": "x"}]}}}`))
	f.Add([]byte(`{"data": {"result": {"result": [null, 3, {"end_time_ms": 1e999}]}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := newBucket()
		b.objects[testWhole] = []byte(lines(0, 2))
		b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, "/api/v0/workers?limit=10000&detail=1")] = body
		loadBucket(t, b)
	})
}
