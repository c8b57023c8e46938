package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/collector/snapshot"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// options of a collector that stores in memory and is told nothing else.
func options(t testing.TB, tmpRay string) (Options, *storetest.Store) {
	log := silent.Logger()
	registry := prometheus.NewRegistry()
	store := &storetest.Store{}
	return Options{
		Store: store, Root: "log", Namespace: "default", Cluster: "lab", RayTmpDir: tmpRay, SpoolDir: t.TempDir(),
		Servers: testServers(t, log), Token: snapshot.Token("", "", nil), Log: log, Registerer: registry,
		Gatherer: registry,
	}, store
}

// testServers are open at free ports.
func testServers(t testing.TB, log logrus.FieldLogger) *Servers {
	t.Helper()
	s := NewServers(Listeners{EventsAddress: Loopback, MetricsAddress: Loopback}, log)
	// A port that is free for one family may be taken for the other.
	must.Happen(t, "that ports are free", func() bool { return s.Open() == nil })
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func start(t testing.TB, o Options) *Collector {
	t.Helper()
	c := must.Get(New(o))(t)
	c.Start()
	return c
}

func (c *Collector) url(path string) string {
	return "http://" + c.opts.Servers.EventsAddr().String() + path
}

func stop(t testing.TB, c *Collector) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // so that a slow machine is not what fails
	defer cancel()
	says.OK(t, c.Close(ctx))
}

// post sends a batch as Ray does, again and again while it is told to come back.
func post(t testing.TB, url string, body []byte) {
	t.Helper()
	for {
		switch status, text := try(t, url, body); status {
		case http.StatusOK:
			return
		case http.StatusServiceUnavailable:
			time.Sleep(10 * time.Millisecond) // the node's ID is not known before the first scan
		default:
			t.Fatalf("status %d: %s", status, text)
		}
	}
}

// try sends a batch once.
func try(t testing.TB, url string, body []byte) (status int, text string) {
	t.Helper()
	return read(t, must.Get(http.Post(url, "application/json", bytes.NewReader(body)))(t))
}

func get(t testing.TB, url string) (status int, text string) {
	t.Helper()
	return read(t, must.Get(http.Get(url))(t))
}

func read(t testing.TB, answer *http.Response) (status int, text string) {
	t.Helper()
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "" &&
		answer.Request.Method == http.MethodPost {
		t.Error("nobody says when the batch may come again")
	}
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t))
}

// storedOf is what is stored under all keys that have a text in them, in their order.
func storedOf(store *storetest.Store, in string) string {
	var all []byte
	for _, key := range store.Keys() {
		if strings.Contains(key, in) {
			all = append(all, store.Object(key)...)
		}
	}
	return string(all)
}

// TestRecordedSession feeds the recording of a real cluster to a collector per node and compares what is stored.
func TestRecordedSession(t *testing.T) {
	r := recording.Open(t)
	dashboard := httptest.NewServer(recording.Dashboard(r.Golden()))
	defer dashboard.Close()
	dir := t.TempDir()
	store := must.Get(local.Open(dir))(t)
	sent := map[string]bool{}
	for _, node := range r.Nodes() {
		tmpRay := r.TmpRay(node)
		o, _ := options(t, tmpRay)
		o.Store, o.Head, o.Dashboard = store, node == "head", dashboard.URL
		c := start(t, o)
		for _, p := range r.Posts(node) {
			post(t, c.url("/v1/events"), p.JSON())
			for _, raw := range p.Body {
				sent[eventID(t, raw)] = true
			}
		}
		stop(t, c)
		logs := filepath.Join(dir, layout.LogPrefix("log", session(), r.NodeID(node)))
		sameFiles(t, filepath.Join(tmpRay, session().Name, "logs"), logs)
	}
	stored := map[string]bool{}
	for _, folder := range []string{"node_events", "job_events"} {
		root := filepath.Join(dir, layout.Prefix("log", session()), folder)
		walkFiles(t, root, func(_ string, data []byte) {
			for line := range bytes.Lines(data) {
				stored[eventID(t, line)] = true
			}
		})
	}
	for id := range sent {
		says.True(t, stored[id], "event %s is not stored", id)
	}
	says.True(t, len(sent) >= 1000 && len(stored) == len(sent), "%d events sent, %d stored", len(sent), len(stored))
	says.OK(t, says.Err(store.Stat(t.Context(), layout.MarkerKey("log", session()))))
	var begin layout.StartMetadata
	var end layout.EndMetadata
	readJSON(t, filepath.Join(dir, layout.MetadataKey("log", session(), layout.Start)), &begin)
	readJSON(t, filepath.Join(dir, layout.MetadataKey("log", session(), layout.End)), &end)
	says.True(t, begin.RayVersion == "2.60.0" && end.Nodes == 3 && end.End.After(end.Start) &&
		begin.Start.Minute() == 19, "facts %+v, %+v", begin, end)
	for _, url := range []string{"/nodes?view=summary", "/api/jobs/", "/api/version"} {
		says.OK(t, says.Err(store.Stat(t.Context(), layout.SnapshotKey("log", session(), url))))
	}
}

