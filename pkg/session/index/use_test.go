package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// loadAuto loads the session from its index or, if it has none, from its events.
func (s *stored) loadAuto(o *Opener) *session.Session {
	s.t.Helper()
	loaded := must.Get(session.Load(s.t.Context(), s.store, layout.DefaultRoot, s.ref,
		session.Options{Log: s.log, Index: o}))(s.t)
	return loaded
}

func (s *stored) key(table string) string { return layout.IndexKey(layout.DefaultRoot, s.ref, table) }

func (s *stored) read(key string) []byte {
	s.t.Helper()
	r := must.Get(s.store.Get(s.t.Context(), key, 0, -1))(s.t)
	defer func() { _ = r.Close() }()
	data := must.Get(io.ReadAll(r))(s.t)
	return data
}

func (s *stored) put(key string, data []byte) {
	s.t.Helper()
	must.OK(s.t, s.store.Put(s.t.Context(), key, strings.NewReader(string(data))))
}

// list answers a list of all tasks.
func list(s *session.Session) (int, error) {
	picked, err := s.Tasks.Select(tasktable.Query{Limit: 10_000})
	if err != nil {
		return 0, err
	}
	for i := range picked.Rows {
		row, err := picked.Row(i)
		if err != nil {
			return 0, err
		}
		row.States(nil)
	}
	return picked.Matching, s.Tasks.Err()
}

// TestAddedEventsMakeAnIndexStale: whatever is stored later is shown, by a refresh and by another load.
func TestAddedEventsMakeAnIndexStale(t *testing.T) {
	s := generated(t, 100)
	s.write(s.load())
	o := s.opener()
	first := s.loadAuto(o)
	if same, err := first.Refresh(t.Context()); err != nil || same != first || !first.Indexed() {
		t.Fatalf("indexed %v; refreshed to another session: %v", first.Indexed(), err)
	}
	s.end()
	after := s.loadAuto(o)
	for how, next := range map[string]*session.Session{"refreshed": must.Get(first.Refresh(t.Context()))(t),
		"loaded": after} {
		says.True(t, !next.Indexed() && next.Ended(), "%s: indexed %v, ended %v after something was stored", how,
			next.Indexed(), next.Ended())
	}
	s.write(after)
	says.True(t, s.loadAuto(o).Indexed(), "the new index is not used")
}

// TestDamage: an index with any table missing, cut, of another index or with a byte changed is never answered from.
func TestDamage(t *testing.T) {
	s := generated(t, 300)
	events := s.load()
	want := must.Get(list(events))(t)
	other := generated(t, 301)
	other.write(other.load())
	s.write(events)
	damages := map[string]func(table string, data []byte) []byte{
		"missing": func(string, []byte) []byte { return nil },
		"cut":     func(_ string, data []byte) []byte { return data[:len(data)/2] },
		"changed": func(_ string, data []byte) []byte {
			data = slices.Clone(data)
			for i := 4; i < len(data); i += 7 {
				data[i] ^= 0x55
			}
			return data
		},
		"foreign": func(table string, _ []byte) []byte { return other.read(other.key(table)) },
	}
	for _, table := range []string{metaTable, rowsTableName, textsTable, definitionsTable, actorsTable, jobsTable} {
		whole := s.read(s.key(table))
		for name, damage := range damages {
			t.Run(table+" "+name, func(t *testing.T) {
				damaged := damage(table, whole)
				must.OK(t, s.store.Delete(t.Context(), s.key(table)))
				if damaged != nil {
					s.put(s.key(table), damaged)
				}
				o := s.opener()
				loaded := s.loadAuto(o)
				got, err := list(loaded)
				if err != nil {
					// Only reading the rows showed it: the next load knows.
					says.True(t, loaded.Broken(), "an error, and yet the session is not broken")
					loaded = s.loadAuto(o)
					if got, err = list(loaded); err != nil {
						t.Fatal(err)
					}
				}
				says.True(t, got == want && !loaded.Indexed(), "%d rows, want %d; indexed %v", got, want,
					loaded.Indexed())
			})
		}
		s.put(s.key(table), whole)
	}
	says.True(t, s.loadAuto(s.opener()).Indexed(), "the mended index is not used")
}

// denied is a store that may only be read.
type denied struct{ blob.Store }

func (denied) Put(_ context.Context, key string, _ io.ReadSeeker) error {
	return fmt.Errorf("put %s: %w", key, blob.ErrPermission)
}

