package snapshots

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

var testSession = layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
	Name: "session_2026-11-20_23-19-45_581717_22125"}

// snapshots stores answers: key → body.
func snapshots(t *testing.T, bodies map[string]string) (*Set, *storetest.Store) {
	t.Helper()
	store := storetest.New()
	return setOf(t, store, bodies), store
}

// setOf is snapshots with a store that may hold more.
func setOf(t *testing.T, store *storetest.Store, bodies map[string]string) *Set {
	t.Helper()
	set := New(store, Options{})
	for key, body := range bodies {
		store.Objects[key] = []byte(body)
		o := must.Get(layout.ParseObject("log", testSession, key))(t)
		set.Add(o, blob.Object{Key: key, Size: int64(len(body))})
	}
	return set
}

func TestSnapshotsByTime(t *testing.T) {
	key := layout.SnapshotKey("log", testSession, "/api/jobs/")
	at := func(minute int) time.Time { return time.Date(2026, 11, 20, 23, minute, 0, 0, time.UTC) }
	set, _ := snapshots(t, map[string]string{
		key: `"first"`, layout.SnapshotVersionKey(key, at(20)): `"at 20"`,
		layout.SnapshotVersionKey(key, at(40)): `"at 40"`,
	})
	for _, tt := range []struct {
		at   int64
		want string
	}{
		{0, "at 40"}, {at(10).UnixNano(), "first"}, {at(20).UnixNano(), "at 20"}, {at(39).UnixNano(), "at 20"},
		{at(50).UnixNano(), "at 40"},
	} {
		for _, url := range []string{"/api/jobs/", "/api/jobs"} {
			snap := must.Get(set.Last(url, tt.at))(t)
			if got, err := set.Value(t.Context(), snap); err != nil || got != tt.want {
				t.Errorf("%s at %d: %v, %v, want %s", url, tt.at, got, err, tt.want)
			}
		}
	}
	says.ErrorIs(t, says.Err(set.Last("/api/nope", 0)), os.ErrNotExist, "no snapshot")
}

// TestSnapshotBeforeTheFirst: where only later versions with times are stored, the earliest of them stands for what was
// before.
func TestSnapshotBeforeTheFirst(t *testing.T) {
	key := layout.SnapshotKey("log", testSession, "/events")
	taken := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC)
	set, _ := snapshots(t, map[string]string{layout.SnapshotVersionKey(key, taken): `1`})
	snap, err := set.Last("/events", taken.Add(-time.Hour).UnixNano())
	says.True(t, err == nil && snap.Taken == taken.UnixNano(), "%+v, %v", snap, err)
}

func TestSnapshotURLs(t *testing.T) {
	set, _ := snapshots(t, map[string]string{
		layout.SnapshotKey("log", testSession, "/api/v0/workers?detail=1&limit=10000"): `1`,
		layout.SnapshotKey("log", testSession, "/api/v0/workers"):                      `2`,
		layout.SnapshotKey("log", testSession, "/api/v0/nodes"):                        `3`,
	})
	says.EqualSlices(t, set.URLs("/api/v0/workers"),
		[]string{"/api/v0/workers", "/api/v0/workers?detail=1&limit=10000"}, "URLs")
}

func TestMalformedSnapshot(t *testing.T) {
	set, store := snapshots(t, map[string]string{layout.SnapshotKey("log", testSession, "/events"): `{"result": tr`})
	snap, err := set.Last("/events", 0)
	must.OK(t, err)
	for range 2 {
		if _, err := set.Value(t.Context(), snap); !errors.Is(err, ErrMalformed) ||
			!strings.Contains(err.Error(), "restful__events") {
			t.Errorf("error %v", err)
		}
	}
	says.Equal(t, store.Read.Load(), 13, "read %d bytes: a malformed snapshot is read once", store.Read.Load())
}

