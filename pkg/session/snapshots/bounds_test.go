package snapshots

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func lastOf(t *testing.T, set *Set, url string) *Snapshot {
	t.Helper()
	snap := must.Get(set.Last(url, 0))(t)
	return snap
}

// TestHostileSnapshot: one that takes thirty times its size to parse is refused before it takes what it may not, is not
// read again, and is told of.
func TestHostileSnapshot(t *testing.T) {
	key := layout.SnapshotKey("log", testSession, "/api/jobs/")
	for name, body := range map[string]string{
		"small and wide": "[" + strings.Repeat("{},", 300_000) + "{}]", // 30 MB
		"large and wide": "[" + strings.Repeat("{},", 3_000_000) + "{}]",
		"large":          `"` + strings.Repeat("x", 40<<20) + `"`,
	} {
		t.Run(name, func(t *testing.T) {
			set, store := snapshots(t, map[string]string{key: body})
			set.opts.Memory = budget.New(budget.Options{Bytes: 64 << 20}) // 24 MiB for one large snapshot
			snap := lastOf(t, set, "/api/jobs/")
			used := storetest.Allocated(func() {
				for range 3 {
					says.ErrorIs(t, says.Err(set.Value(t.Context(), snap)), ErrMalformed)
				}
			})
			if used > 64<<20 { // what lists are grown out of is counted too
				t.Errorf("%d bytes were allocated", used)
			}
			says.True(t, store.Read.Load() <= 2*int64(len(body)), "%d bytes were read of %d", store.Read.Load(),
				len(body))
			told := set.Refused()
			says.True(t, len(told) == 1 && strings.Contains(told[0], "/api/jobs is left out"), "told %q", told)
			next, _ := snapshots(t, map[string]string{key: body})
			next.store, next.opts.Memory = store, set.opts.Memory
			next.Adopt(set)
			read := store.Read.Load()
			_, err := next.Value(t.Context(), lastOf(t, next, "/api/jobs"))
			says.True(t, errors.Is(err, ErrMalformed) && store.Read.Load() == read && len(next.Refused()) == 1,
				"after a refresh: %v, %d more bytes read, told %q", err, store.Read.Load()-read, next.Refused())
			set.opts.Memory = budget.New(budget.Options{Bytes: 1 << 30})
			set.Shrink()
			says.OK(t, says.Err(set.Value(t.Context(), snap)), "with memory enough")
		})
	}
}

// TestHugeSnapshot is not read at all.
func TestHugeSnapshot(t *testing.T) {
	key := layout.SnapshotKey("log", testSession, "/nodes?view=summary")
	set, store := snapshots(t, nil)
	o, err := layout.ParseObject("log", testSession, key)
	must.OK(t, err)
	set.Add(o, blob.Object{Key: key, Size: 180 << 20})
	_, err = set.Value(t.Context(), lastOf(t, set, "/nodes?view=summary"))
	says.True(t, errors.Is(err, ErrMalformed) && store.Read.Load() == 0 && len(set.Refused()) == 1,
		"%v, %d bytes read, told %q", err, store.Read.Load(), set.Refused())
}

// TestParsedOnce: who asks at the same time waits for one parse.
func TestParsedOnce(t *testing.T) {
	body := "[" + strings.Repeat(`{"a": [1, 2, "three"]},`, 50_000) + "1]"
	set, store := snapshots(t, map[string]string{layout.SnapshotKey("log", testSession, "/events"): body})
	// a second parse would be refused
	set.opts.Memory = budget.New(budget.Options{Bytes: 256 << 20, Wait: time.Nanosecond})
	grew := 0
	set.opts.Grew = func() { grew++ }
	snap := lastOf(t, set, "/events")
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			says.OK(t, says.Err(set.Value(t.Context(), snap)))
		})
	}
	wait.Wait()
	says.True(t, store.Read.Load() == int64(len(body)) && grew == 1, "%d bytes read of %d, told of growth %d times",
		store.Read.Load(), len(body), grew)
	held := set.MemoryBytes()
	if set.Shrink(); set.MemoryBytes() > held/10 {
		t.Errorf("%d bytes held of %d after all was let go", set.MemoryBytes(), held)
	}
	_, err := set.Value(t.Context(), snap)
	says.True(t, err == nil && store.Read.Load() == 2*int64(len(body)), "%v, %d bytes read", err, store.Read.Load())
}

