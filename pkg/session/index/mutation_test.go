package index

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

const (
	// mutationCap is the memory for sessions and answers, mutationSlack how much more the process may hold at its peak,
	// in hundredths.
	mutationCap   = 256 << 20
	mutationSlack = 25
	// mutationTime bounds opening a session and asking it, which takes a second at most where nothing hangs.
	mutationTime = 10 * time.Minute
)

// TestMutations changes some bytes of a stored object, of any kind, opens the session and asks it. Whatever they are,
// nothing ends the process, nothing hangs, and memory stays within its bound. MUTATIONS says how many are tried,
// MUTATION_SEED which.
func TestMutations(t *testing.T) {
	n, seed := 300, uint64(1)
	if race.Enabled {
		n = 6 // each takes seconds
	}
	if text := os.Getenv("MUTATIONS"); text != "" {
		n = number(t, text)
	}
	if text := os.Getenv("MUTATION_SEED"); text != "" {
		seed = uint64(number(t, text))
	}
	var targets []*mutated
	for i, name := range []string{"ray-2.60", "ray-2.55"} {
		r := recording.OpenNamed(t, name)
		s := open(t, r.Store(), r.Session)
		if i > 0 {
			compressEvents(t, s)
		}
		loaded := s.load()
		s.write(loaded)
		s.keepFindings(loaded)
		targets = append(targets, newMutated(t, s, loaded))
	}
	runtime.GC()
	peak, stop := watchHeap()
	began := time.Now()
	refused := 0
	for i := range n {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		if targets[i%len(targets)].try(t, i, random) {
			refused++
		}
	}
	stop()
	t.Logf("%d mutations in %s, %d sessions told of damage, at most %d MiB", n, time.Since(began).Round(time.Second),
		refused, peak()>>20)
	if most := int64(mutationCap) * (100 + mutationSlack) / 100; peak() > most {
		t.Errorf("at most %d bytes of heap, want %d", peak(), most)
	}
}

func number(t *testing.T, text string) int {
	n := must.Get(strconv.Atoi(text))(t)
	return n
}

// compressEvents stores a session's events compressed, as a collector may be told to.
func compressEvents(t *testing.T, s *stored) {
	t.Helper()
	z := must.Get(zstd.NewWriter(nil))(t)
	prefix := layout.Prefix(layout.DefaultRoot, s.ref)
	for _, key := range keysBelow(t, s, prefix) {
		if o, err := layout.ParseObject(layout.DefaultRoot, s.ref, key); err == nil &&
			(o.Kind == layout.NodeEvents || o.Kind == layout.JobEvents) {
			s.put(layout.ChunkKey(o.Stream, o.Offset, layout.Zstd), z.EncodeAll(s.read(key), nil))
			must.OK(t, s.store.Delete(t.Context(), key))
		}
	}
}

