package faulttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Sessions of the store that tasks work on.
var (
	kept = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_22-00-00_000000_1"}
	old  = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
)

// folders are two stores: what tasks work on, and the target of copies.
type folders struct{ source, target blob.Store }

// task is a task of maintenance. check looks at the stores after a kill, or once the task was run to its end.
type task struct {
	run   func(ctx context.Context, f folders) error
	ops   []string // that it must have been killed at
	check func(t *testing.T, f folders, ended bool)
}

var tasks = map[string]task{
	"compaction": {
		run: func(ctx context.Context, f folders) error {
			result, err := compact.Session(ctx, old, compact.Options{Store: f.source, Root: "log", Quiet: time.Hour,
				Progress: &progress.Counter{}})
			if len(result.Left) > 0 {
				err = errors.Join(err, fmt.Errorf("not joined: %q", result.Left))
			}
			return err
		},
		ops: []string{"before put", "during put", "after put", "before delete", "after delete", "during create"},
		check: func(t *testing.T, f folders, ended bool) {
			wantStreams(t, f.source, old)
			for _, s := range must.Get(inventory.List(t.Context(), f.source, "log", old))(t).Streams {
				says.True(t, !ended || len(s.Chunks) == 1, "%s has %d chunks in the end", s.Key, len(s.Chunks))
			}
		},
	},
	"retention": {
		run: func(ctx context.Context, f folders) error {
			err := retention.Remove(ctx, f.source, "log", old, time.Now().Add(time.Hour), &progress.Counter{})
			return err
		},
		ops: []string{"before delete", "after delete", "during create"},
		check: func(t *testing.T, f folders, ended bool) {
			left := keysOf(t, f.source, old)
			says.True(t, !ended || len(left) == 0, "%q are left in the end", left)
			says.True(t, len(left) == 0 || slices.Contains(left, layout.MarkerKey("log", old)),
				"%q are left, and nothing lists them", left)
		},
	},
	"copy": {
		run: func(ctx context.Context, f folders) error {
			_, err := transfer.Copy(ctx, old, transfer.Place{Store: f.source, Root: "log"},
				transfer.Place{Store: f.target, Root: "log"}, &progress.Counter{})
			return err
		},
		ops: []string{"before create", "during create", "after create"},
		check: func(t *testing.T, f folders, ended bool) {
			wantStreams(t, f.source, old)
			listed := slices.Contains(keysOf(t, f.target, old), layout.MarkerKey("log", old))
			says.True(t, !ended || listed, "the copy is not listed in the end")
			if listed {
				wantStreams(t, f.target, old)
			}
		},
	},
	"packs": {
		run: func(ctx context.Context, f folders) error {
			p := packs.Packs{Store: f.source, Root: "log"}
			existing, err := p.List(ctx)
			if err == nil {
				err = p.Append(ctx, packDay, existing, []packs.Facts{factsOf(packed)})
			}
			if err == nil {
				_, err = p.Join(ctx, packDay, func(ref layout.Session) bool { return ref == factsOf(removed).Ref })
			}
			return err
		},
		ops: []string{"before create", "during create", "after create", "before delete", "after delete"},
		check: func(t *testing.T, f folders, ended bool) {
			rows := rowsOf(t, packs.Packs{Store: f.source, Root: "log"})
			for n := range packed + 1 {
				row, there := rows[factsOf(n).Ref]
				surely := n != removed && (n != packed || ended)
				says.True(t, there || !surely, "the facts of session %d are lost", n)
				says.True(t, !there || row.Cause == factsOf(n).Cause, "session %d: %+v", n, row)
			}
			_, there := rows[factsOf(removed).Ref]
			says.True(t, !ended || !there, "the removed session is still in a pack")
		},
	},
}

// In the store are packs of the sessions before packed; the session removed is removed.
const removed, packed = 2, 5

var packDay = time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)

func factsOf(n int) packs.Facts {
	start := packDay.Add(time.Duration(n) * time.Minute)
	f := packs.Facts{Ref: layout.Session{Namespace: "default", Cluster: "lab",
		Name: start.Format("session_2006-01-02_15-04-05_") + "000000_1"},
		Seen: start.Add(2 * time.Hour), Start: start, End: start.Add(time.Hour), LastWrite: start.Add(time.Hour)}
	f.Outcome, f.Cause = "failed", fmt.Sprintf("Task %d failed", n)
	return f
}

// rowsOf reads all packs; each must be whole.
func rowsOf(t *testing.T, p packs.Packs) map[layout.Session]packs.Facts {
	t.Helper()
	rows := map[layout.Session]packs.Facts{}
	for _, pack := range must.Get(p.List(t.Context()))(t) {
		says.OK(t, p.Read(t.Context(), pack, func(f *packs.Facts) error {
			rows[f.Ref] = *f
			return nil
		}))
	}
	return rows
}

// textOf are the streams of both sessions, by the beginning of their chunks' keys.
func textOf(ref layout.Session) map[string][]string {
	lines := func(name string) []string {
		return []string{name + " one\n", name + " two\n", name + " three\n"}
	}
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	return map[string][]string{
		layout.LogKey("log", ref, rayid.Node{1}, "raylet.out"):   lines("raylet"),
		layout.LogKey("log", ref, rayid.Node{2}, "a.gz"):         lines("not compressed"),
		layout.NodeEventsKey("log", ref, rayid.Node{1}, hour):    lines("event"),
		layout.LogKey("log", ref, rayid.Node{2}, "only/one.log"): {"whole\n"},
	}
}