func TestStoreThatMayNotBeWrittenTo(t *testing.T) {
	s := generated(t, 100)
	events := s.load()
	says.Error(t, (&Writer{Opener: s.opener(), Put: denied{s.store}.Put}).Write(t.Context(), events, nil),
		"--index-cache-dir", "without a folder")
	cache := NewCache(filepath.Join(t.TempDir(), "cache"), 1<<30)
	o := &Opener{Store: s.store, Cache: cache, Root: layout.DefaultRoot, Log: s.log}
	says.True(t, !s.loadAuto(o).Indexed(), "an index before there is one")
	must.OK(t, (&Writer{Opener: o, Put: denied{s.store}.Put}).Write(t.Context(), events, nil))
	says.True(t, s.loadAuto(o).Indexed(), "the index in the folder is not used")
}

// TestCacheIsBounded: the index written last stays, the oldest go.
func TestCacheIsBounded(t *testing.T) {
	dir := t.TempDir()
	cache := NewCache(dir, 1) // less than any index takes
	for _, tasks := range []int{50, 60} {
		s := generated(t, tasks)
		writer := &Writer{Opener: s.opener(), Put: denied{s.store}.Put}
		writer.Cache = cache
		must.OK(t, writer.Write(t.Context(), s.load(), nil))
		found, err := filepath.Glob(filepath.Join(dir, "log/index/*/*/meta.parquet"))
		says.True(t, err == nil && len(found) == 1 && strings.Contains(found[0], s.ref.Name), "indexes kept: %v, %v",
			found, err)
		old := time.Now().Add(-time.Hour)
		for _, path := range found {
			must.OK(t, os.Chtimes(path, old, old))
		}
	}
}

// TestBackground: a session that was loaded from events has an index soon, and whoever loads it next uses it.
func TestBackground(t *testing.T) {
	s := generated(t, minRows)
	o := s.opener()
	b := NewBackground(&Writer{Opener: o, Put: s.store.Put}, prometheus.NewRegistry())
	loaded := s.loadAuto(o)
	for !s.loadAuto(o).Indexed() {
		b.Offer(loaded, true)
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("no index")
		}
	}
	b.done.Wait()
	written := testutil.ToFloat64(b.writes)
	b.Offer(must.Get(loaded.Refresh(t.Context()))(t), true) // as the cache does for a minute after the end
	if b.done.Wait(); testutil.ToFloat64(b.writes) != written {
		t.Error("the index is written again")
	}
	b.Close()
	if small := generated(t, 10).load(); small.Tasks.Len() > 0 {
		b.Offer(small, true) // nobody takes it, and nobody waits
	}
}

// TestIndexesThatFail are tried again after some time, unless they would fail again; an index of metrics that worked is
// looked at again when something was stored since.
func TestIndexesThatFail(t *testing.T) {
	s := generated(t, minRows)
	loaded := s.load()
	for name, tt := range map[string]struct {
		err   error
		again bool
	}{
		"the store did not answer": {errors.New("timeout"), true},
		"a panic":                  {nil, false},
		"the store is read-only":   {fmt.Errorf("put: %w", blob.ErrPermission), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fail := func() error {
					if tt.err == nil {
						panic("oh no")
					}
					return tt.err
				}
				b := NewBackground(&Writer{Opener: s.opener(),
					Jobs:    func(context.Context, *session.Session) ([]Job, error) { return nil, fail() },
					Metrics: func(context.Context, layout.Session, bool) error { return fail() }},
					prometheus.NewRegistry())
				defer b.Close()
				b.writeIndex(t.Context(), loaded)
				b.writeMetrics(t.Context(), loaded)
				says.True(t, !b.lacksIndex(loaded) && !b.lacksMetrics(loaded), "what has just failed is tried again")
				time.Sleep(retryAfter + time.Second)
				if b.lacksIndex(loaded) != tt.again || b.lacksMetrics(loaded) != tt.again {
					t.Errorf("later the index is tried again: %t, that of the metrics: %t", b.lacksIndex(loaded),
						b.lacksMetrics(loaded))
				}
				fail = func() error { return nil }
				if b.writeMetrics(t.Context(), loaded); b.lacksMetrics(loaded) {
					t.Error("an index of metrics that is there is made again")
				}
				time.Sleep(retryAfter + time.Second)
				says.True(t, !b.lacksMetrics(loaded), "an index of metrics that is there is made again later")
			})
		})
	}
	b := NewBackground(&Writer{Opener: s.opener(),
		Metrics: func(context.Context, layout.Session, bool) error { return nil }}, prometheus.NewRegistry())
	defer b.Close()
	b.writeMetrics(t.Context(), loaded)
	s.end()
	says.True(t, !b.lacksMetrics(loaded) && b.lacksMetrics(s.load()),
		"when something was stored the index of metrics is not looked at again")
}

