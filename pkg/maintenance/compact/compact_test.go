package compact

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

var (
	ref  = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	node = rayid.Node{1}
	hour = time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
)

var errFault = errors.New("a fault of the test")

// faulty is a store whose operations fail from the one that is due on; those that were begun before are done.
func faulty(store blob.Store, left int) blob.Store {
	var mu sync.Mutex
	return &storetest.Hooked{Store: store, Before: func(_ context.Context, op storetest.Op, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op != storetest.Get && op != storetest.Put && op != storetest.Delete:
			return nil
		case left == 0:
			return errFault
		}
		left--
		return nil
	}}
}

type piece struct {
	offset int64
	c      layout.Compression
	text   string
}

func create(t *testing.T, store blob.Store, key string, body []byte) {
	t.Helper()
	must.OK(t, store.Create(t.Context(), key, bytes.NewReader(body)))
}

func fill(t *testing.T, store blob.Store, whole string, log bool, pieces []piece) {
	t.Helper()
	for i, p := range pieces {
		key := layout.ChunkKey(whole, p.offset, p.c)
		if log {
			key = layout.LogChunkKey(whole, p.offset, p.c)
		}
		if i > 0 && p.offset == 0 && p.c == layout.Plain {
			key = layout.SpelledChunkKey(whole, 0, p.c)
		}
		create(t, store, key, layouttest.Pack(t, p.text, p.c))
	}
}

func end(t *testing.T, store blob.Store) {
	t.Helper()
	create(t, store, layout.MetadataKey("log", ref, layout.End), []byte("{}"))
}

func options(store blob.Store) Options {
	return Options{Store: store, Root: "log", Quiet: time.Hour, Progress: &progress.Counter{}}
}

// listing gives the log set of what is stored now.
func listing(t *testing.T, store blob.Store) *sessionlogs.Set {
	t.Helper()
	logs := sessionlogs.New(store)
	for object, err := range store.List(t.Context(), layout.Prefix("log", ref), blob.ListOptions{}) {
		must.OK(t, err)
		o := must.Get(layout.ParseObject("log", ref, object.Key))(t)
		if o.Kind == layout.Metadata {
			continue
		}
		if o.Kind != layout.Log { // events are read by the same rules
			o.Kind, o.Path = layout.Log, "events"
		}
		logs.Add(o, object)
	}
	return logs
}

func read(t *testing.T, logs *sessionlogs.Set, path string) string {
	t.Helper()
	f := must.Get(logs.Open(t.Context(), node, path))(t)
	data := must.Get(f.ReadRange(t.Context(), 0, f.Size()))(t)
	return string(data)
}

func keys(t *testing.T, store blob.Store, prefix string) (all []string) {
	t.Helper()
	for o, err := range store.List(t.Context(), prefix, blob.ListOptions{}) {
		must.OK(t, err)
		all = append(all, o.Key)
	}
	return all
}

const plain, gz, zst = layout.Plain, layout.Gzip, layout.Zstd

var arrangements = map[string]struct {
	pieces []piece
	want   string
	events layout.Compression // of the joined events
}{
	"plain": {[]piece{{0, plain, "one\n"}, {4, plain, "two\n"}, {8, plain, "three\n"}}, "one\ntwo\nthree\n", plain},
	"zstd":  {[]piece{{0, zst, "one\n"}, {4, zst, "two\n"}, {8, zst, "three\n"}}, "one\ntwo\nthree\n", zst},
	"gzip":  {[]piece{{0, gz, "one\n"}, {4, gz, "two\n"}}, "one\ntwo\n", gz},
	"mixed": {[]piece{{0, zst, "one\n"}, {4, plain, "two\n"}, {8, gz, "three\n"}}, "one\ntwo\nthree\n", plain},
	"overlapping": {[]piece{{0, plain, "one\n"}, {2, plain, "e\ntwo\n"}, {4, plain, "two\nthree\n"}},
		"one\ntwo\nthree\n", plain},
	"overlapping and zstd": {[]piece{{0, zst, "one\n"}, {1, zst, "ne\ntwo\n"}}, "one\ntwo\n", plain},
	"empty first":          {[]piece{{0, plain, ""}, {0, plain, "one\n"}, {4, plain, "two\n"}}, "one\ntwo\n", plain},
	"joined, chunks left":  {[]piece{{0, plain, "one\ntwo\n"}, {4, plain, "two\n"}}, "one\ntwo\n", plain},
	"joined, more came":    {[]piece{{0, plain, "one\ntwo\n"}, {8, plain, "three\n"}}, "one\ntwo\nthree\n", plain},
	"joined of mixed, not gone": {[]piece{{0, plain, "one\ntwo\n"}, {0, zst, "one\n"}, {4, gz, "two\n"}}, "one\ntwo\n",
		plain},
}