// wantStreams compares what a session's streams read with what was stored.
func wantStreams(t *testing.T, store blob.Store, ref layout.Session) {
	t.Helper()
	got := map[string]string{}
	for _, s := range must.Get(inventory.List(t.Context(), store, "log", ref))(t).Streams {
		body := chunks.NewReader(t.Context(), store, &s.Stream, chunks.Options{})
		text, err := io.ReadAll(body)
		says.OK(t, errors.Join(err, body.Close()))
		got[s.Key] = string(text)
	}
	want := map[string]string{}
	for stream, parts := range textOf(ref) {
		want[stream] = strings.Join(parts, "")
	}
	says.True(t, maps.Equal(got, want), "the streams of %s read %q, want %q", ref, got, want)
}

// keysOf are the keys of all objects whose keys name a session.
func keysOf(t *testing.T, store blob.Store, ref layout.Session) (keys []string) {
	t.Helper()
	for o, err := range store.List(t.Context(), "log/", blob.ListOptions{}) {
		must.OK(t, err)
		if strings.Contains(o.Key, ref.Name) && !strings.HasPrefix(o.Key, "log/compaction/") {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// fill stores both sessions, and packs.
func fill(t *testing.T, store blob.Store) {
	t.Helper()
	put := func(key, body string) { must.OK(t, store.Create(t.Context(), key, strings.NewReader(body))) }
	for _, ref := range []layout.Session{kept, old} {
		put(layout.MarkerKey("log", ref), "")
		put(layout.MetadataKey("log", ref, layout.Start), "{}")
		for stream, parts := range textOf(ref) {
			key, offset := layout.ChunkKey, 0
			if layout.KindOfStream(stream) == layout.Log {
				key = layout.LogChunkKey
			}
			for _, part := range parts {
				put(key(stream, int64(offset), layout.Plain), part)
				offset += len(part)
			}
		}
		put(layout.MetadataKey("log", ref, layout.End), "{}") // last: else the session went on
	}
	for n := range packed {
		p := packs.Packs{Store: store, Root: "log"}
		must.OK(t, p.Append(t.Context(), packDay, must.Get(p.List(t.Context()))(t), []packs.Facts{factsOf(n)}))
	}
}

// open opens the stores in a folder, over which k counts.
func openFolders(dir string, k *killer) (f folders, err error) {
	source, err := local.Open(filepath.Join(dir, "data"))
	if err != nil {
		return f, err
	}
	target, err := local.Open(filepath.Join(dir, "copy"))
	return folders{k.over(source), k.over(target)}, err
}

// maintain is a task of maintenance that is killed.
func (r role) maintain() error {
	f, err := openFolders(r.Dir, &killer{dir: r.Dir, at: r.Write, phase: r.Phase})
	if err != nil {
		return err
	}
	return tasks[r.Task].run(context.Background(), f)
}

// TestMaintenanceKills kills each task of maintenance at each of its writes: before, in the midst and after. Whatever
// was stored can be read then, and the task ends its work when it is run again.
func TestMaintenanceKills(t *testing.T) {
	t.Parallel()
	filled := t.TempDir()
	fill(t, must.Get(openFolders(filled, &killer{}))(t).source)
	for name, task := range tasks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			counter := &killer{}
			f := must.Get(openFolders(copyOf(t, filled), counter))(t)
			must.OK(t, task.run(t.Context(), f))
			hits := map[string]int{}
			for at := 1; at <= int(counter.writes.Load()); at++ {
				hit := killOnce(t, filled, name, at, before)
				hits[hit]++
				if !strings.HasSuffix(hit, "delete") {
					hits[killOnce(t, filled, name, at, during)]++
				}
				hits[killOnce(t, filled, name, at, after)]++
			}
			t.Logf("kills: %v", hits)
			for _, op := range task.ops {
				says.True(t, hits[op] > 0, "it was never killed %s", op)
			}
		})
	}
}

// copyOf copies a folder of stores: to fill one syncs each object.
func copyOf(t *testing.T, filled string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must.OK(t, os.CopyFS(dir, os.DirFS(filled)))
	return dir
}

// killOnce kills a task at a write to a copy of the stores, and runs it again. It returns at which operation the task
// was.
func killOnce(t *testing.T, filled, name string, at, phase int) (hit string) {
	t.Helper()
	task, dir := tasks[name], copyOf(t, filled)
	f := must.Get(openFolders(dir, &killer{}))(t)
	out, err := role{Task: name, Life: Life{Dir: dir}, Write: at, Phase: phase}.command().CombinedOutput()
	text, _ := os.ReadFile(filepath.Join(dir, hitsFile))
	must.True(t, err != nil && len(text) > 0, "the write %d of %s was not reached: %v %s", at, name, err, out)
	check := func(ended bool) {
		task.check(t, f, ended)
		wantStreams(t, f.source, kept)
		must.True(t, !t.Failed(), "killed %s, at the write %d", text, at)
	}
	check(false)
	const timedOut = time.Hour // leases
	past := time.Now().Add(-timedOut)
	must.OK(t, filepath.WalkDir(filepath.Join(dir, "data", "log", "compaction"),
		func(path string, _ os.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return errors.Join(err, os.Chtimes(path, past, past))
		}))
	must.OK(t, task.run(t.Context(), f))
	check(true)
	return string(text)
}
