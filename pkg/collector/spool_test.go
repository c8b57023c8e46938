package collector

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/spool"
)

// forgedWholes are what nobody may have a collector store by way of its spool.
func forgedWholes() []string {
	prefix := layout.Prefix("log", session())
	node := rayid.Node{1}
	return []string{
		layout.IndexKey("log", session(), "tasks"),
		layout.MetadataKey("log", session(), "start"),
		layout.SnapshotKey("log", session(), "/api/jobs/"),
		layout.LogKey("log", session(), node, "raylet.out"),
		layout.MarkerKey("log", session()),
		layout.NodeEventsKey("log", layout.Session{Namespace: "default", Cluster: "other", Name: session().Name}, node, time.Unix(0, 0)),
		layout.NodeEventsKey("elsewhere", session(), node, time.Unix(0, 0)),
		layout.ChunkKey(layout.NodeEventsKey("log", session(), node, time.Unix(0, 0)), 77, layout.Plain),
		prefix + "node_events/../../x",
		prefix + "index/../node_events/x",
		strings.Replace(layout.NodeEventsKey("log", session(), node, time.Unix(0, 0)), session().Name, "..", 1),
		"index/tasks.parquet",
	}
}

// forgeSpool writes a spool with a record of each of the streams.
func forgeSpool(t *testing.T, dir string, streams ...string) {
	t.Helper()
	log, _ := logtest.NewNullLogger()
	s, err := spool.Open(dir, spool.Options{Log: log, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		if err := s.Append(t.Context(), []spool.Lines{{Stream: stream, Data: []byte("{}\n")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForgedSpool: of what is found in the spool's folder only what a collector of this cluster spools is stored; the rest is counted and
// set aside.
func TestForgedSpool(t *testing.T) {
	o, store := options(t, t.TempDir())
	events := filepath.Join(o.SpoolDir, "events")
	if err := os.Mkdir(events, 0o700); err != nil {
		t.Fatal(err)
	}
	good := []string{
		layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)),
		layout.JobEventsKey("log", session(), rayid.Job{0xff, 0xff, 0xff, 0xff}, rayid.Node{1}, time.Unix(0, 0)),
		layout.JobEventsKey("log", session(), rayid.Job{1}, rayid.Node{1}, time.Unix(0, 0)),
		layout.SeriesKey("log", session(), time.Unix(0, 0)),
		layout.MetricsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)),
	}
	forgeSpool(t, events, append(forgedWholes(), good...)...)
	c := start(t, o)
	foreign, err := testutil.GatherAndCount(o.Gatherer, "rayhistory_collector_spool_foreign_total")
	if err != nil || foreign != 1 {
		t.Errorf("%d metrics, %v", foreign, err)
	}
	stop(t, c)
	want := map[string]string{layout.MarkerKey("log", session()): "", layout.RecentKey("log", session(), startTime(session().Name, time.Time{})): ""}
	for _, key := range good {
		want[key] = "{}\n"
	}
	stored := map[string]string{}
	for _, key := range store.Keys() {
		if whole, compressed := strings.CutSuffix(key, ".zst"); compressed {
			stored[whole] = string(plain(t, store.Object(key))) // metrics always are
			continue
		}
		stored[key] = string(store.Object(key))
	}
	if !maps.Equal(stored, want) {
		t.Errorf("stored %v", stored)
	}
	if aside, err := filepath.Glob(filepath.Join(events, "quarantine", "*")); err != nil || len(aside) != 1 {
		t.Errorf("set aside %v, %v", aside, err)
	}
}

// TestForeignSpoolFolder: a folder that another user made is not used.
func TestForeignSpoolFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	o, store := options(t, t.TempDir())
	events := filepath.Join(o.SpoolDir, "events")
	if err := os.Mkdir(events, 0o700); err != nil {
		t.Fatal(err)
	}
	forgeSpool(t, events, layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)))
	if err := os.Chown(o.SpoolDir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	c := start(t, o)
	if c.opts.SpoolDir != filepath.Join(o.SpoolDir, "collector-0") {
		t.Errorf("spools in %s", c.opts.SpoolDir)
	}
	stop(t, c)
	if keys := store.Keys(); len(keys) > 0 {
		t.Errorf("stored %v", keys)
	}
}