// TestBusyIsNotMalformed: a snapshot that had to wait too long is there later.
func TestBusyIsNotMalformed(t *testing.T) {
	set, _ := snapshots(t, map[string]string{layout.SnapshotKey("log", testSession, "/events"): "[1]"})
	set.opts.Memory = budget.New(budget.Options{Bytes: 64 << 20, Wait: time.Nanosecond})
	release, err := set.opts.Memory.Reserve(t.Context(), budget.Parse, set.opts.Memory.Size(budget.Parse))
	must.OK(t, err)
	snap := lastOf(t, set, "/events")
	_, err = set.Value(t.Context(), snap)
	says.True(t, errors.Is(err, budget.ErrBusy) && !errors.Is(err, ErrMalformed), "%v, want that it is busy", err)
	release()
	says.OK(t, says.Err(set.Value(t.Context(), snap)))
}

// TestAdopted: a refreshed set does not read again what has not changed, and reads what has.
func TestAdopted(t *testing.T) {
	same, changes := layout.SnapshotKey("log", testSession, "/events"), layout.SnapshotKey("log", testSession, "/nodes")
	former, store := snapshots(t, map[string]string{same: "[1]", changes: "[2]"})
	for _, url := range []string{"/events", "/nodes"} {
		must.OK(t, says.Err(former.Value(t.Context(), lastOf(t, former, url))))
	}
	next, _ := snapshots(t, map[string]string{same: "[1]", changes: "[2, 3]"})
	store.Objects[changes] = []byte("[2, 3]")
	next.store = store
	next.Adopt(former)
	read := store.Read.Load()
	v, err := next.Value(t.Context(), lastOf(t, next, "/events"))
	says.True(t, err == nil && len(v.([]any)) == 1 && store.Read.Load() == read, "%v, %v: %d bytes read", v, err,
		store.Read.Load()-read)
	v, err = next.Value(t.Context(), lastOf(t, next, "/nodes"))
	says.True(t, err == nil && len(v.([]any)) == 2, "%v, %v", v, err)
}

// TestSeriesIsReadOnce: figures of a moment are in two hours, each of which is read once, and what is added to it
// alone.
func TestSeriesIsReadOnce(t *testing.T) {
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	line := func(at time.Time, node string) string {
		return fmt.Sprintf(`{"t": %d, "node": %q}`+"\n", at.UnixMilli(), node)
	}
	before, now := line(hour.Add(-time.Minute), "a"), line(hour.Add(time.Minute), "b")+strings.Repeat("{}\n", 10)
	whole := layout.SeriesKey("log", testSession, hour)
	bodies := map[string]string{layout.SeriesKey("log", testSession, hour.Add(-time.Hour)): before,
		layout.ChunkKey(whole, 0, layout.Plain): now}
	set, store := snapshots(t, bodies)
	nodes := func(set *Set, at time.Time) (names []string) {
		samples := must.Get(set.SamplesAt(t.Context(), at.UnixNano()))(t)
		for name := range samples {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for i := range 5 {
		says.EqualSlices(t, nodes(set, hour.Add(time.Duration(i+2)*time.Minute)), []string{"a", "b"}, "nodes")
	}
	want := int64(len(before) + len(now))
	says.True(t, store.Read.Load() == want, "%d bytes read, want each once: %d", store.Read.Load(), want)
	added := line(hour.Add(2*time.Minute), "c")
	chunk := layout.ChunkKey(whole, int64(len(now)), layout.Plain)
	bodies[chunk], store.Objects[chunk] = added, []byte(added)
	next := setOf(t, store, bodies)
	next.Adopt(set)
	read := store.Read.Load()
	got := nodes(next, hour.Add(3*time.Minute))
	says.True(t, slices.Equal(got, []string{"a", "b", "c"}) && store.Read.Load() == read+int64(len(added)),
		"nodes %q; %d bytes read, want the new ones: %d", got, store.Read.Load()-read, len(added))
	says.EqualSlices(t, nodes(set, hour.Add(3*time.Minute)), []string{"a", "b"}, "the former session's nodes changed")
}

// TestSmallBudget: a snapshot of the usual size that needs more than the part for these has is parsed in the part for
// large ones, not with more memory than was reserved.
func TestSmallBudget(t *testing.T) {
	body := "[" + strings.Repeat(`{"a": [1, 2, "three"]},`, 5_000) + "1]"
	set, _ := snapshots(t, map[string]string{layout.SnapshotKey("log", testSession, "/events"): body})
	set.opts.Memory = budget.New(budget.Options{Bytes: 10 << 20, Wait: time.Nanosecond})
	release, err := set.opts.Memory.Reserve(t.Context(), budget.LargeParse, set.opts.Memory.Size(budget.LargeParse))
	must.OK(t, err)
	snap := lastOf(t, set, "/events")
	says.ErrorIs(t, says.Err(set.Value(t.Context(), snap)), budget.ErrBusy)
	release()
	says.OK(t, says.Err(set.Value(t.Context(), snap)))
}
