package dashboard

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

func TestWritesAreRefused(t *testing.T) {
	a := made(t, func(*session.Session) {})
	for _, tt := range []struct{ method, url string }{
		{"POST", "/api/jobs/"}, {"POST", "/api/jobs/a/stop"}, {"DELETE", "/api/jobs/a"},
		{"PUT", "/api/packages/gcs/a.zip"},
		{"PUT", "/api/serve/applications/"}, {"DELETE", "/api/serve/applications/"}, {"GET", "/worker/traceback"},
		{"GET", "/worker/cpu_profile"},
		{"GET", "/task/traceback"}, {"GET", "/memory_profile"}, {"POST", "/report_events"},
	} {
		w := a.do(tt.method, tt.url)
		says.True(t, w.Code == http.StatusMethodNotAllowed &&
			strings.HasPrefix(w.Body.String(), "This is a stored session of a Ray cluster"), "%s %s: %d %s", tt.method,
			tt.url, w.Code, w.Body)
	}
}

func TestHead(t *testing.T) {
	a := made(t, func(*session.Session) {})
	for url, status := range map[string]int{"/api/v0/platform_events": 404, "/nodes?view=summary": 200,
		"/api/jobs/nope": 404} {
		says.Equal(t, a.do(http.MethodHead, url).Code, status, "HEAD %s", url)
	}
}

func TestMetrics(t *testing.T) {
	for _, tt := range []struct {
		name        string
		opts        Options
		url, answer string
		status      int
	}{
		{"no Grafana", Options{}, "/api/grafana_health",
			`"msg": "Grafana healthcheck failed", "data": {"exception": "No Grafana`, 500},
		{"Grafana off", Options{Services: Services{GrafanaHost: "DISABLED"}}, "/api/grafana_health",
			`"msg": "Grafana disabled", "data": {"grafanaHost": "DISABLED"}`, 200},
		{"Grafana", Options{Services: Services{GrafanaHost: "http://g:3000", GrafanaIframeHost: "https://grafana"}},
			"/api/grafana_health",
			`"msg": "Grafana running", "data": {"grafanaHost": "grafana", "grafanaOrgId": "1", "sessionName": "session_2026-11-20_23-19-45_581717_22125", "dashboardUids": {"default": "rayDefaultDashboard", "serve": "rayServeDashboard", "serveDeployment":`, 200},
		{"Grafana Cloud", Options{Services: Services{GrafanaHost: "https://me.grafana.net"}}, "/api/grafana_health",
			`"data": {"grafanaHost": "https://me.grafana.net", "grafanaOrgId"`, 200},
		{"stored metrics", Options{Services: Services{Panels: noPanels{}}}, "/api/grafana_health",
			`"msg": "Grafana running", "data": {"grafanaHost": "grafana", "grafanaOrgId": "1", "sessionName"`, 200},
		{"stored metrics", Options{Services: Services{Panels: noPanels{}}}, "/api/prometheus_health",
			`{"result": true, "msg": "prometheus running", "data": {}}`, 200},
		{"Grafana off", Options{Services: Services{GrafanaHost: "DISABLED", Panels: noPanels{}}}, "/api/grafana_health",
			`"data": {"grafanaHost": "DISABLED"}`, 200},
		{"no Prometheus", Options{}, "/api/prometheus_health",
			`"msg": "prometheus healthcheck failed.", "data": {"reason": "No Prometheus`, 500},
		{"Prometheus", Options{Services: Services{PrometheusHost: "http://p:9090"}}, "/api/prometheus_health",
			`{"result": true, "msg": "prometheus running", "data": {}}`, 200},
		{"health", Options{}, "/api/gcs_healthz", "success", 200},
		{"no page of Grafana", Options{}, "/grafana/d/x", "", 404},
		{"no page of Grafana", Options{Services: Services{GrafanaHost: "DISABLED"}}, "/grafana/d/x", "", 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := made(t, func(*session.Session) {}).session
			w := newAsker(t, s, tt.opts).get(tt.url)
			response.Is(t, w, tt.status, tt.answer, "%d %s, want %s", w.Code, w.Body, tt.answer)
		})
	}
}

