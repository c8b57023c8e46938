package server

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// logged is a server with logs of two sessions of cluster lab.
func logged(t *testing.T) *fixture {
	t.Helper()
	f := start(t, func(_ *Options, store *gatedStore) {
		for session, logs := range map[string]map[string]string{
			name: {
				"raylet.out":                   "[2026-11-20 23:20:00,000 I 1 1] needle one\n[2026-11-20 23:22:00,000 E 1 1] needle two\nno <b>time</b>\n",
				"job-driver-raysubmit_1.log":   "needle of the driver\n",
				"worker-ab-01000000-12.out":    "nothing\n",
				"a b#c.log":                    "first\nneedle & more\n",
				"old/raylet.out":               "\x1b[31mneedle\x1b[0m of old\n",
				"events/event_GCS_secret.log?": "needle\n",
			},
			old: {"raylet.out": "needle of yesterday\n"},
		} {
			ref := layout.Session{Namespace: "default", Cluster: "lab", Name: session}
			for path, text := range logs {
				put(t, store, layout.LogKey(root, ref, rayid.Node{1}, path), text)
			}
		}
	})
	f.waitDescribed(t)
	return f
}

// records reads an answer of lines of JSON.
func records(t *testing.T, body string) (all []map[string]any) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(body))
	for lines.Scan() {
		var record map[string]any
		must.OK(t, json.Unmarshal(lines.Bytes(), &record), "in %.200s", lines.Text())
		all = append(all, record)
	}
	return all
}

// texts are the lines found, and the last record.
func texts(t *testing.T, body string) (found []string, end map[string]any) {
	t.Helper()
	for _, record := range records(t, body) {
		switch record["type"] {
		case "match":
			found = append(found, record["text"].(string))
		case "end":
			end = record
		}
	}
	slices.Sort(found)
	return found, end
}

func TestSearchLogs(t *testing.T) {
	f := logged(t)
	one, two := "[2026-11-20 23:20:00,000 I 1 1] needle one", "[2026-11-20 23:22:00,000 E 1 1] needle two"
	all := []string{one, two, "needle", "needle & more", "needle of old", "needle of the driver"}
	for path, want := range map[string][]string{
		lab + name + "/api/history/search?q=needle":                                               all,
		lab + "latest/api/history/search?q=NEEDLE&ignore_case=true":                               all,
		lab + name + "/api/history/search?q=needle+%5Bot%5D.%2A&regexp=1&file=raylet.out&level=e": nil,
		lab + name + "/api/history/search?q=needle+%5Bot%5D.%2A&regexp=1&level=error":             {two},
		lab + name + "/api/history/search?q=needle&from=2026-11-20T23:21:00Z":                     {two},
		lab + name + "/api/history/search?q=needle&node_id=01&submission_id=raysubmit_1": {
			"needle of the driver"},
		lab + name + "/api/history/search?q=needle&node_id=02": {},
		"/namespaces/default/clusters/lab/api/history/search?q=needle&submission_id=raysubmit_1": {
			"needle of the driver"},
		lab + name + "/api/history/search?q=needle&file=a*": {"needle & more"},
		lab + name + "/at/2026-11-20T23:21:00Z/api/history/search?q=needle&file=*let.out": {
			one, "needle of old"},
		"/api/history/search?q=needle&file=a*": {"needle & more"},
		"/namespaces/default/clusters/lab/api/history/search?q=needle&file=raylet.out": {
			one, two, "needle of old", "needle of yesterday"},
	} {
		got := f.ask(t, http.MethodGet, path, asProgram, cookies("default", "lab", name))
		if want == nil {
			got.wants(t, http.StatusBadRequest)
			continue
		}
		found, end := texts(t, got.body)
		says.True(t, got.status == http.StatusOK && slices.Equal(found, want) && end["complete"] == true,
			"%s: %d %q, %v; want %q", path, got.status, found, end, want)
	}
	if got := f.ask(t, http.MethodHead, lab+name+"/api/history/search?q=x", asProgram); got.status != 200 ||
		got.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("HEAD: %d %v", got.status, got.header)
	}
	for _, query := range []string{"q=(&regexp=1", "limit=x", "limit=-1", "from=yesterday", "regexp=maybe",
		"context=1000", "file=/etc/*", "timeout=100000"} {
		f.ask(t, http.MethodGet, lab+name+"/api/history/search?"+query, asProgram).wants(t, http.StatusBadRequest)
	}
	f.ask(t, http.MethodGet, "/namespaces/default/clusters/none/api/history/search?q=x", asProgram).wants(t,
		http.StatusGone)
}

// TestSearchAccess: nobody finds lines of namespaces they may not see.
func TestSearchAccess(t *testing.T) {
	f, _ := guarded(t)
	for _, path := range []string{"/namespaces/secret/clusters/classified/api/history/search?q=content",
		"/namespaces/secret/clusters/classified/sessions/latest/api/history/search?q=content"} {
		f.ask(t, http.MethodGet, path, asProgram, "Authorization: Bearer ann").wants(t, http.StatusForbidden).lacks(t,
			"classified content")
		f.ask(t, http.MethodGet, path, asProgram, "Authorization: Bearer bob").wants(t, http.StatusOK,
			"classified content")
	}
}
