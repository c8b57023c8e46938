package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// TestFrame: every page of a session says where it is and leads to the others, at the moment that it shows.
func TestFrame(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	const session = "namespaces/default/clusters/lab/sessions/" + name + "/"
	for page, tab := range map[string]string{
		session + "timeline": "timeline",
		session + "findings": "findings", session + "search": "search", session + "note": "note",
		session + "log?node_id=" + strings.Repeat("0", 56) + "&file=x": "",
		session + "at/2026-11-20T23:20:00Z/findings":                   "at/2026-11-20T23:20:00Z/findings",
		"homepage": "",
	} {
		got := f.ask(t, http.MethodGet, "/"+page, asBrowser)
		if got.status == http.StatusNotFound {
			continue // this server has no such page
		}
		got.lacks(t, "Signed in")
		root := strings.Repeat("../", strings.Count(page, "/"))
		want := `href="` + root + session + tab + `" aria-current="page"`
		if tab != "" && tab != "note" && !strings.Contains(got.body, want) ||
			tab == "" && strings.Contains(got.body, `class="tabs"`) {
			t.Errorf("%s: no %s in %s", page, want, got.body)
		}
		if tab != "" && (!strings.Contains(got.body, `homepage?cluster=lab&amp;namespace=default"`) ||
			!strings.Contains(got.body, `<time datetime="2026-11-20T23:19:45Z" data-ago`)) {
			t.Errorf("%s says neither where it is nor when: %s", page, got.body)
		}
	}
}

// TestMomentOfQuery: pages lead from ?at= to their address at that moment, which all of their links are relative to,
// and so do the logs of a job.
func TestMomentOfQuery(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	const at, session, latest = "?at=2026-11-20T23%3A20%3A00Z", lab + name, lab + "latest"
	ways := map[string]string{
		session + at:      session + "/at/2026-11-20T23:20:00Z/",
		latest + "/" + at: latest + "/at/2026-11-20T23:20:00Z/",
		session + "/search?at=1795216800000&q=a+%23b": session + "/at/1795216800000/search?q=a+%23b",
		session + "/at/1795216860000/log" + at:        session + "/at/2026-11-20T23:20:00Z/log",
		session + "/logs" + at + "&log=a&log=b":       session + "/at/2026-11-20T23:20:00Z/logs?log=a&log=b",
		session + "/logs" + at + "&job_id=x":          session + "/at/2026-11-20T23:20:00Z/logs?job_id=x",
	}
	for _, page := range []string{"/overview", "/findings", "/timeline", "/note", "/compare"} {
		ways[session+page+at] = session + "/at/2026-11-20T23:20:00Z" + page
		ways[page+at] = session + "/at/2026-11-20T23:20:00Z" + page // of the cookies' session
	}
	for from, want := range ways {
		for _, as := range []string{asBrowser, asProgram} {
			got := f.ask(t, http.MethodGet, from, as, cookies("default", "lab", name))
			to := must.Get(must.Get(url.Parse(from))(t).Parse(got.header.Get("Location")))(t)
			if got.status != http.StatusFound || to.String() != want {
				t.Errorf("%s with %s: %d to %s, want %s", from, as, got.status, to, want)
			}
		}
	}
	f.ask(t, http.MethodGet, session+"/search?at=noon", asBrowser).wants(t, http.StatusBadRequest, "noon")
}

// TestFrameSaysWhoIsSignedIn: pages name the caller; only who signed in with the browser can sign out.
func TestFrameSaysWhoIsSignedIn(t *testing.T) {
	f, _ := guardedBy(t, access.Config{Auth: access.Token, Token: "secret"})
	cookie := f.ask(t, http.MethodGet, "/homepage", asBrowser, "Cookie: history_token=secret").body
	header := f.ask(t, http.MethodGet, "/homepage", asBrowser, "Authorization: Bearer secret").body
	says.All(t, cookie, "Signed in as", `action="./logout"`)
	if !strings.Contains(header, "Signed in as") || strings.Contains(header, "logout") {
		t.Errorf("who sends a header is shown %s", header)
	}
}