// TestSecrets: browsers do not see the values of environment variables, tools do.
func TestSecrets(t *testing.T) {
	actor := entities.Actor{ID: rayid.Actor{1}, Defined: true,
		RuntimeEnv: `{"working_dir": "/x", "env_vars": {"B": "secret1", "A": "secret2"}}`}
	job := entities.Job{ID: rayid.Job{1}, RuntimeEnv: `{"env_vars": {"B": "secret1"}}`,
		Transitions: []entities.JobTransition{{State: "CREATED", Time: 1}}}
	broken := entities.Actor{ID: rayid.Actor{2}, Defined: true, RuntimeEnv: `secret3`}
	a := made(t, func(s *session.Session) { s.Actors, s.Jobs = []entities.Actor{actor, broken}, []entities.Job{job} })
	for _, url := range []string{"/api/jobs/", "/api/jobs/01000000", "/api/v0/jobs?detail=1",
		"/api/v0/actors?detail=1"} {
		w := a.get(url)
		says.True(t, strings.Contains(w.Body.String(), "secret1"), "%s: a tool does not see it: %s", url, w.Body)
		for header, value := range map[string]string{"User-Agent": "Mozilla/5.0", "Sec-Fetch-Mode": "cors",
			"Origin": "http://x"} {
			text := a.with(header, value, url)
			says.True(t, !strings.Contains(text, "secret") && strings.Contains(text, "<redacted>"), "%s with %s: %s",
				url, header, text)
		}
	}
}

// TestUnreadableStore: what cannot be read is said, and can be tried again.
func TestUnreadableStore(t *testing.T) {
	rec := recording.Open(t)
	dir, node := rec.Store(), rayid.Node{1}
	put(t, dir, layout.LogKey(layout.DefaultRoot, rec.Session, node, "empty.log"), "")
	s := load(t, dir, rec.Session)
	must.OK(t, os.RemoveAll(filepath.Join(dir, filepath.FromSlash(layout.Prefix(layout.DefaultRoot, rec.Session)))))
	a := newAsker(t, s, Options{})
	for _, url := range []string{"/nodes?view=summary", "/api/jobs/", "/api/v0/actors", "/events", "/api/version",
		"/api/v0/logs/file?filename=empty.log&node_id=" + node.String()} {
		w := a.get(url)
		says.True(t, w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" &&
			strings.Contains(w.Body.String(), "could not be read from the object store"), "%s: %d %s", url, w.Code,
			w.Body)
	}
}

func TestActorsByIDs(t *testing.T) {
	a := recorded(t)
	got := a.data("/logical/actors?ids=c89be53b4ccb1674de0777b502000000,ffff").Object("actors")
	if got.Len() != 2 || got.Object("c89be53b4ccb1674de0777b502000000").String("name") != "detached1" ||
		got.Get("ffff") != nil {
		t.Errorf("%s", pyjson.Append(nil, got))
	}
}

// TestActorsHaveTheirOwnIDs: a dashboard's answer was saved in the moment in which it gave actors that had just begun
// the nil ID, as Ray 2.60's does. They are shown, each under its own. What it listed under no ID at all is not.
func TestActorsHaveTheirOwnIDs(t *testing.T) {
	const nilID = `"actorId": "ffffffffffffffffffffffffffffffff", "jobId": "ffffffff", "state": "ALIVE"`
	dir := t.TempDir()
	saved := `{"result": true, "msg": "", "data": {"actors": {"3e3cfe62d63e7d8b43954ee404000000": {` +
		nilID + `, "name": "kept"},
		"5e19c11469fd95b314d8c2c605000000": {` + nilID + `, "name": "stats"},
		"": {"actorId": "", "jobId": "", "state": "DEAD", "name": "of a busy moment", "className": ""}}}}`
	put(t, dir, layout.SnapshotKey(layout.DefaultRoot, lab, "/logical/actors"), saved)
	a := newAsker(t, load(t, dir, lab), Options{})
	want := map[string]string{"3e3cfe62d63e7d8b43954ee404000000": "kept 04000000",
		"5e19c11469fd95b314d8c2c605000000": "stats 05000000"}
	logical := a.data("/logical/actors").Object("actors")
	says.Equal(t, logical.Len(), len(want), "actors")
	for id, name := range want {
		row := logical.Object(id)
		says.True(t, row != nil && row.String("actorId") == id && row.String("name")+" "+row.String("jobId") == name,
			"%s: %s", id, pyjson.Append(nil, row))
	}
	says.Equal(t, a.column("/api/v0/actors", "actor_id", "name"), "3e3cfe62:kept 5e19c114:stats", "listed")
}

// TestWorkersAfterTheLastList: of workers without events, those are listed that the last saved list has, and those in
// which a task began after it was saved.
func TestWorkersAfterTheLastList(t *testing.T) {
	a := newAsker(t, withLateWorkers(t, 3), Options{})
	for clock, want := range map[string]string{
		"": "aaaaaaaa:<nil> cccccccc:3", "23:20:29": "aaaaaaaa:<nil>", "23:20:31": "aaaaaaaa:<nil> cccccccc:3",
	} {
		if a.at = 0; clock != "" {
			a.at = at(clock)
		}
		says.Equal(t, a.column("/api/v0/workers", "worker_id", "pid"), want, "at %s", clock)
	}
}

