package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// finished lists the numbers of the test tasks that are there whole: defined and finished.
func finished(s *Session) []int {
	var all []int
	for n := range 2000 {
		found, err := s.Tasks.Select(tasktable.Query{Limit: 1,
			Filters: []tasktable.Filter{{Key: "task_id", Value: taskID(n).String()}}})
		if err != nil || found.Matching == 0 {
			continue
		}
		if r, err := found.Row(0); err == nil && r.Defined() && r.State() == "FINISHED" {
			all = append(all, n)
		}
	}
	return all
}

func lines(from, to int) string {
	var b strings.Builder
	for n := from; n < to; n++ {
		b.WriteString(definitionEvent(n) + "\n" + finishedEvent(n) + "\n")
	}
	return b.String()
}

func array(from, to int, space string) string {
	var all []string
	for n := from; n < to; n++ {
		all = append(all, definitionEvent(n), finishedEvent(n))
	}
	return "[" + space + strings.Join(all, space+","+space) + space + "]"
}

func span(from, to int) (all []int) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

func TestLoadForms(t *testing.T) {
	const tasks = 40
	half := lines(0, tasks/2)
	third := strings.Index(half[len(half)/3:], "\n") + len(half)/3 + 1
	key := func(offset int, c layout.Compression) string { return layout.ChunkKey(testWhole, int64(offset), c) }
	plain := func(text string) []byte { return []byte(text) }
	long := func(n int) string { // five tasks, one of them with so long an event
		return lines(0, 1) + definitionEvent(1) + "\n" + strings.Replace(finishedEvent(1), `"eventId"`,
			`"message":"`+strings.Repeat("x", n)+`","eventId"`, 1) + "\n" + lines(2, 5)
	}
	for _, tt := range []struct {
		name     string
		objects  map[string][]byte
		want     []int
		warnings []string // parts of them
	}{
		{"lines", map[string][]byte{key(0, 0): plain(half)}, span(0, 20), nil},
		{"lines without the last line's end", map[string][]byte{key(0, 0): plain(strings.TrimSpace(half))}, span(0, 20),
			nil},
		{"lines with Windows' ends", map[string][]byte{key(0, 0): plain(strings.ReplaceAll(half, "\n", "\r\n"))},
			span(0, 20), nil},
		{"array", map[string][]byte{key(0, 0): plain(array(0, 20, ""))}, span(0, 20), nil},
		{"array over several lines", map[string][]byte{key(0,
			0): plain(strings.ReplaceAll(array(0, 20, "\n  "), `,"`, ",\n\""))}, span(0, 20), nil},
		{"arrays one after the other", map[string][]byte{key(0, 0): plain(array(0, 7, "") + array(7, 20, " "))},
			span(0, 20), nil},
		{"empty object", map[string][]byte{key(0, 0): {}}, nil, nil},
		{"empty array", map[string][]byte{key(0, 0): plain("[]")}, nil, nil},
		{"gzip", map[string][]byte{key(0, layout.Gzip): layouttest.Pack(t, half, layout.Gzip)}, span(0, 20), nil},
		{"zstd", map[string][]byte{key(0, layout.Zstd): layouttest.Pack(t, half, layout.Zstd)}, span(0, 20), nil},
		{"chunks", map[string][]byte{key(0, 0): plain(half[:third]), key(third, 0): plain(half[third:])}, span(0, 20),
			nil},
		{"chunks cut within a line", map[string][]byte{key(0, 0): plain(half[:third-100]),
			key(third-100, 0): plain(half[third-100:])}, span(0, 20), nil},
		{"an array over chunks", map[string][]byte{key(0, 0): plain(array(0, 20, "")[:3000]),
			key(3000, 0): plain(array(0, 20, "")[3000:])}, span(0, 20), nil},
		{"chunks of different compression", map[string][]byte{
			key(0, layout.Zstd):     layouttest.Pack(t, half[:third], layout.Zstd),
			key(third, layout.Gzip): layouttest.Pack(t, half[third:], layout.Gzip),
		}, span(0, 20), nil},
		{"chunks that overlap", map[string][]byte{key(0, 0): plain(half[:third+50]),
			key(third, 0): plain(half[third:])}, span(0, 20), nil},
		{"compressed chunks that overlap", map[string][]byte{
			key(0, layout.Gzip):     layouttest.Pack(t, half[:third+50], layout.Gzip),
			key(third, layout.Gzip): layouttest.Pack(t, half[third:], layout.Gzip),
		}, span(0, 20), nil},
		{"a chunk inside another", map[string][]byte{key(0, 0): plain(half),
			key(third, 0): plain(half[third : third+60])}, span(0, 20), nil},
		{"a whole beside its chunks", map[string][]byte{
			key(0, 0): plain(half), key(0, layout.Gzip): layouttest.Pack(t, half[:third], layout.Gzip),
			key(third, layout.Gzip): layouttest.Pack(t, half[third:], layout.Gzip),
		}, span(0, 20), nil},
		{"a chunk is missing", map[string][]byte{
			key(0, 0): plain(lines(0, 5)), key(len(lines(0, 10)), 0): plain(lines(10, 20)),
		}, append(span(0, 5), span(10, 20)...), []string{"are missing"}},
		{"the last line is cut", map[string][]byte{key(0, 0): plain(lines(0, 20)[:len(half)-40])}, span(0, 19),
			[]string{"the last event is cut"}},
		{"a line is cut in the middle", map[string][]byte{
			key(0, 0): plain(lines(0, 3) + definitionEvent(3)[:200] + "\n" + lines(4, 20)),
		}, append(span(0, 3), span(4, 20)...), []string{"1 damaged part skipped"}},
		{"an array is cut in the middle", map[string][]byte{
			key(0, 0): plain(strings.TrimSuffix(array(0, 3, ""), "]") + "," + definitionEvent(3)[:200] + "," +
				strings.TrimPrefix(array(4, 20, ""), "[")),
		}, append(span(0, 3), span(4, 20)...), []string{"1 damaged part skipped"}},
		{"garbage", map[string][]byte{key(0, 0): plain("\x00\xff garbage { [ \" \n" + half)}, span(0, 20),
			[]string{"damaged part"}},
		{"only garbage", map[string][]byte{key(0, 0): plain(strings.Repeat("}{][\"\\", 5000))}, nil,
			[]string{"damaged part"}},
		{"foreign session", map[string][]byte{
			key(0, 0): plain(lines(0, 5) + strings.ReplaceAll(lines(5, 10), testSession.Name,
				"session_2026-01-01_00-00-00_000000_1")),
		}, span(0, 5), []string{"10 events of another session"}},
		{"unknown event", map[string][]byte{key(0, 0): plain(
			`{"eventType":"NEWER_EVENT","newerEvent":{"a":[1,{"b":null}]}}` + "\n" + half)}, span(0, 20),
			[]string{"1 event of an unknown type"}},
		{"event without subject", map[string][]byte{key(0,
			0): plain(`{"taskLifecycleEvent":{"taskId":"","stateTransitions":[]}}` + "\n" + half)}, span(0, 20),
			[]string{"1 event without the ID"}},
		{"profile of no task", map[string][]byte{key(0,
			0): plain(`{"taskProfileEvents":{"taskId":"////////////////////////////////","profileEvents":{"events":[]}}}` + "\n" + half)},
			span(0, 20), nil},
		{"absurd times", map[string][]byte{
			key(0, 0): plain(half + strings.Replace(finishedEvent(30), "2026-11-20T23:20:01.5Z",
				"99999-01-01T00:00:00Z", 1)),
		}, span(0, 20), []string{"1 event with an invalid time"}},
		{"damaged gzip", map[string][]byte{
			key(0, layout.Gzip): layouttest.Pack(t, half, layout.Gzip)[:300], key(len(half), 0): plain(lines(20, 25)),
		}, nil, []string{"is damaged at byte", "the last event is cut"}},
		{"no gzip at all", map[string][]byte{key(0, layout.Gzip): plain("no gzip"), key(7, 0): plain(lines(20, 25))},
			span(20, 25), []string{"is damaged"}},
		{"a line longer than a block", map[string][]byte{key(0, 0): plain(long(3 * blockBytes))}, span(0, 5), nil},
		{"a line longer than allowed", map[string][]byte{key(0, 0): plain(long(2*maxEventBytes + blockBytes))},
			[]int{0, 2, 3, 4}, []string{"damaged part"}},
		// Where a chunk says that it begins makes neither parts nor memory.
		{"a forged offset", map[string][]byte{key(0, 0): plain(lines(0, 10)), key(1<<62, 0): plain(lines(10, 20))},
			span(0, 20), []string{"are missing"}},
		{"keys of others", map[string][]byte{
			layout.Prefix(layout.DefaultRoot, testSession) + "job_events/what/ever": plain(half),
			key(0, 0): plain(half),
		}, span(0, 20), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBucket()
			b.objects = tt.objects
			s := loadBucket(t, b)
			if tt.want != nil {
				says.EqualSlices(t, finished(s), tt.want, "finished tasks")
			}
			says.Equal(t, len(tt.warnings), len(s.Warnings), "warnings %q, want %q", s.Warnings, tt.warnings)
			for i, w := range s.Warnings[:min(len(s.Warnings), len(tt.warnings))] {
				says.True(t, strings.Contains(w, tt.warnings[i]), "warning %q, want %q in it", w, tt.warnings[i])
			}
		})
	}
}

