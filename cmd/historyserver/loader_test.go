package main

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/sessiongen"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// TestRunningSessionIsIndexed: a server that loads a large running session leaves an index of it, and the next server reads only what was
// stored since.
func TestRunningSessionIsIndexed(t *testing.T) {
	dir := t.TempDir()
	stats, err := sessiongen.Write(dir, sessiongen.Options{Tasks: 20_000}) // 85 MB
	if err != nil {
		t.Fatal(err)
	}
	store, err := local.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	start := func() *loader {
		registry := prometheus.NewRegistry()
		sessions := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Log: logrus.New(), Registerer: registry})
		if err := sessions.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := serveOptions{indexMode: "auto"}
		o.storage.Root = layout.DefaultRoot
		return o.newLoader(store, sessions, logrus.New(), registry)
	}
	load := func(l *loader) *session.Session {
		s, err := l.load(t.Context(), stats.Session, &session.Progress{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := start()
	s := load(first)
	if from := testutil.ToFloat64(first.loads.WithLabelValues("events")); from != 1 {
		t.Errorf("%v sessions loaded from events, want 1", from)
	}
	for {
		if _, err := store.Stat(t.Context(), layout.IndexKey(layout.DefaultRoot, stats.Session, "meta")); err == nil {
			break
		}
		if _, err := first.refresh(t.Context(), s); err != nil { // as a client that polls does
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	first.close()
	more := layout.NodeEventsKey(layout.DefaultRoot, stats.Session, rayid.Node{7}, time.Unix(1e9, 0))
	if err := store.Put(t.Context(), more, strings.NewReader("{}\n")); err != nil {
		t.Fatal(err)
	}
	second := start()
	defer second.close()
	again := load(second)
	if again.IndexedBytes() != s.EventBytes() || again.EventBytes() != s.EventBytes()+3 || again.Tasks.Len() != s.Tasks.Len() {
		t.Errorf("%d of %d bytes from the index, want %d; %d attempts, want %d", again.IndexedBytes(), again.EventBytes(), s.EventBytes(), again.Tasks.Len(), s.Tasks.Len())
	}
	if both := testutil.ToFloat64(second.loads.WithLabelValues("both")); both != 1 {
		t.Errorf("%v sessions loaded from an index and events, want 1", both)
	}
}