// TestWorkersAfterTheLastListAreSoughtOnce: the tasks, which nobody goes through whose context has ended, are gone
// through once for a moment, and not at all if the list has all workers with a log.
func TestWorkersAfterTheLastListAreSoughtOnce(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	s, d := withLateWorkers(t, 3), New(Options{Log: logrus.New()})
	before := must.Get(d.MomentAt(s, 0).Workers(t.Context()))(t)
	again := must.Get(d.MomentAt(s, 0).Workers(ended))(t)
	says.True(t, len(before) == 2 && len(again) == 2, "%d workers, then %d", len(before), len(again))
	says.Equal(t, len(must.Get(d.MomentAt(withLateWorkers(t, 1), 0).Workers(ended))(t)), 1,
		"workers, but one is listed")
}

// TestSpellingsOfAList: of a list that was saved under several addresses, the last one with all columns answers, and at
// a moment none from after it.
func TestSpellingsOfAList(t *testing.T) {
	dir := t.TempDir()
	for query, clocks := range map[string][]string{
		"?detail=1&limit=20000": {"23:20:10", "23:20:20"}, // before the collector was replaced
		"?detail=1&limit=10000": {"23:20:30", "23:20:40"},
		"?limit=30000":          {"23:20:50"},
	} {
		for _, clock := range clocks {
			list := layout.SnapshotKey(layout.DefaultRoot, lab, "/api/v0/placement_groups"+query)
			put(t, dir, layout.SnapshotVersionKey(list, time.Unix(0, at(clock))), `{"result": true, "data": {"result": {`+
				`"total": 1, "result": [{"placement_group_id": "`+strings.Repeat("ab", 18)+`", "name": "`+clock+`"}]}}}`)
		}
	}
	a := newAsker(t, load(t, dir, lab), Options{})
	for clock, want := range map[string]string{"": "23:20:40", "23:20:35": "23:20:30", "23:20:25": "23:20:20",
		"23:20:05": "23:20:10"} {
		if a.at = 0; clock != "" {
			a.at = at(clock)
		}
		got := a.column("/api/v0/placement_groups", "placement_group_id", "name")
		says.True(t, strings.HasSuffix(got, want), "at %s: %s, want %s", clock, got, want)
	}
}

// withLateWorkers is a session whose last list of workers has aa. There are the logs of so many of aa, bb and cc; a
// task began in bb before the list was saved, and one in cc after it.
func withLateWorkers(t *testing.T, logs int) *session.Session {
	t.Helper()
	node := rayid.Node{1}
	ids := []string{strings.Repeat("aa", 28), strings.Repeat("bb", 28), strings.Repeat("cc", 28)}
	dir := t.TempDir()
	for i, id := range ids[:logs] {
		log := fmt.Sprintf("python-core-worker-%s_%d.log", id, i+1)
		put(t, dir, layout.LogKey(layout.DefaultRoot, lab, node, log), "x")
	}
	events := ""
	for i, second := range []int{10, 30} { // in bb and cc
		worker := must.Get(hex.DecodeString(ids[i+1]))(t)
		events += fmt.Sprintf(`{"taskDefinitionEvent": {"taskId": %[1]q, "jobId": "AQAAAA==", `+
			`"taskType": "NORMAL_TASK"}}`+"\n"+`{"taskLifecycleEvent": {"taskId": %[1]q, "jobId": "AQAAAA==", `+
			`"workerId": %[2]q, "stateTransitions": [{"state": "RUNNING", "timestamp": "2026-11-20T23:20:%[3]dZ"}]}}`+
			"\n",
			base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%020d\x01\x00\x00\x00", i)),
			base64.StdEncoding.EncodeToString(worker), second)
	}
	put(t, dir, layout.NodeEventsKey(layout.DefaultRoot, lab, node, time.Unix(0, at("23:20:00"))), events)
	list := layout.SnapshotKey(layout.DefaultRoot, lab, "/api/v0/workers"+layout.AllRows)
	put(t, dir, layout.SnapshotVersionKey(list, time.Unix(0, at("23:20:20"))),
		`{"result": true, "data": {"result": {"total": 1, "num_after_truncation": 1, "num_filtered": 1, "result": [`+
			`{"worker_id": "`+ids[0]+`", "is_alive": true}]}}}`)
	return load(t, dir, lab)
}