// TestWrongClocks: a session lasts from its first to its last event, but not since 1970 because of one node's clock.
func TestWrongClocks(t *testing.T) {
	load := func(text string) *Session {
		b := newBucket()
		b.stored = time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
		b.objects[layout.ChunkKey(testWhole, 0, layout.Plain)] = []byte(text)
		return loadBucket(t, b)
	}
	want := load(lines(0, 3))
	moved := func(text, to string) string {
		for _, at := range []string{"2026-11-20T23:20:01Z", "2026-11-20T23:20:01.5Z", "2026-11-20T23:20:02.000000001Z"} {
			text = strings.ReplaceAll(text, at, to)
		}
		return text
	}
	if all := load(moved(finishedEvent(30), "2026-11-10T00:00:00Z")); all.Start == 0 || all.Start > all.End {
		t.Errorf("all times are before the session: from %d to %d", all.Start, all.End)
	}
	for name, test := range map[string]struct {
		time string
		end  int64
	}{
		"not set yet":  {"1970-01-02T00:00:00Z", want.End},
		"a month late": {"2026-10-20T00:00:00Z", want.End},
		"years ahead":  {"2031-01-01T00:00:00Z", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixNano()},
	} {
		got := load(lines(0, 3) + moved(finishedEvent(30), test.time))
		says.True(t, got.Start == want.Start && got.End == test.end, "%s: from %s to %s", name,
			time.Unix(0, got.Start).UTC(), time.Unix(0, got.End).UTC())
		says.Equal(t, got.Tasks.Len(), want.Tasks.Len()+1, "%s: tasks", name)
	}
}