// TestReadersSeeAllBytesWhateverFails cuts compaction short at every operation, lets it go on, and reads in between by
// listings of then and of before.
func TestReadersSeeAllBytesWhateverFails(t *testing.T) {
	for name, tc := range arrangements {
		for kind, whole := range map[string]string{
			"log":    layout.LogKey("log", ref, node, "raylet.out"),
			"events": layout.NodeEventsKey("log", ref, node, hour),
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				want, path := tc.events, "events"
				if kind == "log" {
					want, path = plain, "raylet.out"
				}
				store := storetest.New()
				fill(t, store, whole, kind == "log", tc.pieces)
				end(t, store)
				before := listing(t, store)
				for left := range 100 {
					_, err := Session(t.Context(), ref, options(faulty(store, left)))
					if got := read(t, listing(t, store), path); got != tc.want {
						t.Fatalf("cut short after %d operations, readers see %q, want %q", left, got, tc.want)
					}
					if kind == "log" || want == plain {
						got := read(t, before, path)
						must.True(t, got == tc.want,
							"cut short after %d operations, who listed before sees %q, want %q", left, got, tc.want)
					}
					if err == nil {
						break
					}
					must.True(t, errors.Is(err, errFault), err)
					must.OK(t, store.Delete(t.Context(), lease.Key("log", ref))) // it ran out
				}
				left := keys(t, store, whole)
				if key := (&chunks.Stream{Key: whole, Kind: map[string]layout.Kind{"log": layout.Log,
					"events": layout.NodeEvents}[kind]}).FirstKey(want); len(left) != 1 || left[0] != key {
					t.Errorf("left is %q, want %s", left, key)
				}
			})
		}
	}
}

func TestDamagedWholesAreLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		pieces []piece
		spoil  string
		kept   int
	}{
		"a gap":      {[]piece{{0, plain, "one\n"}, {9, plain, "two\n"}}, "", 2},
		"a conflict": {[]piece{{0, plain, "one\n"}, {2, plain, "XXtwo\n"}}, "", 2},
		"a bad frame": {[]piece{{0, plain, "one\n"}, {4, zst, "two\n"}},
			layout.LogChunkKey(layout.LogKey("log", ref, node, "a"), 4, zst), 2},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.New()
			fill(t, store, layout.LogKey("log", ref, node, "a"), true, tc.pieces)
			end(t, store)
			if tc.spoil != "" {
				must.OK(t, store.Put(t.Context(), tc.spoil, strings.NewReader("no frame")))
			}
			result, err := Session(t.Context(), ref, options(store))
			says.True(t, err == nil && len(result.Left) == 1 && result.Joined == 0, "%+v, %v", result, err)
			left := keys(t, store, layout.LogKey("log", ref, node, "a"))
			says.True(t, len(left) == tc.kept, "left is %q", left)
			_, recorded := store.Objects[layout.MetadataKey("log", ref, layout.Joined)]
			if written := name == "a conflict"; recorded != written {
				t.Errorf("when it ended is recorded: %t; something was joined: %t", recorded, written)
			}
		})
	}
}