// TestSnapshotsHeld: parsed once while there is room, forgotten when there is not.
func TestSnapshotsHeld(t *testing.T) {
	bodies := map[string]string{}
	big := `"` + strings.Repeat("x", maxCachedBytes/8-100) + `"`
	var urls []string
	for i := range 9 { // one more than fit
		url := fmt.Sprintf("/nodes/%d", i)
		urls = append(urls, url)
		bodies[layout.SnapshotKey("log", testSession, url)] = big
	}
	set, store := snapshots(t, bodies)
	read := func(url string) {
		t.Helper()
		snap := must.Get(set.Last(url, 0))(t)
		must.OK(t, says.Err(set.Value(t.Context(), snap)))
	}
	for _, url := range urls {
		read(url)
		read(url)
	}
	want := int64(9 * len(big))
	says.True(t, store.Read.Load() == want, "read %d bytes, want each once: %d", store.Read.Load(), want)
	held := set.MemoryBytes()
	says.True(t, held <= maxCachedBytes+10_000, "%d bytes held, want at most %d", held, maxCachedBytes)
	read(urls[len(urls)-1])
	says.Equal(t, store.Read.Load(), int64(9*len(big)), "the last used was forgotten")
}

func TestSamplesAt(t *testing.T) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	line := func(minute int, node string, cpu float64) string {
		return fmt.Sprintf(`{"t": %d, "node": %q, "cpu": %v, "mem": [1, 2], "workers": 3}`+"\n",
			hour.Add(time.Duration(minute)*time.Minute).UnixMilli(), node, cpu)
	}
	first := line(-5, "a", 1) + "no JSON\n"
	second := line(10, "a", 2) + line(10, "b", 3)
	third := line(20, "a", 4)
	whole := layout.SeriesKey("log", testSession, hour)
	set, store := snapshots(t, map[string]string{
		layout.SeriesKey("log", testSession, hour.Add(-time.Hour)): first,
		layout.ChunkKey(whole, 0, layout.Plain):                    second,
		layout.ChunkKey(whole, int64(len(second)), layout.Zstd):    "",
	})
	zstdKey := layout.ChunkKey(whole, int64(len(second)), layout.Zstd)
	store.Objects[zstdKey] = layouttest.Pack(t, third, layout.Zstd)
	for minute, want := range map[int]string{-10: "map[]", 5: "map[a:1]", 15: "map[a:2 b:3]", 25: "map[a:4 b:3]"} {
		samples := must.Get(set.SamplesAt(t.Context(), hour.Add(time.Duration(minute)*time.Minute).UnixNano()))(t)
		cpu := map[string]float64{}
		for node, s := range samples {
			cpu[node] = s.CPU
		}
		says.Equal(t, fmt.Sprint(cpu), want, "minute %d", minute)
	}
}

// TestSamplesOfArchivedHour: hardware figures are those of the hours that the store has not archived.
func TestSamplesOfArchivedHour(t *testing.T) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	gone, there := layout.SeriesKey("log", testSession, hour.Add(-time.Hour)), layout.SeriesKey("log", testSession, hour)
	store := storetest.New()
	set := New(&storetest.Hooked{Store: store, Before: func(_ context.Context, op storetest.Op, key string) error {
		if op == storetest.Get && key == gone {
			return blob.ErrArchived
		}
		return nil
	}}, Options{})
	for key, at := range map[string]time.Time{gone: hour.Add(-time.Minute), there: hour.Add(time.Minute)} {
		store.Objects[key] = fmt.Appendf(nil, `{"t": %d, "node": %q}`+"\n", at.UnixMilli(), at.Format("15:04"))
		set.Add(must.Get(layout.ParseObject("log", testSession, key))(t), must.Get(store.Stat(t.Context(), key))(t))
	}
	samples := must.Get(set.SamplesAt(t.Context(), hour.Add(2*time.Minute).UnixNano()))(t)
	_, ok := samples["23:01"]
	says.True(t, ok && len(samples) == 1, "%+v", samples)
}

func TestSnapshotValueIsParsed(t *testing.T) {
	set, _ := snapshots(t, map[string]string{layout.SnapshotKey("log", testSession,
		"/events"): `{"b": 1.0, "a": [null]}`})
	snap, err := set.Last("/events", 0)
	must.OK(t, err)
	v, err := set.Value(t.Context(), snap)
	got := string(pyjson.Append(nil, v))
	says.True(t, err == nil && got == `{"b": 1.0, "a": [null]}`, "%s, %v", got, err)
}