func session() layout.Session {
	return layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
}

func eventID(t *testing.T, raw []byte) string {
	t.Helper()
	var e struct {
		ID string `json:"eventId"`
	}
	err := json.Unmarshal(raw, &e)
	must.True(t, err == nil && e.ID != "", "event %.200s: %v", raw, err)
	return e.ID
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	says.OK(t, err)
}

func walkFiles(t *testing.T, root string, visit func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			visit(path, data)
		}
		return err
	})
	says.OK(t, err)
}

// sameFiles says whether every file below want is stored as it is: in the logs folder got of a node, or in the list of
// its empty logs.
func sameFiles(t *testing.T, want, got string) {
	t.Helper()
	files := 0
	var empty []string
	for _, chunk := range must.Get(filepath.Glob(filepath.Join(got, "../../empty_logs", filepath.Base(got)) + "*"))(t) {
		empty = append(empty, strings.Fields(string(must.Get(os.ReadFile(chunk))(t)))...)
	}
	walkFiles(t, want, func(path string, data []byte) {
		below := must.Get(filepath.Rel(want, path))(t)
		files++
		if len(data) == 0 {
			says.True(t, slices.Contains(empty, below), "the empty log %s is not listed", below)
			return
		}
		if stored, err := os.ReadFile(filepath.Join(got, below)); err != nil || !bytes.Equal(stored, data) {
			t.Errorf("log %s: %v, %d bytes stored of %d", below, err, len(stored), len(data))
		}
	})
	says.True(t, files >= 10, "%d logs below %s", files, want)
}

func TestHealth(t *testing.T) {
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	for path, want := range map[string]string{"/healthz": "ok", "/livez": "ok", "/readyz": "ok",
		"/metrics": "rayhistory_collector_ship_behind_seconds"} {
		for _, url := range []string{c.url(path), "http://" + c.opts.Servers.MetricsAddr().String() + path} {
			if status, text := get(t, url); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: status %d, %.100s", url, status, text)
			}
		}
	}
	stop(t, c)
}

// TestZone: the start that a session's name tells is in the head's time zone, also for a later collector.
func TestZone(t *testing.T) {
	name := session().Name
	for offset, want := range map[string]string{
		"-08:00": "2026-11-21T07:19:45Z", "+05:45": "2026-11-20T17:34:45Z", "+00:00": "2026-11-20T23:19:45Z",
	} {
		o, store := options(t, t.TempDir())
		o.Head = true
		path := filepath.Join(t.TempDir(), "sessions.json")
		s := must.Get(newSessions(o, path))(t)
		s.learnZone(name, offset)
		s.learnZone(name, "+01:00") // summer time has changed it since
		s.recordVersion(name, "2.60.0")
		must.OK(t, s.storeStart(t.Context(), name, headNode{}, false))
		s = must.Get(newSessions(o, path))(t)
		must.OK(t, s.storeEnd(t.Context(), name, headNode{}, time.Unix(1795300000, 0)))
		for _, which := range []string{layout.Start, layout.End} {
			stored := string(store.Object(layout.MetadataKey("log", session(), which)))
			says.True(t, strings.Contains(stored, `"start":"`+want+`"`), "%s: %s, want a start at %s", offset, stored,
				want)
		}
	}
}

