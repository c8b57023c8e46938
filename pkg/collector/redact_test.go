package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestNothingLeavesUnredacted: a collector that gets a secret in everything stores it in nothing, and keeps it in
// nothing of its folder. Objects of each kind are stored, so a new kind has to get a secret here, too.
func TestNothingLeavesUnredacted(t *testing.T) {
	const secret, name = "hunter2-4711", `"HF_TOKEN": "hunter2"`
	text := "a " + secret + " in " + name
	tmpRay, raylet := rayNode(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "# HELP ray_x About %s.\n# TYPE ray_x gauge\nray_x{a=%q,HF_TOKEN=\"hunter2\"} 1\n",
			secret, text)
	}))
	folder := filepath.Join(tmpRay, session().Name)
	must.OK(t, os.WriteFile(filepath.Join(folder, grafanaFolder, "default_grafana_dashboard.json"),
		fmt.Appendf(nil, `{"title":%q}`, text), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(folder, "logs", "driver.log"), []byte(text+"\nand "+secret), 0o644))
	must.OK(t, os.WriteFile(filepath.Join(folder, "logs", "empty.log"), nil, 0o644))
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/version":
			_, _ = fmt.Fprintf(w, `{"ray_version":"2.60.0","session_name":%q,"about":%q}`, session().Name, text)
		case "/nodes":
			_, _ = fmt.Fprintf(w, `{"data":{"summary":[{"now":1764000000,"cmdline":[%q],"raylet":{"nodeId":%q,"state":"ALIVE"}}]}}`, text, nodeHex)
		default:
			_, _ = fmt.Fprintf(w, `{"text":%q,"env_vars":{%s}}`, text, name)
		}
	}))
	defer dashboard.Close()
	o, store := options(t, tmpRay)
	o.Head, o.Dashboard, o.Metrics, o.Scrape.Interval, o.Scrape.MaxSeries = true, dashboard.URL, MetricsOn, time.Hour,
		100
	o.Labels, o.OwnerKind, o.OwnerName = map[string]string{"team": secret}, "RayJob", "train"
	o.Redact = must.Get(redact.New(redact.Settings{Expressions: []string{`hunter2-\d+`}, Names: []string{"HF_TOKEN"}}))(
		t)
	c := start(t, o)
	events := fmt.Appendf(nil, `[{"eventId":"a","eventType":"NODE_DEFINITION_EVENT","sessionName":%q,"timestamp":"2026-11-20T23:20:04Z","message":%q},`+
		`{"eventId":"b","eventType":"TASK_DEFINITION_EVENT","sessionName":%[1]q,"timestamp":"2026-11-20T23:20:04Z","x":{"jobId":"AQAAAA==","env":{%[3]s},"text":%[2]q}}]`,
		session().Name, text, name)
	post(t, c.url("/v1/events"), events)
	metrics := c.spooledGroup("metrics", layout.Metrics, layout.Zstd)
	must.Happen(t, "that metrics are read", func() bool { return len(metrics.Sources()) > 0 })
	must.Happen(t, "that the dashboard is asked", func() bool {
		return strings.Contains(strings.Join(store.Keys(), "\n"), "fetched_endpoints")
	})
	_, answer := get(t, c.url("/metrics/ray"))
	clean(t, "/metrics/ray", []byte(answer))
	must.OK(t, c.storeMetadata(t.Context()))
	_ = raylet.Close()
	stop(t, c)
	kinds := map[layout.Kind]bool{}
	for _, key := range store.Keys() {
		data := store.Object(key)
		if bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
			data = plain(t, data)
		}
		clean(t, key, data)
		if object, err := layout.ParseObject("log", session(), key); err == nil {
			kinds[object.Kind] = true
			says.True(t, object.Kind != layout.Snapshot || json.Valid(data), "%s is no JSON: %.100q", key, data)
		}
	}
	for kind := layout.NodeEvents; kind <= layout.EmptyLogs; kind++ {
		says.True(t, kinds[kind] != (kind == layout.Index), "kind %d: stored %v", kind, kinds[kind])
	}
	must.OK(t, filepath.WalkDir(o.SpoolDir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			clean(t, path, must.Get(os.ReadFile(path))(t))
		}
		return err
	}))
}

func clean(t *testing.T, name string, data []byte) {
	t.Helper()
	if i := bytes.Index(data, []byte("hunter2")); i >= 0 {
		t.Errorf("%s has a secret: %.300q", name, data[max(0, i-100):])
	}
}

// TestWaysOut: these are all places of the collector's code that store something or put it into the spool, and where
// what they store is redacted.
func TestWaysOut(t *testing.T) {
	want := map[string]string{
		"raymetrics.go storeGrafana":        "there",
		"sessions.go createObject":          "only empty markers",
		"sessions.go createJSON":            "there",
		"ship/chunk.go putChunk":            "logs: logs/stream.go Open; what is spooled: before",
		"sink/sink.go appendBatch":          "sink.go takeBatch",
		"snapshot/take.go storeAnswer":      "snapshot/take.go fetchToFile",
		"snapshot/hardware.go spoolFigures": "numbers and IDs only",
		"spooldir.go spoolEmptyLogs":        "names of files, as keys are",
		"spooldir.go spoolMetrics":          "scrape/scraper.go target",
		"spooldir.go spoolSeries":           "snapshot/hardware.go spoolFigures",
		"scrape/scraper.go scrapeOnce":      "scrape/scraper.go target",
	}
	out := map[string]bool{"Create": true, "Append": true, "AppendMinor": true, "Series": true, "Put": true,
		"Replace": true}
	found := map[string]bool{}
	must.OK(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "spool/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must.OK(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				method, ok := call.Fun.(*ast.SelectorExpr)
				if !ok || !out[method.Sel.Name] || len(call.Args) < 2 {
					return true
				}
				if context, ok := call.Args[0].(*ast.Ident); ok &&
					strings.HasSuffix(strings.ToLower(context.Name), "ctx") {
					found[path+" "+f.Name.Name] = true
				} else if _, ok := call.Args[0].(*ast.CallExpr); ok {
					found[path+" "+f.Name.Name] = true
				}
				return true
			})
		}
		return nil
	}))
	for place := range found {
		says.True(t, want[place] != "", "%s stores something: redact it before that, and say where here", place)
	}
	for place := range want {
		says.True(t, found[place], "%s stores nothing any more", place)
	}
}
