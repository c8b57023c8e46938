package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const nodeHex = "14b1c508611d2008077d0714613cb3f52e6aae4d0f01718a64385287"

// rayNode is a temporary folder of Ray as that of a node that runs, with an exporter.
func rayNode(t *testing.T, exporter http.Handler) (tmpRay string, raylet net.Listener) {
	t.Helper()
	tmpRay, err := os.MkdirTemp("", "ray") // t.TempDir is too long a path for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(tmpRay) })
	folder := filepath.Join(tmpRay, session().Name)
	for _, dir := range []string{"logs", "sockets", grafanaFolder} {
		must.OK(t, os.MkdirAll(filepath.Join(folder, dir), 0o755))
	}
	raylet, err = net.Listen("unix", filepath.Join(folder, "sockets/raylet"))
	must.OK(t, err)
	t.Cleanup(func() { _ = raylet.Close() })
	server := httptest.NewServer(exporter)
	t.Cleanup(server.Close)
	for name, content := range map[string]string{
		"metrics_agent_port_" + nodeHex:                   "1",
		"metrics_export_port_" + nodeHex:                  fmt.Sprint(server.Listener.Addr().(*net.TCPAddr).Port),
		grafanaFolder + "/default_grafana_dashboard.json": `{"title": "Default"}`,
		grafanaFolder + "/serve_grafana_dashboard.json":   `{"title": "Serve"`,
		grafanaFolder + "/other":                          `{}`,
	} {
		must.OK(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644))
	}
	must.OK(t, os.Symlink(folder, filepath.Join(tmpRay, "session_latest")))
	return tmpRay, raylet
}

// TestMetrics: a node's metrics are read at the start and once more at the end, and stored, and so are the Grafana
// dashboards of a head.
func TestMetrics(t *testing.T) {
	var reads atomic.Int64
	var tmpRay string
	var raylet net.Listener
	tmpRay, raylet = rayNode(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := reads.Add(1)
		if n == 2 {
			_ = raylet.Close() // Ray ends, and nobody has to wait for it
		}
		_, _ = fmt.Fprintf(w, "# TYPE ray_x gauge\nray_x %d\n", n)
	}))
	o, store := options(t, tmpRay)
	o.Head, o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = true, MetricsOn, time.Hour, 100
	c := start(t, o)
	// The end would cut off a read under way.
	metrics := c.spooledGroup("metrics", layout.Metrics, layout.Zstd)
	must.Happen(t, "that metrics are read", func() bool { return len(metrics.Sources()) > 0 })
	says.OK(t, c.storeMetadata(t.Context()))
	stop(t, c)

	chunks := map[int64][]byte{}
	dashboards := map[string]string{}
	for _, key := range store.Keys() {
		object, err := layout.ParseObject("log", session(), key)
		if err != nil {
			continue
		}
		switch object.Kind {
		case layout.Metrics:
			says.True(t, object.Node.String() == nodeHex && object.Compression == layout.Zstd, "%s: %+v", key, object)
			chunks[object.Offset] = plain(t, store.Object(key))
		case layout.GrafanaDashboard:
			dashboards[object.Path] = string(plain(t, store.Object(key)))
		}
	}
	var lines []byte
	for _, offset := range slices.Sorted(maps.Keys(chunks)) {
		lines = append(lines, chunks[offset]...)
	}
	const labels = `"job":"ray","ray_io_cluster":"lab","namespace":"default"}`
	values := regexp.MustCompile(`"v":\[.*?\]`).FindAllString(string(lines), -1)
	says.True(t, fmt.Sprint(values) == `["v":[1] "v":[2]]` && strings.Contains(string(lines), labels), "stored %s",
		lines)
	says.True(t, len(dashboards) == 1 && dashboards["default_grafana_dashboard.json"] == `{"title": "Default"}`,
		"Grafana dashboards %q", dashboards)
}

func plain(t *testing.T, data []byte) []byte {
	t.Helper()
	in := must.Get(zstd.NewReader(nil))(t)
	defer in.Close()
	out := must.Get(in.DecodeAll(data, nil))(t)
	return out
}

