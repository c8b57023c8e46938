package sessionload

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/sessiongen"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
)

func newLoader(store blob.Store, sessions *catalog.Catalog, registry prometheus.Registerer) *Loader {
	writer := indexing.Places{Store: store, Root: layout.DefaultRoot, Log: logrus.New()}.Open()
	return New(Options{
		Store: store, Root: layout.DefaultRoot, Growing: sessions.Growing, Writer: writer,
		Log: logrus.New(), Registerer: registry,
	})
}

// TestRunningSessionIsIndexed: a server that loads a large running session leaves an index of it, and the next server
// reads only what was stored since.
func TestRunningSessionIsIndexed(t *testing.T) {
	dir := t.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: 20_000}) // 85 MB
	must.OK(t, err)
	store := must.Get(local.Open(dir))(t)
	start := func() *Loader {
		registry := prometheus.NewRegistry()
		sessions := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Log: logrus.New(),
			Registerer: registry})
		must.OK(t, sessions.Refresh(t.Context()))
		return newLoader(store, sessions, registry)
	}
	load := func(l *Loader) *session.Session {
		s := must.Get(l.load(t.Context(), stats.Session, &progress.Counter{}, nil, nil))(t)
		return s
	}
	first := start()
	s := load(first)
	says.Equal(t, testutil.ToFloat64(first.loads.WithLabelValues("events")), 1, "sessions loaded from events")
	for {
		if _, err := store.Stat(t.Context(), layout.IndexKey(layout.DefaultRoot, stats.Session, "meta")); err == nil {
			break
		}
		if _, err := first.refresh(t.Context(), s); err != nil { // as a client that polls does
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	first.Close()
	more := layout.NodeEventsKey(layout.DefaultRoot, stats.Session, rayid.Node{7}, time.Unix(1e9, 0))
	must.OK(t, store.Put(t.Context(), more, strings.NewReader("{}\n")))
	second := start()
	defer second.Close()
	again := load(second)
	if again.IndexedBytes() != s.EventBytes() || again.EventBytes() != s.EventBytes()+3 ||
		again.Tasks.Len() != s.Tasks.Len() {
		t.Errorf("%d of %d bytes from the index, want %d; %d attempts, want %d", again.IndexedBytes(),
			again.EventBytes(), s.EventBytes(), again.Tasks.Len(), s.Tasks.Len())
	}
	says.Equal(t, testutil.ToFloat64(second.loads.WithLabelValues("both")), 1,
		"sessions loaded from an index and events")
}

// TestLastLinesAfterTheEnd: who watches a session end sees what workers store after it, until nothing was stored for a
// while.
func TestLastLinesAfterTheEnd(t *testing.T) { synctest.Test(t, testLastLinesAfterTheEnd) }

func testLastLinesAfterTheEnd(t *testing.T) {
	store := must.Get(local.Open(t.TempDir()))(t)
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	log := layout.LogKey(layout.DefaultRoot, ref, rayid.Node{7}, "worker.out")
	put := func(key, body string) {
		t.Helper()
		must.OK(t, store.Put(t.Context(), key, strings.NewReader(body)))
	}
	put(layout.MarkerKey(layout.DefaultRoot, ref), "")
	put(log, "first\n")
	put(layout.MetadataKey(layout.DefaultRoot, ref, layout.End), `{"end":"2026-11-20T23:40:00Z"}`)
	registry := prometheus.NewRegistry()
	sessions := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Log: logrus.New(),
		Registerer: registry})
	must.Get(sessions.ReadAll(t.Context()))(t)
	loader := newLoader(store, sessions, registry)
	defer loader.Close()
	cache := loader.Cache(sessioncache.Options[*session.Session]{MaxBytes: 1 << 30, MaxLoads: 1,
		RefreshEvery: time.Second})
	defer cache.Close()
	size := func() int64 {
		t.Helper()
		s, release, err := cache.Get(t.Context(), ref)
		must.OK(t, err)
		defer release()
		f, err := s.Logs.Open(t.Context(), rayid.Node{7}, "worker.out")
		must.True(t, err == nil && s.Ended(), "ended %v, %v", s.Ended(), err)
		return f.Size()
	}
	n := size()
	must.True(t, n == 6, "%d bytes, want 6", n)
	put(layout.LogChunkKey(log, 6, layout.Plain), "last\n")
	time.Sleep(time.Minute) // of the test's clock: longer than the cache rests between two refreshes
	says.Equal(t, size(), 11, "bytes after the last line was stored")
}

// TestDamageIsCounted: a session of which an object is damaged counts as such when it is loaded.
func TestDamageIsCounted(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	grows := func(layout.Session, time.Time) bool { return true }
	loader := New(Options{Store: store, Root: layout.DefaultRoot, Growing: grows, Log: logrus.New(),
		Registerer: prometheus.NewRegistry()})
	defer loader.Close()
	for hour, chunk := range []layout.Compression{layout.Plain, layout.Zstd} {
		key := layout.NodeEventsKey(layout.DefaultRoot, ref, rayid.Node{7}, time.Unix(int64(hour)*3600, 0))
		must.OK(t, store.Put(t.Context(), layout.ChunkKey(key, 0, chunk), strings.NewReader("{}\n"))) // no Zstandard
		must.Get(loader.load(t.Context(), ref, &progress.Counter{}, nil, nil))(t)
		says.Equal(t, testutil.ToFloat64(loader.damaged), float64(hour), "damaged sessions after %s", key)
	}
}