// TestChangedChunksAreLeft: if a chunk is replaced by a longer or a shorter one after it was read once, nothing is
// stored or removed.
func TestChangedChunksAreLeft(t *testing.T) {
	for name, c := range map[string]layout.Compression{"plain": plain, "zstd": zst} {
		for _, text := range []string{"two\nand more\n", "t\n"} {
			inner := storetest.New()
			events := layout.NodeEventsKey("log", ref, node, hour)
			fill(t, inner, events, false, []piece{{0, c, "one\n"}, {4, c, "two\n"}})
			end(t, inner)
			last, reads := layout.ChunkKey(events, 4, c), 0
			store := &storetest.Hooked{Store: inner, Before: func(_ context.Context, op storetest.Op, key string) error {
				if op == storetest.Get && key == last {
					if reads++; reads == 2 {
						return inner.Put(t.Context(), key, bytes.NewReader(layouttest.Pack(t, text, c)))
					}
				}
				return nil
			}}
			result, err := Session(t.Context(), ref, options(store))
			if left := keys(t, inner, events); err == nil && len(result.Left) != 1 || reads != 2 || len(left) != 2 {
				t.Errorf("%s, %q: left is %q after %d reads: %+v, %v", name, text, left, reads, result, err)
			}
			first := must.Get(blob.ReadRange(t.Context(), inner, layout.ChunkKey(events, 0, c), 0, 100))(t)
			says.True(t, bytes.Equal(first, layouttest.Pack(t, "one\n", c)), "%s, %q: the first chunk was replaced",
				name, text)
		}
	}
}

// TestRegionsAreLeft: a collector that goes on in a region would not find its offsets in a joined object.
func TestRegionsAreLeft(t *testing.T) {
	store := storetest.New()
	events := layout.NodeEventsKey("log", ref, node, hour)
	fill(t, store, events, false, []piece{{0, zst, "one\n"}, {layout.NextRegion(0), zst, "two\n"}})
	end(t, store)
	result, err := Session(t.Context(), ref, options(store))
	says.True(t, err == nil && len(result.Left) == 1 && len(keys(t, store, events)) == 2, "%+v, %v", result, err)
}

func TestRunningSessionsOpenHoursAndLogsAreLeft(t *testing.T) {
	store := storetest.New()
	now := time.Now().UTC().Round(time.Hour) // so that no hour ends while the test runs that has to be over, or has not
	pieces := []piece{{0, plain, "one\n"}, {4, plain, "two\n"}}
	log, open, last := layout.LogKey("log", ref, node, "a"), layout.NodeEventsKey("log", ref, node, now),
		layout.NodeEventsKey("log", ref, node, now.Add(-time.Hour))
	over, packed := layout.NodeEventsKey("log", ref, node, now.Add(-5*time.Hour)),
		layout.NodeEventsKey("log", ref, node, now.Add(-6*time.Hour))
	for _, whole := range []string{log, open, last, over} {
		fill(t, store, whole, whole == log, pieces)
	}
	fill(t, store, packed, false, []piece{{0, zst, "one\n"}, {4, zst, "two\n"}})
	result, err := Session(t.Context(), ref, options(store))
	says.True(t, err == nil && result.Joined == 1 && result.Removed == 1, "%+v, %v", result, err)
	got := keys(t, store, over)
	says.True(t, len(got) == 1 && got[0] == over, "the hour that is over: %q", got)
	for _, whole := range []string{log, open, last, packed} {
		if got := keys(t, store, whole); len(got) != 2 {
			t.Errorf("%q was touched", got)
		}
	}
}

func TestOneCompactorAtATime(t *testing.T) {
	store := storetest.New()
	fill(t, store, layout.LogKey("log", ref, node, "a"), true, arrangements["plain"].pieces)
	end(t, store)
	err := lease.Do(t.Context(), store, "log", ref, func(context.Context) error {
		says.ErrorIs(t, says.Err(Session(t.Context(), ref, options(store))), lease.ErrBusy, "beside another")
		store.Written(lease.Key("log", ref), time.Now().Add(-2*lease.Timeout))
		if result, err := Session(t.Context(), ref, options(store)); err != nil || result.Joined != 1 {
			t.Errorf("after a lease that ran out: %+v, %v", result, err)
		}
		return nil
	})
	says.ErrorIs(t, err, lease.ErrLost, "who lost its lease is told")
}