// TestMetricsAuto: they are read from Ray 2.57 on, and not while the version is unknown. A worker learns it from the
// head.
func TestMetricsAuto(t *testing.T) {
	for version, want := range map[string]string{
		"2.55.1": "only one reader", "2.56.1": "only one reader", "2.57.0": "", "2.60.0": "", "3.0.0.dev0": "",
		"2.60.0rc1": "", "2.60.0.post1": "", "2.60.0+cu12": "", "2.56.0rc1": "only one reader",
		"master": "only one reader", "": "before Ray's version is known",
	} {
		for _, head := range []bool{true, false} {
			dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if version == "" || r.URL.Path != "/api/version" {
					http.NotFound(w, r)
					return
				}
				_ = json.NewEncoder(w).Encode(map[string]string{"ray_version": version})
			}))
			tmpRay, _ := rayNode(t, http.NotFoundHandler())
			o, store := options(t, tmpRay)
			o.Head, o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = head, MetricsAuto, time.Hour, 100
			o.Dashboard = dashboard.URL
			must.OK(t, os.WriteFile(filepath.Join(o.RayTmpDir, currentCluster), []byte("127.0.0.1:6379"), 0o644))
			c, err := New(o)
			must.OK(t, err)
			if head && version != "" {
				c.sessions.recordVersion(session().Name, version)
			}
			err = c.metricsAllowed(t.Context(), session().Name)
			says.True(t, (want == "") == (err == nil) && (err == nil || strings.Contains(err.Error(), want)),
				"Ray %q, head %t: %v, want %q", version, head, err, want)
			says.OK(t, c.storeGrafana(t.Context(), session().Name))
			stored := slices.ContainsFunc(store.Keys(),
				func(key string) bool { return strings.Contains(key, "default_grafana_dashboard.json") })
			says.Equal(t, stored, head && want == "", "Ray %q, head %t: Grafana dashboards stored", version, head)
			says.OK(t, c.spool.Close())
			_ = o.Servers.Close()
			dashboard.Close()
		}
	}
}

// TestLastRead is what a Prometheus gets that asks the collector instead of Ray.
func TestLastRead(t *testing.T) {
	tmpRay, raylet := rayNode(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ray_x 1\n")
	}))
	o, _ := options(t, tmpRay)
	o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = MetricsOn, time.Hour, 100
	c := start(t, o)
	defer stop(t, c)
	defer raylet.Close()
	var text string
	must.Happen(t, "that metrics are read", func() bool {
		var status int
		status, text = get(t, c.url("/metrics/ray"))
		return status != http.StatusNotFound
	})
	says.Equal(t, text, "ray_x 1\n")
}

// slowClient takes nothing before it may.
type slowClient struct {
	*httptest.ResponseRecorder
	writing chan<- struct{}
	may     <-chan struct{}
}

func (c slowClient) Write(p []byte) (int, error) {
	c.writing <- struct{}{}
	<-c.may
	return c.ResponseRecorder.Write(p)
}

// TestLastReadIsBounded: each answer takes half a megabyte while it is sent, and any pod can ask for it.
func TestLastReadIsBounded(t *testing.T) {
	tmpRay, raylet := rayNode(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ray_x 1\n")
	}))
	defer raylet.Close()
	o, _ := options(t, tmpRay)
	o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = MetricsOn, time.Hour, 100
	c := must.Get(New(o))(t)
	c.scraper.ScrapeOnce(t.Context())
	handler := c.routes(nil)
	request := httptest.NewRequest(http.MethodGet, "/metrics/ray", nil)
	writing, may := make(chan struct{}), make(chan struct{})
	var asking sync.WaitGroup
	for range maxScrapes {
		client := slowClient{httptest.NewRecorder(), writing, may}
		asking.Go(func() { handler.ServeHTTP(client, request) })
		<-writing
	}
	ask := func() int {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder.Code
	}
	status := ask()
	says.True(t, status == http.StatusServiceUnavailable, "status %d while %d are answered", status, maxScrapes)
	close(may)
	asking.Wait()
	says.Equal(t, ask(), http.StatusOK, "status")
	says.OK(t, errors.Join(c.spool.Close(), o.Servers.Close()))
}