func keysBelow(t *testing.T, s *stored, prefix string) (keys []string) {
	t.Helper()
	for o, err := range s.store.List(t.Context(), prefix, blob.ListOptions{}) {
		must.OK(t, err)
		if o.Size > 0 {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// mutated is a session whose objects are changed one at a time.
type mutated struct {
	*stored
	kinds [][]string // keys by kind of object, each table of the index a kind
	urls  []string
}

func newMutated(t *testing.T, s *stored, loaded *session.Session) *mutated {
	m := &mutated{stored: s, urls: []string{
		"/api/v0/tasks?detail=1&limit=10000", "/api/v0/tasks?limit=3", "/api/v0/tasks/summarize",
		"/api/v0/tasks/summarize?summary_by=lineage",
		"/api/v0/tasks/timeline", "/logical/actors", "/api/v0/actors?detail=1", "/api/jobs/", "/nodes?view=summary",
		"/api/v0/workers?detail=1",
		"/api/v0/placement_groups?detail=1", "/api/v0/cluster_events", "/api/serve/applications/",
		"/api/v0/tasks?filter_keys=state&filter_predicates=%3D&filter_values=failed",
		"/api/cluster_status", "/api/history/findings",
	}}
	for _, node := range loaded.Nodes {
		m.urls = append(m.urls, "/nodes/"+node.ID.String(), "/api/v0/logs?node_id="+node.ID.String())
		for _, path := range loaded.Logs.Paths(node.ID) {
			if strings.HasPrefix(path, "raylet") || strings.HasPrefix(path, "worker-") && len(m.urls) < 40 {
				m.urls = append(m.urls, "/api/v0/logs/file?lines=10&node_id="+node.ID.String()+"&filename="+path)
			}
		}
	}
	for n := 0; n < loaded.Tasks.Len(); n += 1 + loaded.Tasks.Len()/5 {
		m.urls = append(m.urls, fmt.Sprintf(
			"/api/v0/tasks?detail=1&filter_keys=task_id&filter_predicates=%%3D&filter_values=%s",
			loaded.Tasks.Row(n, 0).ID()))
	}
	byKind := map[string][]string{}
	for _, key := range slices.Concat(keysBelow(t, s, layout.Prefix(layout.DefaultRoot, s.ref)),
		keysBelow(t, s, layout.IndexPrefix(layout.DefaultRoot, s.ref))) {
		if o, err := layout.ParseObject(layout.DefaultRoot, s.ref, key); err == nil {
			kind := fmt.Sprint(o.Kind)
			if o.Kind == layout.Index {
				if kind = strings.TrimSuffix(o.Path, ".parquet"); kind != "findings.json" &&
					!slices.Contains(serverTables, kind) {
					continue // the server does not read it
				}
			}
			byKind[kind] = append(byKind[kind], key)
		}
	}
	for _, keys := range byKind {
		m.kinds = append(m.kinds, keys)
	}
	slices.SortFunc(m.kinds, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return m
}

// try changes one object, and says whether the session told of it.
func (m *mutated) try(t *testing.T, i int, random *rand.Rand) (told bool) {
	kind := m.kinds[random.IntN(len(m.kinds))]
	key := kind[random.IntN(len(kind))]
	body := bytes.Clone(m.stored.read(key))
	what := fmt.Sprintf("mutation %d: %s", i, key)
	for range 1 + random.IntN(8) {
		at := random.IntN(len(body))
		value := byte(random.Uint32())
		if random.IntN(2) == 0 {
			value = body[at] ^ 1<<random.IntN(8)
		}
		what += fmt.Sprintf(" [%d]=%#x", at, value)
		body[at] = value
	}
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%s: %v\n%s", what, p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), mutationTime)
	defer cancel()
	store := changed{m.store, key, body}
	index := &Opener{Store: store, Root: layout.DefaultRoot, Log: m.log}
	m.said.Reset()
	s, err := session.Load(ctx, store, layout.DefaultRoot, m.ref, session.Options{
		Log: m.log, Index: index, Reserve: func(held int64) bool { return held < mutationCap/2 },
		Memory: budget.New(budget.Options{Bytes: mutationCap / 2}),
	})
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return true
	}
	h := answering(dashboard.New(dashboard.Options{Log: m.log, Findings: findings.Reader{Kept: index.KeptFindings},
		Memory: budget.New(budget.Options{Bytes: mutationCap / 2})}), s, 0)
	for _, url := range m.urls {
		w := &answer{header: http.Header{}}
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, url, nil))
	}
	says.OK(t, ctx.Err(), "%s: not done after %s", what, mutationTime)
	says.True(t, !strings.Contains(m.said.String(), "internal error"), "%s: a panic was caught: %s", what,
		m.said.String())
	return len(s.Warnings) > 0 || s.Broken()
}

// answer is an answer that nobody keeps.
type answer struct{ header http.Header }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) Write(p []byte) (int, error) { return len(p), nil }
func (a *answer) WriteHeader(int)             {}

// watchHeap notes the most that the heap's objects took, garbage too.
func watchHeap() (peak func() int64, stop func()) {
	var most int64
	done, ended := make(chan struct{}), make(chan struct{})
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				metrics.Read(sample)
				most = max(most, int64(sample[0].Value.Uint64()))
			case <-done:
				return
			}
		}
	}()
	return func() int64 { return most }, func() {
		close(done)
		<-ended
	}
}

// FuzzTable: whatever bytes a table of an index has, the index is refused or read, and no more memory is asked for than
// there is.
func FuzzTable(f *testing.F) {
	s := generated(f, 30)
	loaded := s.load()
	s.write(loaded)
	for i, table := range serverTables {
		f.Add(uint8(i), s.read(s.key(table)))
	}
	sources := map[string]session.Sources{}
	for _, fingerprint := range []string{loaded.Fingerprint(), "of more"} {
		sources[fingerprint] = s.sources(fingerprint)
	}
	f.Fuzz(func(t *testing.T, table uint8, body []byte) {
		key := s.key(serverTables[int(table)%len(serverTables)])
		o := s.opener()
		o.Store = changed{s.store, key, body}
		for _, asked := range sources {
			for i := range asked.Index {
				if asked.Index[i].Key == key && serverTables[int(table)%len(serverTables)] == metaTable {
					asked.Index[i].Size = int64(len(body)) // that of other tables is in meta
				}
			}
			tables, _ := o.Open(t.Context(), s.ref, asked, func(held int64) bool { return held < 64<<20 })
			if tables == nil {
				continue
			}
			for g := range tables.First {
				_, _ = tables.Source.Blocks(g, tasktable.AllParts)
			}
		}
	})
}
