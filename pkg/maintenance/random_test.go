// Package maintenance_test runs the tasks of maintenance at the same time, in random orders.
package maintenance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/archive"
	"github.com/rayhistory/historyserver/pkg/maintenance/compact"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/maintenance/transfer"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

var ref = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}

// stream is what a collector stores under one key.
type stream struct {
	key         string
	kind        layout.Kind
	node        rayid.Node
	path        string // of a log
	compression layout.Compression
	text        string // all that is ever written
}

// known is how many bytes of each stream are surely stored.
type known map[*stream]int

// TestTasksAtTheSameTime: whatever collectors have stored reads back, at any moment, while tasks of maintenance and
// readers run at the same time, fail, are killed or are stopped for longer than a lease lasts.
func TestTasksAtTheSameTime(t *testing.T) {
	seeds := uint64(60)
	if n, err := strconv.ParseUint(os.Getenv("MAINTENANCE_TEST_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { newModel(t, seed).run() }) })
	}
}

type model struct {
	*world
	source, target *objects
	streams        []*stream
	stored         map[*objects]known
	mortal         bool // the session may be removed until it is pinned
}

func newModel(t *testing.T, seed uint64) *model {
	random := rand.New(rand.NewPCG(seed, 1))
	m := &model{world: &world{t: t, random: random, faults: seed%3 != 0}, source: newObjects("source"),
		target: newObjects("target")}
	m.stored = map[*objects]known{m.source: {}, m.target: {}}
	m.changed = m.check
	node, other := rayid.Node{1}, rayid.Node{2}
	hour := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	m.streams = []*stream{
		{kind: layout.Log, node: node, path: "raylet.out", key: layout.LogKey("log", ref, node, "raylet.out")},
		{kind: layout.NodeEvents, node: other, key: layout.NodeEventsKey("log", ref, other, hour)},
		{kind: layout.Log, node: other, path: "a.gz", key: layout.LogKey("log", ref, other, "a.gz")},
	}
	m.streams[1].compression = []layout.Compression{layout.Plain, layout.Gzip}[random.IntN(2)]
	for _, s := range m.streams {
		var text strings.Builder
		for i := range 3 + random.IntN(10) {
			fmt.Fprintf(&text, "%s line %d %s\n", s.path, i, strings.Repeat("x", random.IntN(20)))
		}
		s.text = text.String()
	}
	return m
}

func (m *model) run() {
	m.mortal = m.random.IntN(4) == 0
	create(m.t, store{objects: m.source}, layout.MarkerKey("log", ref), "")
	for _, s := range m.streams {
		m.start("collector", func(ctx context.Context, p *program) { m.collect(ctx, p, s) })
	}
	tasks := []func(){
		func() { m.start("compact", func(ctx context.Context, p *program) { m.compact(ctx, p, m.source) }) },
		func() { m.start("compact", func(ctx context.Context, p *program) { m.compact(ctx, p, m.source) }) },
		func() { m.start("read", m.read) },
	}
	if m.mortal {
		m.start("pin", m.pin)
		tasks = append(tasks, func() { m.start("rm", m.remove) }, func() { m.start("rm", m.remove) })
	} else {
		tasks = append(tasks,
			func() { m.start("copy", m.copy) }, func() { m.start("copy", m.copy) },
			func() { m.start("export", m.export) },
			func() { m.start("compact", func(ctx context.Context, p *program) { m.compact(ctx, p, m.target) }) })
	}
	for _, i := range m.random.Perm(len(tasks))[:3+m.random.IntN(len(tasks)-2)] {
		tasks[i]()
	}
	m.world.run()
}

// fail reports an error with all that was done before it.
func (m *model) fail(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.t.Failed() {
		m.t.Log(strings.Join(m.trace, "\n"))
		m.t.Errorf(format, args...)
	}
}

func create(t *testing.T, at blob.Store, key, text string) {
	must.OK(t, at.Create(t.Context(), key, strings.NewReader(text)))
}

// pause waits a random time, up to most.
func (p *program) pause(most time.Duration) { time.Sleep(time.Duration(p.random.Int64N(int64(most)))) }

// collect stores a stream in chunks, as a shipper does, and the session's end somewhere between.
func (m *model) collect(ctx context.Context, p *program, s *stream) {
	at := store{m.source, p}
	end, listed := 0, false
	for end < len(s.text) && ctx.Err() == nil {
		if !listed {
			var err error
			if end, err = m.listedEnd(ctx, at, s); err != nil {
				continue
			}
			listed = true
		}
		n := min(1+p.random.IntN(2*len(s.text)/5), len(s.text)-end)
		if s.kind != layout.Log {
			n = strings.IndexByte(s.text[end:], '\n') + 1
		}
		body := layouttest.Pack(m.t, s.text[end:end+n], s.compression)
		key := layout.ChunkKey(s.key, int64(end), s.compression)
		if s.kind == layout.Log {
			key = layout.LogChunkKey(s.key, int64(end), s.compression)
		}
		if err := at.Create(ctx, key, bytes.NewReader(body)); err != nil {
			listed = false
			continue
		}
		end += n
		if !m.mortal {
			m.store(m.source, known{s: end})
		}
		if p.random.IntN(3) == 0 {
			_ = at.Create(ctx, layout.MetadataKey("log", ref, layout.End), strings.NewReader("{}"))
		}
		p.pause(time.Minute)
	}
}

// listedEnd is where a stream ends by a listing; of compressed chunks a collector knows at least what it has stored
// itself.
func (m *model) listedEnd(ctx context.Context, at store, s *stream) (end int, err error) {
	for o, err := range at.List(ctx, s.key, blob.ListOptions{}) {
		if err != nil {
			return 0, err
		}
		if _, offset, c, _ := layout.ParseChunk(o.Key); c == layout.Plain || s.kind == layout.Log {
			end = max(end, int(offset+o.Size))
		}
	}
	return max(end, m.knownOf(m.source)[s]), nil
}

func (m *model) compact(ctx context.Context, p *program, of *objects) {
	for range 3 {
		_, _ = compact.Session(ctx, ref, compact.Options{Store: store{of, p}, Root: "log", Quiet: time.Hour,
			Progress: &progress.Counter{}})
		p.pause(10 * time.Minute)
	}
}

func (m *model) copy(ctx context.Context, p *program) {
	for range 3 {
		before := m.knownOf(m.source)
		from, to := transfer.Place{Store: store{m.source, p}, Root: "log"},
			transfer.Place{Store: store{m.target, p}, Root: "log"}
		if _, err := transfer.Copy(ctx, ref, from, to, &progress.Counter{}); err == nil {
			m.store(m.target, before)
			m.check()
		}
		p.pause(5 * time.Minute)
	}
}

func (m *model) export(ctx context.Context, p *program) {
	for range 3 {
		before := m.knownOf(m.source)
		var file bytes.Buffer
		if err := archive.Export(ctx, store{m.source, p}, "log", ref, &file, &progress.Counter{}); err == nil {
			imported := newObjects("imported")
			_, err := archive.Import(context.Background(), &file,
				archive.Options{Store: store{objects: imported}, Root: "log", MaxBytes: 1 << 20,
					Progress: &progress.Counter{}})
			if err != nil {
				m.fail("import: %v", err)
			}
			m.compare(imported, before)
		}
		p.pause(5 * time.Minute)
	}
}

func (m *model) remove(ctx context.Context, p *program) {
	for range 3 {
		p.pause(10 * time.Minute)
		_ = retention.Remove(ctx, store{m.source, p}, "log", ref, time.Now().Add(time.Hour), &progress.Counter{})
	}
}

// pin pins the session once its collectors have ended. If the pin is known to be in time, everything that is there
// stays.
func (m *model) pin(ctx context.Context, p *program) {
	p.pause(20 * time.Minute)
	_, err := notes.Change(ctx, store{m.source, p}, "log", ref, func(n *notes.Note) error {
		n.Pinned = true
		return nil
	})
	if err != nil {
		return
	}
	held := known{}
	for _, s := range m.streams {
		text, err := readStream(context.Background(), store{objects: m.source}, s, nil)
		if err == nil && strings.HasPrefix(s.text, text) {
			held[s] = len(text)
		}
	}
	m.store(m.source, held)
}

// read reads all streams as the server does.
func (m *model) read(ctx context.Context, p *program) {
	at := store{m.source, p}
	for range 6 {
		if m.mortal {
			return
		}
		before := m.knownOf(m.source)
		p.forget()
		if err := m.readAll(ctx, at, before); err != nil && !p.disturbed() {
			m.fail("a reader: %v", err)
		}
		p.pause(2 * time.Minute)
	}
}

func (m *model) readAll(ctx context.Context, at store, before known) error {
	opened, err := session.List(ctx, at, "log", ref)
	if err != nil {
		return err
	}
	prefetcher := chunks.NewPrefetcher(at)
	defer prefetcher.Stop()
	for _, s := range m.streams {
		if before[s] == 0 {
			continue
		}
		var text string
		if s.kind == layout.Log {
			f, err := opened.Logs.Open(ctx, s.node, s.path)
			if err != nil {
				return err
			}
			data, err := f.ReadRange(ctx, 0, f.Size())
			if err != nil {
				return err
			}
			text = string(data)
		} else if text, err = readStream(ctx, at, s, prefetcher); err != nil {
			return err
		}
		if !strings.HasPrefix(s.text, text) || len(text) < before[s] {
			return fmt.Errorf("%s reads %q, want at least %q", s.key, text, s.text[:before[s]])
		}
	}
	return nil
}

// readStream reads the chunks of a stream that are listed now.
func readStream(ctx context.Context, at store, s *stream, prefetcher *chunks.Prefetcher) (string, error) {
	listed, err := inventory.List(ctx, at, "log", ref)
	if err != nil {
		return "", err
	}
	for _, found := range listed.Streams {
		if found.Key == s.key {
			body := chunks.NewReader(ctx, at, &found.Stream, chunks.Options{Prefetcher: prefetcher})
			text, err := io.ReadAll(body)
			return string(text), errors.Join(err, body.Close())
		}
	}
	return "", os.ErrNotExist
}

// store notes that bytes are surely stored.
func (m *model) store(at *objects, more known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s, n := range more {
		m.stored[at][s] = max(m.stored[at][s], n)
	}
}

func (m *model) knownOf(at *objects) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.stored[at])
}

// check compares what is stored at this moment with what must be.
func (m *model) check() {
	for _, at := range []*objects{m.source, m.target} {
		m.compare(at, m.knownOf(at))
	}
}

func (m *model) compare(at *objects, want known) {
	for s, n := range want {
		text, err := readStream(context.Background(), store{objects: at}, s, nil)
		if !strings.HasPrefix(s.text, text) || len(text) < n { // what comes after a gap is not there yet
			m.fail("%s holds %q of %s, %v; want at least %q", at.name, text, s.key, err, s.text[:n])
		}
	}
}