// TestBackgroundOfARunningSession: a session that grows is indexed when enough was added, and its next index when a
// good part was again.
func TestBackgroundOfARunningSession(t *testing.T) {
	s := generated(t, minRows)
	b := NewBackground(s.writer(), prometheus.NewRegistry())
	defer b.Close()
	first := s.load()
	b.growth = first.EventBytes() + 1
	says.True(t, !b.hasGrown(first), "an index is due of a session that is small")
	b.growth = first.EventBytes() / 10
	// What is stored now makes the index one of a part.
	s.put(layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode, time.Unix(1e9, 0)), []byte("{}\n"))
	b.Offer(first, false)
	b.done.Wait()
	again := s.loadAuto(s.opener())
	says.True(t, !again.Indexed() && again.IndexedBytes() == first.EventBytes(), "of %d bytes, the index has %d",
		again.EventBytes(), again.IndexedBytes())
	says.True(t, !b.hasGrown(again), "an index is due though little was added")
	s.put(layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode, time.Unix(2e9, 0)),
		bytes.Repeat([]byte("{}\n"), int(first.EventBytes())/9))
	says.True(t, b.hasGrown(s.loadAuto(s.opener())), "no index is due though a third was added")
}

// TestBackgroundOfJoinedChunks: when chunks of a running session are joined, its index is worth nothing, and the next
// one is due at once; one is enough.
func TestBackgroundOfJoinedChunks(t *testing.T) {
	s := generated(t, minRows)
	o := s.opener()
	b := NewBackground(&Writer{Opener: o, Put: s.store.Put}, prometheus.NewRegistry())
	defer b.Close()
	whole := layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode, time.Unix(1e9, 0))
	second := layout.ChunkKey(whole, 3, layout.Plain)
	s.put(whole, []byte("{}\n"))
	s.put(second, []byte("{}\n"))
	loaded := s.loadAuto(o)
	b.growth = loaded.EventBytes() / 10
	index := func() {
		t.Helper()
		must.True(t, b.hasGrown(loaded), "no index is due")
		b.writeIndex(t.Context(), loaded)
		must.True(t, !b.hasGrown(loaded), "an index is due after one was written")
	}
	index()
	must.OK(t, s.store.Delete(t.Context(), second))
	s.put(whole, []byte("{}\n{}\n"))
	var err error
	if loaded, err = loaded.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	index()
	says.True(t, s.loadAuto(o).Indexed(), "the new index is not used")
	s.put(layout.NodeEventsKey(layout.DefaultRoot, s.ref, someNode, time.Unix(2e9, 0)), []byte("{}\n"))
	if loaded, err = loaded.Refresh(t.Context()); err != nil || loaded.Indexed() || b.hasGrown(loaded) {
		t.Errorf("%v; an index is due: %t, though little was added", err, b.hasGrown(loaded))
	}
}

// TestLookupsTouchFewRowGroups: by their statistics, a job's rows are in few of the row groups of the tables for
// analysis, and a task's in one.
func TestLookupsTouchFewRowGroups(t *testing.T) {
	s := generated(t, 2000)
	events := s.load()
	var tasks bytes.Buffer
	w := newTaskWriter(owner{}, "", true, &tasks, io.Discard, io.Discard)
	w.groupRows = 100
	must.OK(t, w.write(events.Tasks, func(int) {}))
	file := must.Get(parquet.OpenFile(bytes.NewReader(tasks.Bytes()), int64(tasks.Len())))(t)
	within := func(g parquet.RowGroup, column, value string) bool {
		leaf, ok := file.Schema().Lookup(column)
		must.True(t, ok, "no column %s", column)
		least, most, ok := g.ColumnChunks()[leaf.ColumnIndex].(*parquet.FileColumnChunk).Bounds()
		must.True(t, ok, "no statistics of %s", column)
		return string(least.ByteArray()) <= value && value <= string(most.ByteArray())
	}
	for _, job := range events.Jobs {
		picked := must.Get(events.Tasks.Select(tasktable.Query{Limit: 1 << 20,
			Filters: []tasktable.Filter{{Key: "job_id", Value: job.ID.String()}}}))(t)
		groups := 0
		for _, g := range file.RowGroups() {
			if within(g, "job_id", job.ID.String()) {
				groups++
			}
		}
		if most := picked.Matching/w.groupRows + 2; groups == 0 || groups > most {
			t.Errorf("job %s is in %d of %d row groups, want at most %d", job.ID, groups, len(file.RowGroups()), most)
		}
		row := must.Get(picked.Row(0))(t)
		task := row.ID().String()
		groups = 0
		for _, g := range file.RowGroups() {
			if within(g, "job_id", job.ID.String()) && within(g, "task_id", task) {
				groups++
			}
		}
		// The groups at a job's ends hold another one's tasks as well.
		says.True(t, groups != 0 && groups <= 3, "task %s may be in %d of %d row groups", task, groups,
			len(file.RowGroups()))
	}
}
