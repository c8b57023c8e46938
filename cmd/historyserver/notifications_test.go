package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	loadprogress "github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/metricdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// TestTells: a server tells a receiver how a recorded session ended, and knows it for the list then, though nobody
// opened the session. It loads the session once; not at all if another server has explained it, and tells the same
// then.
func TestTells(t *testing.T) {
	loaded, gets := tell(t, nil)
	explained, fewer := tell(t, []string{"index", "--all"})
	says.True(t, reflect.DeepEqual(loaded, explained),
		"told is %+v of an explained session, and %+v of one that was loaded", explained, loaded)
	if t.Logf("%v reads of the store, %v if it was explained", gets, fewer); fewer > 10 {
		t.Error("what is kept is a few objects")
	}
}

// tell has a server tell of a recorded session after a command was run on its store. It returns the events and how many
// reads of the store this took.
func tell(t *testing.T, before []string) (events []webhooks.Event, gets float64) {
	t.Helper()
	got := make(chan webhooks.Event, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var e webhooks.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil ||
			!strings.HasPrefix(r.Header.Get("Rayhistory-Signature"), "t=") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got <- e
	}))
	defer receiver.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	run := func(args ...string) {
		t.Helper()
		cmd := command()
		cmd.SetArgs(args)
		cmd.SetOut(io.Discard)
		must.OK(t, cmd.ExecuteContext(t.Context()))
	}
	run("copy", "--all", "--local-dir="+recording.Open(t).Bucket("kuberay-1.6"), "--to=local-dir="+dir)
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	write(layout.MetadataKey("log", ref, layout.End), `{"end":"2026-11-20T23:25:00Z"}`)
	write("log/webhooks/since/ours", `{"since":"2026-11-01T00:00:00Z"}`)
	loads := 1.0
	if before != nil {
		run(append(before, "--local-dir="+dir)...)
		loads = 0
	}
	config := write("webhooks.yaml", fmt.Sprintf(`
public_url: https://history.example.com
receivers: [{name: ours, url: %q, secret_file: %q, events: [job_failed, session_ended, finding]}]`, receiver.URL, write("secret", "correct horse battery staple")))

	o := must.Get(parse(t, []string{"--local-dir=" + dir, "--dashboard-dir=" + dir, "--webhooks=" + config}, nil))(t)
	o.webhooksTiming = webhooks.Timing{Interval: 10 * time.Millisecond, Delay: time.Nanosecond,
		Slack: time.Since(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))} // the recording appears that late
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	registry := metricdocs.NewRegistry()
	go func() { served <- o.serve(ctx, listener, silent.Logger(), registry) }()
	defer func() {
		stop()
		says.OK(t, <-served)
	}()
	for told := map[string]int{}; told[webhooks.SessionEnded] == 0; {
		select {
		case e := <-got:
			told[e.Type]++
			events = append(events, e)
			t.Logf("%s %s: %s", e.Type, e.Outcome, e.Cause)
			says.True(t, e.Cluster == "lab" && e.Outcome != "" && e.Outcome != "unknown" &&
				e.URL == "https://history.example.com/namespaces/default/clusters/lab/sessions/"+ref.Name+"/findings",
				"%+v", e)
		case <-time.After(2 * time.Minute):
			t.Fatalf("told are %v", told)
		}
	}
	says.OK(t, says.Err(os.Stat(filepath.Join(dir, layout.FindingsKey("log", ref)))), "how it ended is not kept")
	says.Equal(t, sum(t, registry, "historyserver_session_loads_total", ""), loads, "the session was loaded")
	return events, sum(t, registry, "rayhistory_storage_operations_total", "get")
}

// sum adds up the series of a metric of which a label has a value; "" takes all.
func sum(t *testing.T, from prometheus.Gatherer, metric, label string) (total float64) {
	t.Helper()
	families := must.Get(from.Gather())(t)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			is := func(l *dto.LabelPair) bool { return label == "" || l.GetValue() == label }
			if family.GetName() == metric && slices.ContainsFunc(m.GetLabel(), is) {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

// TestFindingsOfRunningSessions: what is sent while a session runs is not stored as its findings, which are those of
// its end.
func TestFindingsOfRunningSessions(t *testing.T) {
	b := &bucket{t: t, dir: t.TempDir(), now: time.Now()}
	ref := b.session("lab", "FAILED", time.Hour, time.Minute)
	store := must.Get(local.Open(b.dir))(t)
	log := silent.Logger()
	cache := sessioncache.New(sessioncache.Options[*session.Session]{
		Load: func(ctx context.Context, ref layout.Session, _ *loadprogress.Counter,
			_ func(int64) bool) (*session.Session, error) {
			return session.Load(ctx, store, "log", ref, session.Options{Log: log})
		},
		MaxBytes: 1 << 30, MaxLoads: 1, Log: log, Registerer: prometheus.NewRegistry(),
	})
	defer cache.Close()
	opener := &index.Opener{Store: store, Root: "log", Log: log}
	reader := sessionReader{
		cache: cache, log: log,
		dashboard: dashboard.New(dashboard.Options{Log: log, Findings: findings.Reader{Kept: opener.KeptFindings}}),
		indexes: &index.Writer{
			Opener: opener, Put: store.Put,
			Findings: func(context.Context, *session.Session, io.Reader) ([]byte, error) {
				return []byte("findings"), nil
			},
		},
	}
	for _, running := range []bool{true, false} {
		e := catalog.Entry{Ref: ref, Running: running, End: b.now.Add(-time.Minute), LastWrite: b.now.Add(-time.Minute)}
		report, err := reader.findings(t.Context(), e)
		says.True(t, err == nil && report.Outcome != "", "running %t: %+v, %v", running, report, err)
		_, err = os.Stat(filepath.Join(b.dir, layout.FindingsKey("log", ref)))
		says.True(t, (err == nil) != running, "running %t, its stored findings: %v", running, err)
	}
}