func TestMetadata(t *testing.T) {
	o, store := options(t, t.TempDir())
	o.Head, o.Dashboard, o.OwnerKind, o.OwnerName = true, "localhost:1", "RayJob", "nightly"
	o.Labels = map[string]string{"team": "search"}
	path := filepath.Join(t.TempDir(), "sessions.json")
	open := func() *sessions {
		t.Helper()
		s := must.Get(newSessions(o, path))(t)
		return s
	}
	s, name, head := open(), session().Name, headNode{id: rayid.Node{1}.String()}
	if err := s.storeStart(t.Context(), name, head, false); err != nil || len(store.Keys()) != 0 {
		t.Errorf("the start is told without Ray's version: %v, %v", err, store.Keys())
	}
	s.recordVersion(name, "2.60.0")
	s.recordNodes(name, 2)
	for range 2 {
		says.OK(t, s.storeStart(t.Context(), name, head, false))
		s = open()
	}
	const want = `{"ownerKind":"RayJob","ownerName":"nightly","rayVersion":"2.60.0","labels":{"team":"search"},"start":"2026-11-20T23:19:45Z","nodeId":"01000000000000000000000000000000000000000000000000000000"}`
	got := string(store.Object(layout.MetadataKey("log", session(), layout.Start)))
	says.True(t, got == want || time.Local != time.UTC, "start %s, want %s", got, want)
	puts, _ := store.Requests()
	says.Equal(t, puts, 3, "%d puts for two markers and the start", puts)
	says.True(t, !s.stateOf(name).Ended, "ended before its end")
	for range 2 { // the collector was restarted, the session went on
		says.OK(t, s.storeEnd(t.Context(), name, head, time.Unix(1795300000, 0)))
		time.Sleep(2 * time.Millisecond)
	}
	says.True(t, open().stateOf(name).Ended, "the end is not remembered")
	ends := 0
	for _, key := range store.Keys() {
		if o, err := layout.ParseObject("log", session(), key); err == nil && o.Kind == layout.Metadata &&
			o.Path == "end.json" {
			ends++
		}
	}
	says.Equal(t, ends, 2, "ends")
	must.OK(t, os.WriteFile(path, []byte("{"), 0o600))
	open()
	says.True(t, s.prepareStream(t.Context(), "log/lab_other/"+name+"/logs/x") != nil,
		"marked the session of another cluster")
	says.OK(t, s.prepareStream(t.Context(), fmt.Sprintf("log/lab_default/%s/logs/x", "session_..")))
}

// TestMarkerThatWasRemoved: a session that grows for days is marked again, so that it stays in the list.
func TestMarkerThatWasRemoved(t *testing.T) {
	o, store := options(t, t.TempDir())
	s := must.Get(newSessions(o, filepath.Join(t.TempDir(), "sessions.json")))(t)
	name, marker := session().Name, layout.MarkerKey("log", session())
	must.OK(t, s.storeMarker(t.Context(), name))
	must.OK(t, store.Delete(t.Context(), marker))
	s.marked[name] = time.Now().Add(-markAgain)
	store.Fault = func(string) storetest.Fault { return storetest.Refuse }
	must.OK(t, s.storeMarker(t.Context(), name)) // what is stored next does not wait
	s.marked[name] = time.Now().Add(-markAgain)
	puts := 0
	store.Fault = func(string) storetest.Fault { puts++; return storetest.None }
	for range 5 {
		must.OK(t, s.storeMarker(t.Context(), name))
	}
	_, err := store.Stat(t.Context(), marker)
	says.True(t, err == nil && puts == 1, "%v, %d puts", err, puts)
}

// TestTimeOrderedMarkerMayBeRefused: nothing waits for it, and it is not tried with each put.
func TestTimeOrderedMarkerMayBeRefused(t *testing.T) {
	o, store := options(t, t.TempDir())
	refused := 0
	store.Fault = func(key string) storetest.Fault {
		if !strings.HasPrefix(key, layout.RecentPrefix("log")) {
			return storetest.None
		}
		refused++
		return storetest.Denied
	}
	s := must.Get(newSessions(o, filepath.Join(t.TempDir(), "sessions.json")))(t)
	name := session().Name
	for range 5 {
		says.OK(t, s.storeMarker(t.Context(), name))
	}
	if keys := store.Keys(); len(keys) != 1 || keys[0] != layout.MarkerKey("log", session()) || refused != 1 {
		t.Errorf("stored %v, refused %d", keys, refused)
	}
	s.recent[name] = time.Now().Add(-2 * recentRetry)
	store.Fault = nil
	err := s.storeMarker(t.Context(), name)
	says.True(t, err == nil && len(store.Keys()) == 2, "a policy that was mended: %v, stored %v", err, store.Keys())
}
