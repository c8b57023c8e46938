package collector

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
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
		layout.NodeEventsKey("log", layout.Session{Namespace: "default", Cluster: "other", Name: session().Name}, node,
			time.Unix(0, 0)),
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
	s := must.Get(spool.Open(dir, spool.Options{Log: silent.Logger(), Registerer: prometheus.NewRegistry()}))(t)
	for _, stream := range streams {
		must.OK(t, s.Append(t.Context(), []spool.Lines{{Stream: stream, Data: []byte("{}\n")}}))
	}
	must.OK(t, s.Close())
}

// TestForgedSpool: of what is found in the spool's folder only what a collector of this cluster spools is stored; the
// rest is counted and set aside.
func TestForgedSpool(t *testing.T) {
	o, store := options(t, t.TempDir())
	events := filepath.Join(o.SpoolDir, "events")
	must.OK(t, os.Mkdir(events, 0o700))
	good := []string{
		layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)),
		layout.JobEventsKey("log", session(), rayid.Job{0xff, 0xff, 0xff, 0xff}, rayid.Node{1}, time.Unix(0, 0)),
		layout.JobEventsKey("log", session(), rayid.Job{1}, rayid.Node{1}, time.Unix(0, 0)),
		layout.SeriesKey("log", session(), time.Unix(0, 0)),
		layout.MetricsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)),
		layout.EmptyLogsKey("log", session(), rayid.Node{1}),
	}
	forgeSpool(t, events, append(forgedWholes(), good...)...)
	c := start(t, o)
	foreign, err := testutil.GatherAndCount(o.Gatherer, "rayhistory_collector_spool_foreign_total")
	says.True(t, err == nil && foreign == 1, "%d metrics, %v", foreign, err)
	stop(t, c)
	want := map[string]string{layout.MarkerKey("log", session()): "",
		layout.RecentKey("log", session(), c.sessions.startTime(session().Name)): ""}
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
	says.True(t, maps.Equal(stored, want), "stored %v", stored)
	if aside, err := filepath.Glob(filepath.Join(events, "quarantine", "*")); err != nil || len(aside) != 1 {
		t.Errorf("set aside %v, %v", aside, err)
	}
}

// TestDeletedSpoolFolder: the spool's folder is deleted under a running collector. It takes events and stores them, and
// says so once.
func TestDeletedSpoolFolder(t *testing.T) {
	tmpRay := t.TempDir()
	folder := filepath.Join(tmpRay, session().Name)
	must.OK(t, os.Mkdir(folder, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(folder, "metrics_agent_port_"+strings.Repeat("ab", 28)), nil, 0o600))
	o, store := options(t, tmpRay)
	log, logged := logtest.NewNullLogger()
	o.Log, o.EventCompression, o.Ship.PushInterval = log, layout.Zstd, time.Hour
	c := start(t, o)
	event := func(id string) {
		post(t, c.url("/v1/events"), []byte(`[{"eventId":"`+id+`","sessionName":"`+session().Name+
			`","timestamp":"2026-11-20T23:20:00Z"}]`))
	}
	event("waits")
	c.folder.Lock() // so that the collector does not make it again while it is deleted
	err := os.RemoveAll(o.SpoolDir)
	c.folder.Unlock()
	must.OK(t, err)
	event("after")
	says.OK(t, c.keepFolder())
	event("later")
	stop(t, c)
	var all strings.Builder
	for _, key := range store.Keys() {
		if strings.HasSuffix(key, ".zst") {
			all.Write(plain(t, store.Object(key)))
		}
	}
	if got := all.String(); strings.Contains(got, "waits") || strings.Count(got, "after") != 1 ||
		strings.Count(got, "later") != 1 {
		t.Errorf("stored %s", got)
	}
	warned := 0
	for _, e := range logged.AllEntries() {
		if strings.Contains(e.Message, "Set --spool-dir to a folder that no program cleans") {
			warned++
		}
	}
	says.Equal(t, warned, 1, "said")
	if data, err := os.ReadFile(filepath.Join(o.SpoolDir, "chunks.jsonl")); err != nil ||
		!strings.Contains(string(data), "node_events") {
		t.Errorf("noted %q, %v", data, err)
	}
}

// TestFiguresGiveWayToEvents: metrics and hardware figures do not fill the half of the spool that is for events.
func TestFiguresGiveWayToEvents(t *testing.T) {
	o, _ := options(t, t.TempDir())
	o.SpoolMaxBytes, o.Ship.PushInterval = 1<<20, time.Hour
	c := start(t, o)
	defer stop(t, c)
	lines := []byte(strings.Repeat("{}\n", int(o.SpoolMaxBytes)/5)) // 3/5 of the spool
	for name, err := range map[string]error{
		"metrics": c.spoolMetrics(t.Context(), session().Name, rayid.Node{1}, time.Unix(0, 0), lines),
		"figures": c.spoolSeries(t.Context(), session().Name, time.Unix(0, 0), lines),
	} {
		says.ErrorIs(t, err, spool.ErrGiveWay, "%s", name)
	}
	key := layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0))
	must.OK(t, c.spool.Append(t.Context(), []spool.Lines{{Stream: key, Data: lines}}))
}