// TestWrongClocksOfAnIndex: an index may have been made before wrong clocks were left out.
func TestWrongClocksOfAnIndex(t *testing.T) {
	began, stored := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC), time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	s := Session{Ref: testSession, Start: 1, End: stored.AddDate(5, 0, 0).UnixNano(), stored: stored,
		Life: lifetime.Life{Start: began}}
	if s.boundTimes(); s.Start != began.UnixNano() || s.End != stored.UnixNano() {
		t.Errorf("from %s to %s", time.Unix(0, s.Start).UTC(), time.Unix(0, s.End).UTC())
	}
}

func TestLoadDamagedChunkKeepsTheRest(t *testing.T) {
	b := newBucket()
	first, second := lines(0, 400), lines(400, 410)
	damaged := layouttest.Pack(t, first, layout.Gzip)
	b.objects[layout.ChunkKey(testWhole, 0, layout.Gzip)] = damaged[:len(damaged)/2]
	b.objects[layout.ChunkKey(testWhole, int64(len(first)), layout.Gzip)] = layouttest.Pack(t, second, layout.Gzip)
	s := loadBucket(t, b)
	got := finished(s)
	says.True(t, len(got) >= 50 && len(got) <= 405 && slices.Equal(got[len(got)-10:], span(400, 410)),
		"%d tasks finished, the last ones %v: want a part of the first 400 and all of 400 to 409", len(got),
		got[max(0, len(got)-10):])
}

