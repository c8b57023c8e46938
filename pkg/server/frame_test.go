package server

import (
	"net/http"
	"strings"
	"testing"

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
		session + "findings?at=2026-11-20T23:20:00Z":                   "at/2026-11-20T23:20:00Z/findings",
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