// TestPendingByGroup: what waits in the spool is told of by its kind.
func TestPendingByGroup(t *testing.T) {
	o, _ := options(t, t.TempDir())
	o.Ship.PushInterval = time.Hour
	c := start(t, o)
	defer stop(t, c)
	at := time.Unix(0, 0)
	must.OK(t, c.spool.Append(t.Context(), []spool.Lines{{Data: []byte("{}\n"),
		Stream: layout.NodeEventsKey("log", session(), rayid.Node{1}, at)}}))
	must.OK(t, c.spoolMetrics(t.Context(), session().Name, rayid.Node{1}, at, []byte("figure\n")))
	must.OK(t, c.spoolEmptyLogs(session().Name, rayid.Node{1}, []byte("name.out\n")))
	const want = `# HELP rayhistory_collector_ship_pending_bytes Bytes that are not stored yet.
# TYPE rayhistory_collector_ship_pending_bytes gauge
rayhistory_collector_ship_pending_bytes{group="empty_logs"} 9
rayhistory_collector_ship_pending_bytes{group="events"} 3
rayhistory_collector_ship_pending_bytes{group="logs"} 0
rayhistory_collector_ship_pending_bytes{group="metrics"} 7
`
	says.OK(t,
		testutil.GatherAndCompare(o.Gatherer, strings.NewReader(want), "rayhistory_collector_ship_pending_bytes"))
}

// TestForeignFolderAfterDeletion: another user makes the deleted folder first. Nothing is written there.
func TestForeignFolderAfterDeletion(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	defer stop(t, c)
	must.OK(t, os.RemoveAll(o.SpoolDir))
	for _, name := range subfolders {
		must.OK(t, os.MkdirAll(filepath.Join(o.SpoolDir, name), 0o777))
	}
	must.OK(t, os.Chown(o.SpoolDir, 12345, 12345))
	key := layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0))
	for range 2 {
		says.Error(t, c.spool.Append(t.Context(), []spool.Lines{{Stream: key, Data: []byte("{}\n")}}), "other users",
			"append")
	}
	files, err := os.ReadDir(filepath.Join(o.SpoolDir, "events"))
	says.True(t, err == nil && len(files) == 0, "wrote %v, %v", files, err)
}

// TestForeignSpoolFolder: a folder that another user made is not used.
func TestForeignSpoolFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	o, store := options(t, t.TempDir())
	events := filepath.Join(o.SpoolDir, "events")
	must.OK(t, os.Mkdir(events, 0o700))
	forgeSpool(t, events, layout.NodeEventsKey("log", session(), rayid.Node{1}, time.Unix(0, 0)))
	must.OK(t, os.Chown(o.SpoolDir, 12345, 12345))
	c := start(t, o)
	says.Equal(t, c.opts.SpoolDir, filepath.Join(o.SpoolDir, "collector-0"), "spools in")
	stop(t, c)
	keys := store.Keys()
	says.True(t, len(keys) == 0, "stored %v", keys)
}

// TestKilledWhileWriting: what a killed collector had begun to write goes at the next start, whatever the folder is
// called, and what others put there stays.
func TestKilledWhileWriting(t *testing.T) {
	o, _ := options(t, t.TempDir())
	o.SpoolDir = filepath.Join(o.SpoolDir, "spool[*")
	unfinished := []string{".sessions.json.7.tmp", ".chunks.jsonl.7.tmp", "logs/." + session().Name + ".json.7.tmp",
		"snapshots/" + session().Name + "/answer-1.tmp", "snapshots/" + session().Name + "/.state.json.7.tmp"}
	others := []string{"snapshots/whole.body", "a.tmp", "data/.b.json.7.tmp", "data/run/c.tmp"}
	for _, file := range slices.Concat(unfinished, others) {
		file = filepath.Join(o.SpoolDir, file)
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.OK(t, os.WriteFile(file, nil, 0o600))
	}
	stop(t, start(t, o))
	for _, file := range slices.Concat(unfinished, others) {
		_, err := os.Stat(filepath.Join(o.SpoolDir, file))
		says.Equal(t, err == nil, slices.Contains(others, file), "%s is there", file)
	}
}