func TestLoadVanishedObject(t *testing.T) {
	b := newBucket()
	gone := layout.ChunkKey(testWhole, 0, layout.Plain)
	b.objects[gone], b.gone[gone] = []byte(lines(0, 5)), true
	b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 5))), layout.Plain)] = []byte(lines(5, 9))
	s := loadBucket(t, b)
	says.EqualSlices(t, finished(s), span(5, 9), "finished tasks")
	says.True(t, len(s.Warnings) == 1 && strings.Contains(s.Warnings[0], "is gone"), "warnings %q", s.Warnings)
}

// TestLoadArchivedEvents: a session opens without the events that the store has archived, says what to do, and is loaded
// again later, because they may be restored by then.
func TestLoadArchivedEvents(t *testing.T) {
	pad := `{"eventId":"AA==","message":"` + strings.Repeat("x", 400_000) + `",`
	large := strings.ReplaceAll(lines(0, 50), `{"eventId":"AA==",`, pad) // so large that it is read in parts
	for name, chunks := range map[string][2]string{
		"the first": {large, lines(50, 60)}, "a later one": {lines(50, 60), large},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			for i, text := range chunks {
				key := layout.ChunkKey(testWhole, int64(i*len(chunks[0])), layout.Plain)
				if b.objects[key] = []byte(text); text == large {
					b.broken[key] = fmt.Errorf("%w: its words", blob.ErrArchived)
				}
			}
			s := loadBucket(t, b)
			got := finished(s)
			says.EqualSlices(t, got[len(got)-10:], span(50, 60), "%s: finished tasks", name)
			says.All(t, strings.Join(s.Warnings, "\n"), "is archived by the store: restore it")
			says.True(t, s.Archived() && !s.Broken(), "%s: archived %t, broken %t", name, s.Archived(), s.Broken())
			if time.Sleep(archivedFor + time.Second); !s.Broken() {
				t.Errorf("%s: it is not loaded again", name)
			}
		})
	}
}

func TestLoadFailsWithTheStore(t *testing.T) {
	refused := errors.New("the store is on fire")
	for name, broken := range map[string]error{"error": refused, "permission": fs.ErrPermission} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			b.objects[testWhole] = []byte(lines(0, 50))
			b.broken[testWhole] = broken
			_, err := Load(t.Context(), b, layout.DefaultRoot, testSession, Options{})
			says.True(t, errors.Is(err, broken) && strings.Contains(err.Error(), testWhole),
				"error %v, want the store's, with the key", err)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		b := newBucket()
		b.objects[testWhole] = []byte(lines(0, 50))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		says.ErrorIs(t, says.Err(Load(ctx, b, layout.DefaultRoot, testSession, Options{})), context.Canceled, "error")
	})
}

// TestLoadLargeWhole: what is replayed in parts is replayed whole, in each form and with chunks cut anywhere.
func TestLoadLargeWhole(t *testing.T) {
	pad := `"message":"` + strings.Repeat(`{\"eventId\":`, 4000) + `",`
	const tasks = 350
	var events []string
	for n := range tasks {
		events = append(events, definitionEvent(n), strings.Replace(finishedEvent(n), `{"eventId":"AA==",`,
			`{"eventId":"AA==",`+pad, 1))
	}
	for _, tt := range []struct{ name, text string }{
		{"lines", strings.Join(events, "\n") + "\n"},
		{"array", "[" + strings.Join(events, ",") + "]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			must.True(t, len(tt.text) >= 2*itemBytes, "the text has %d bytes, which is not enough to be divided",
				len(tt.text))
			for _, cuts := range [][]int{{0}, {0, 1 << 20, 9<<20 + 3, 15 << 20}} {
				b := newBucket()
				for i, from := range cuts {
					to := len(tt.text)
					if i+1 < len(cuts) {
						to = cuts[i+1]
					}
					b.objects[layout.ChunkKey(testWhole, int64(from), layout.Plain)] = []byte(tt.text[from:to])
				}
				s := loadBucket(t, b)
				says.Equal(t, len(finished(s)), tasks, "%d chunks: tasks finished", len(cuts))
				says.EqualSlices(t, s.Warnings, nil, "%d chunks: warnings", len(cuts))
				says.Equal(t, s.source.counts.Events, int64(2*tasks), "%d chunks: events read", len(cuts))
			}
		})
	}
}

