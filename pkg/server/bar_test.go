package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// The bar is put into the page, not into the frontend's files, and names the way back and to the session relative to
// the page.
func TestBar(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	for path, back := range map[string]string{
		lab + name + "/":                  `data-base="../../../../../../"`,
		lab + name + "/at/1795216800000/": `data-base="../../../../../../../../"`,
		"/":                               `data-base="./"`,
	} {
		headers := []string{asBrowser}
		if path == "/" {
			headers = append(headers, "Cookie: cluster_name=lab; cluster_namespace=default; session_name="+name,
				"Content-Type: application/json")
		}
		got := f.ask(t, http.MethodGet, path, headers...)
		got.has(t, back, `data-path="namespaces/default/clusters/lab/sessions/`+name+`/"`, `data-cluster="lab"`,
			`homepage/assets/bar.js?`, "dashboard 2.60.0", `data-end="1795217100000"`)
		if clock := strings.Index(got.body, `homepage/assets/dashboardclock.js?`); clock < 0 ||
			clock > strings.Index(got.body, "dashboard 2.60.0") {
			t.Errorf("%s: the clock is not the page's first script: %.300s", path, got.body)
		}
	}
}

func TestActivity(t *testing.T) {
	f := start(t, nil)
	got := f.ask(t, http.MethodGet, lab+name+"/session_activity")
	var a struct {
		From, To        int64
		Running, Failed []int
	}
	if err := json.Unmarshal([]byte(got.body), &a); err != nil || got.status != http.StatusOK {
		t.Fatalf("%d %s: %v", got.status, got.body, err)
	}
	if a.To < a.From || len(a.Running) != len(a.Failed) {
		t.Errorf("%+v", a)
	}
	f.ask(t, http.MethodGet, lab+"session_gone/session_activity").wants(t, http.StatusGone)
}

func TestHeadStart(t *testing.T) {
	for page, want := range map[string]string{
		`<html lang="en"><head><meta/>`: "<head>", `<HEAD class="a">`: `<HEAD class="a">`, "<header></header>": "",
		"no HTML": "",
	} {
		if got := string(headStart.Find([]byte(page))); got != want {
			t.Errorf("%s: %q", page, got)
		}
	}
}

// A moment before the session is said to be one: the answer would look like that of an empty cluster.
func TestMomentBeforeStart(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	for path, status := range map[string]int{
		lab + name + "/at/2026-11-20T23:19:44Z/": 400, lab + name + "/at/2026-11-20T23:19:44Z/api/jobs/a": 400,
		lab + name + "/api/jobs/a?at=1000":       400,
		lab + name + "/at/2026-11-20T23:19:45Z/": 200, lab + name + "/at/2027-01-01T00:00:00Z/api/jobs/a": 200,
		lab + name + "/api/jobs/a": 200,
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		if got.status != status || status == 400 && !strings.Contains(got.body,
			"from 2026-11-20T23:19:45Z to 2026-11-20T23:25:00Z") {
			t.Errorf("%s: %d %.600s", path, got.status, got.body)
		}
	}
}