func TestManyCompactorsAtOnce(t *testing.T) {
	store := storetest.New()
	var want strings.Builder
	var pieces []piece
	for i := range 50 {
		line := fmt.Sprintf("line %d\n", i)
		pieces = append(pieces, piece{int64(want.Len()), plain, line})
		want.WriteString(line)
	}
	fill(t, store, layout.LogKey("log", ref, node, "a"), true, pieces)
	end(t, store)
	before := listing(t, store)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := Session(t.Context(), ref, options(store))
			says.True(t, err == nil || errors.Is(err, lease.ErrBusy), err)
		})
	}
	for range 20 {
		says.Equal(t, read(t, before, "a"), want.String(), "a reader sees")
	}
	group.Wait()
	says.Equal(t, read(t, listing(t, store), "a"), want.String(), "readers see")
}

// TestWithoutEndMarker: a session whose head was lost is joined once it surely is over, and its end stays what it was.
// One of which all was stored hours late may be a copy, or that of a collector that the store did not answer.
func TestWithoutEndMarker(t *testing.T) {
	for _, test := range []struct {
		silent, late time.Duration
		joined       int
	}{{2 * time.Hour, 0, 0}, {48 * time.Hour, 0, 1}, {2 * time.Hour, 5 * time.Hour, 0},
		{48 * time.Hour, 5 * time.Hour, 1}} {
		store := storetest.New()
		last := time.Now().Add(-test.silent).Truncate(time.Second)
		hour := last.Add(-test.late)
		end := last
		if test.late > 0 {
			end = hour.Truncate(time.Hour).Add(time.Hour)
		}
		whole := layout.NodeEventsKey("log", ref, node, hour)
		fill(t, store, whole, false, arrangements["plain"].pieces)
		for _, key := range keys(t, store, whole) {
			store.Written(key, last)
		}
		result, err := Session(t.Context(), ref, options(store))
		says.True(t, err == nil && result.Joined == test.joined, "%+v: %+v, %v", test, result, err)
		data := store.Object(layout.MetadataKey("log", ref, layout.Joined))
		var facts layout.JoinedMetadata
		says.True(t, test.joined <= 0 || json.Unmarshal(data, &facts) == nil && facts.End.Equal(end),
			"%+v: the end is %q, want %s", test, data, end)
	}
}

// TestWrongClock: to a clock that is ahead a running session has ended. Nothing of it is joined.
func TestWrongClock(t *testing.T) {
	store := storetest.New()
	whole := layout.LogKey("log", ref, node, "a")
	fill(t, store, whole, true, arrangements["plain"].pieces)
	behind := &storetest.Hooked{Store: store,
		Object: func(o *blob.Object) { o.ModTime = o.ModTime.Add(-48 * time.Hour) }}
	says.ErrorIs(t, says.Err(Session(t.Context(), ref, options(behind))), lease.ErrClock,
		"by a clock that is two days ahead")
	left := keys(t, store, whole)
	says.True(t, len(left) == 3, "left is %q", left)
}

// TestBatches: small streams come first, together; large ones one after the other.
func TestBatches(t *testing.T) {
	var streams []*inventory.Stream
	for _, of := range [][2]int64{{batchBytes, 2}, {7, batchChunks}, {5, 3}, {batchBytes, 1}, {6, 2}} {
		s := &inventory.Stream{}
		for i := range of[1] {
			s.Add(layout.Object{}, blob.Object{Size: of[0] * (1 - min(1, i))})
		}
		streams = append(streams, s)
	}
	var sizes []string
	for _, batch := range divide(streams) {
		var of []int64
		for _, s := range batch {
			of = append(of, s.Bytes())
		}
		sizes = append(sizes, fmt.Sprint(of))
	}
	says.Equal(t, strings.Join(sizes, " "), "[5 6] [7] [1073741824] [1073741824]", "joined")
}