// TestLeaveToRay: no folder of Ray's is made, whichever of the collector's is below it.
func TestLeaveToRay(t *testing.T) {
	for name, test := range map[string]struct {
		exists      []string // below a new folder
		links       map[string]string
		folder, ray string
		want        string // the folder of Ray's; "" if the collector may make its own
	}{
		"default spool, nothing there": {folder: "tmp/ray/.rayhistory", ray: "tmp/ray", want: "tmp/ray"},
		"a volume above Ray's folder": {exists: []string{"tmp"}, folder: "tmp/ray/.rayhistory", ray: "tmp/ray",
			want: "tmp/ray"},
		"Ray's folder is there": {exists: []string{"tmp/ray"}, folder: "tmp/ray/.rayhistory",
			ray: "tmp/ray"},
		"all is there": {exists: []string{"tmp/ray/.rayhistory"}, folder: "tmp/ray/.rayhistory",
			ray: "tmp/ray"},
		"a folder of its own": {exists: []string{"tmp"}, folder: "var/spool/rayhistory", ray: "tmp/ray"},
		"beside Ray's folder": {exists: []string{"tmp"}, folder: "tmp/spool/a", ray: "tmp/ray"},
		"beside it, in a folder above": {exists: []string{"scratch"}, folder: "scratch/jobs/spool",
			ray: "scratch/jobs/ray", want: "scratch/jobs/ray"},
		"a like name": {exists: []string{"tmp"}, folder: "tmp/rayhistory", ray: "tmp/ray"},
		"Ray's folder itself": {exists: []string{"tmp"}, folder: "tmp/ray", ray: "tmp/ray",
			want: "tmp/ray"},
		"above Ray's folder": {folder: "tmp", ray: "tmp/ray", want: "tmp/ray"},
		"deep below":         {exists: []string{"tmp/ray"}, folder: "tmp/ray/a/b", ray: "tmp/ray"},
		"in a session's folder": {exists: []string{"tmp/ray"}, folder: "tmp/ray/session_latest/logs/spool",
			ray: "tmp/ray", want: "tmp/ray/session_latest"},
		"by another name of the volume": {exists: []string{"tmp"}, links: map[string]string{"shared": "tmp"},
			folder: "shared/ray/.rayhistory", ray: "tmp/ray", want: "tmp/ray"},
		"by a link to where Ray's will be": {exists: []string{"disk"}, links: map[string]string{"tmp": "disk"},
			folder: "disk/ray/x", ray: "tmp/ray", want: "tmp/ray"},
		"with dots": {exists: []string{"tmp"}, folder: "tmp/x/../ray/spool", ray: "tmp/./ray",
			want: "tmp/ray"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range test.exists {
				must.OK(t, os.MkdirAll(filepath.Join(dir, folder), 0o755))
			}
			for link, to := range test.links {
				must.OK(t, os.Symlink(filepath.Join(dir, to), filepath.Join(dir, link)))
			}
			err := LeaveToRay(dir+"/"+test.folder, dir+"/"+test.ray)
			var none *NoRayError
			must.True(t, errors.As(err, &none) == (test.want != "") && (err == nil) == (test.want == ""),
				"got %v, want %q", err, test.want)
			says.True(t, none == nil || filepath.Clean(none.Folder) == filepath.Join(dir, test.want),
				"%+v, want %s", none, test.want)
		})
	}
}

// TestRayCanMakeItsFolder: the collector with its default spool starts only once Ray's folder is there, and makes it
// neither then nor when it is deleted under it.
func TestRayCanMakeItsFolder(t *testing.T) {
	ray := filepath.Join(t.TempDir(), "ray")
	o, _ := options(t, ray)
	o.SpoolDir = filepath.Join(ray, ".rayhistory")
	var none *NoRayError
	if c, err := New(o); !errors.As(err, &none) {
		t.Fatalf("%v, %v", c, err)
	}
	absent := func(when string) {
		t.Helper()
		_, err := os.Lstat(ray)
		must.True(t, errors.Is(err, os.ErrNotExist), "%s the collector made Ray's folder: %v", when, err)
	}
	absent("at its start")
	must.OK(t, os.Mkdir(ray, 0o777))
	c := start(t, o)
	defer stop(t, c)
	must.OK(t, os.RemoveAll(ray))
	if err := c.keepFolder(); !errors.As(err, &none) {
		t.Error(err)
	}
	if err := c.sessions.recordRaylet(session().Name); err != nil {
		t.Log(err)
	}
	absent("later")
	must.OK(t, os.Mkdir(ray, 0o777))
	says.OK(t, c.keepFolder())
}

// TestSpoolFolderAboveRay: a spool folder that holds Ray's is not taken for the collector alone.
func TestSpoolFolderAboveRay(t *testing.T) {
	for _, below := range []string{"", "ray", "a/ray"} {
		shared := t.TempDir()
		ray := filepath.Join(shared, below)
		must.OK(t, os.MkdirAll(ray, 0o777))
		must.OK(t, os.Chmod(shared, 0o777))
		o, _ := options(t, ray)
		o.SpoolDir = shared
		c := start(t, o)
		stop(t, c)
		info, err := os.Stat(shared)
		says.True(t, err == nil && info.Mode().Perm() == 0o777, "%q: mode %v, %v", below, info.Mode(), err)
		says.True(t, c.opts.SpoolDir != shared, "%q: it spools in %s", below, c.opts.SpoolDir)
	}
}