// TestLoadLargeStreamWithoutItsFirstBytes: if the first chunk of a stream that is divided is damaged and empty, the
// others are read.
func TestLoadLargeStreamWithoutItsFirstBytes(t *testing.T) {
	const tasks, first = 50, 1000
	pad := `{"eventId":"AA==","message":"` + strings.Repeat("x", 400_000) + `",`
	for _, listed := range []string{"", "x"} {
		b := newBucket()
		b.objects[testWhole] = []byte(listed)
		b.objects[layout.ChunkKey(testWhole, first, layout.Plain)] = []byte(strings.ReplaceAll(lines(0, tasks),
			`{"eventId":"AA==",`, pad))
		if listed != "" {
			b.broken[testWhole] = io.EOF // it has become empty since
		}
		s := loadBucket(t, b)
		says.EqualSlices(t, finished(s), span(0, tasks), "finished tasks")
		says.True(t, len(s.Warnings) != 0, "nothing is said about the missing bytes")
	}
}

// manyChunks stores the tasks' events as a chunk each, of one file.
func manyChunks(tasks int) *bucket {
	b := newBucket()
	at := 0
	for n := range tasks {
		for _, e := range []string{definitionEvent(n) + "\n", finishedEvent(n) + "\n"} {
			b.objects[layout.ChunkKey(testWhole, int64(at), layout.Plain)] = []byte(e)
			at += len(e)
		}
	}
	return b
}

// TestLoadManySmallChunks: small chunks are fetched several at a time, and read in order.
func TestLoadManySmallChunks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := manyChunks(1000)
		b.delay = 10 * time.Millisecond
		began := time.Now()
		s := loadBucket(t, b)
		got := finished(s)
		says.True(t, len(got) == 1000 && len(s.Warnings) == 0, "%d tasks finished, warnings %q", len(got), s.Warnings)
		took, most := time.Since(began), 2000*b.delay/(chunks.PrefetchChunks/2)
		says.True(t, took <= most, "took %v, want at most %v", took, most)
	})
}

// TestLoadCancelled: nothing of a load that is given up goes on. The test ends only when all goroutines have.
func TestLoadCancelled(t *testing.T) {
	for after := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := manyChunks(100)
			b.delay = 10 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(after)*7*time.Millisecond/2)
			defer cancel()
			says.ErrorIs(t, says.Err(Load(ctx, b, layout.DefaultRoot, testSession, Options{})),
				context.DeadlineExceeded, "error")
		})
	}
}

func TestProgress(t *testing.T) {
	b := newBucket()
	first := lines(0, 10)
	b.objects[testWhole] = []byte(first)
	b.objects[layout.ChunkKey(testWhole, int64(len(first)), layout.Gzip)] = layouttest.Pack(t, lines(10, 20),
		layout.Gzip)
	var size int64
	for _, body := range b.objects {
		size += int64(len(body))
	}
	var p progress.Counter
	must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{Progress: &p}))(t)
	got := [...]int64{p.ObjectsTotal.Load(), p.ObjectsDone.Load(), p.BytesTotal.Load(), p.BytesDone.Load()}
	says.Equal(t, got, [...]int64{2, 2, size, size}, "objects total and done, bytes total and done")
}

func TestWarningsAreBounded(t *testing.T) {
	b := newBucket()
	for n := range 3 * maxWarnings {
		b.objects[layout.ChunkKey(testWhole, int64(n)*1000, layout.Gzip)] = fmt.Append(nil, "no gzip")
	}
	s := loadBucket(t, b)
	says.True(t, len(s.Warnings) <= maxWarnings+10, "%d warnings", len(s.Warnings))
}
