package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// Addresses that people mistype or cut say what is meant, without words of the code.
func TestMistakes(t *testing.T) {
	f := start(t, nil)
	for _, tc := range []struct {
		path, as, location string
		status             int
		holds              []string
	}{
		{path: lab + "lastest/", as: asBrowser, status: 400,
			holds: []string{"lastest", "latest (the newest)", "session_2026-"}},
		{path: lab + "lastest/api/jobs/a", as: asProgram, status: 400,
			holds: []string{"lastest", "latest (the newest)"}},
		{path: "/namespaces/default/clusters/lab", as: asBrowser, status: 302,
			location: "../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab/", as: asBrowser, status: 302,
			location: "../../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab/sessions/", as: asBrowser, status: 302,
			location: "../../../../../homepage?cluster=lab&namespace=default"},
		{path: "/namespaces/default/clusters/lab", as: asProgram, status: 404, holds: []string{"/sessions/latest"}},
		{path: "/namespaces", as: asProgram, status: 404,
			holds: []string{"This address names no session.", "/clusters lists all sessions."}},
		{path: "/namespaces/default", as: asProgram, status: 404,
			holds: []string{"address of a namespace", "/clusters?namespace=default lists its sessions."}},
		{path: "/namespaces/a%3Cb/clusters/%22%26x", as: asBrowser, status: 302,
			location: "../../../homepage?cluster=%22%26x&namespace=a%3Cb"},
	} {
		got := f.ask(t, http.MethodGet, tc.path, tc.as)
		if got.status != tc.status || got.header.Get("Location") != tc.location ||
			strings.Contains(got.body, "layout") {
			t.Errorf("%s: %d to %q, want %d to %q: %s", tc.path, got.status, got.header.Get("Location"), tc.status,
				tc.location, got.body)
		}
		for _, want := range tc.holds {
			got.has(t, want)
		}
	}
}

// TestWaysOn: a page about a mistake says what is wrong in the words of who made it, and links to where they can go
// on: to what is stored instead, of what they may see, and to the session's other pages.
func TestWaysOn(t *testing.T) {
	f, _ := guarded(t)
	f.waitDescribed(t)
	ann, bob := "Authorization: Bearer ann", "Authorization: Bearer bob"
	const clusters = `homepage">All clusters</a>`
	for _, tc := range []struct {
		path, who string
		status    int
		holds     []string
	}{
		{"/nope", ann, 404, []string{"Nothing is at /nope.", "Correct the address", clusters}},
		{"/api/jobs/a", ann, 400, []string{"none is chosen", "Open a session in the list", clusters}},
		{"/fleet?team=ml", ann, 400, []string{"no parameter &#34;team&#34; here", "from, to", clusters}},
		{lab + "session_2026-01-01/", ann, 410, []string{
			"The cluster lab in namespace default has no session session_2026-01-01.",
			`homepage?cluster=lab&amp;namespace=default">Sessions of lab</a>`, clusters}},
		{lab + "lastest/", ann, 400, []string{"the session name &#34;lastest&#34; should be session_", clusters}},
		{"/namespaces/secret/clusters/lab/sessions/latest/", bob, 410, []string{
			"Nothing of a cluster lab in namespace secret is stored.", clusters}},
		{"/namespaces/other/clusters/lab/sessions/latest/", ann, 403, []string{"login\">Sign in</a>", clusters}},
		{"/namespaces/default/clusters/nightly/sessions/latest/", ann, 410, []string{
			"Nothing of a cluster nightly in namespace default is stored; there is default/nightly.",
			`homepage?namespace=default&amp;owner=nightly">Sessions of default/nightly</a>`}},
		{"/jobs/raysubmit_x", ann, 404, []string{"raysubmit_x", `homepage?q=raysubmit_x">Search for it</a>`}},
		{"/namespaces/secret/rayjobs/nightly/latest", bob, 404, []string{"Correct the names", clusters}},
		{lab + name + "/compare?top=x", ann, 400, []string{"The parameter &#34;top&#34; is &#34;x&#34;",
			lab + name + `/overview">Overview</a>`, clusters}},
		{lab + name + "/at/banana/findings", ann, 400, []string{"the moment &#34;banana&#34;, which is not a time",
			lab + name + `/findings">Findings</a>`}},
		{lab + name + "/nope", ann, 404, []string{"Nothing is at", lab + name + `/search">Logs</a>`}},
	} {
		got := f.ask(t, http.MethodGet, tc.path, asBrowser, tc.who)
		got.wants(t, tc.status)
		depth := strings.Repeat("../", strings.Count(tc.path, "/")-1)
		body := strings.ReplaceAll(got.body, `href="`+depth, `href="/`)
		for _, want := range tc.holds {
			says.All(t, body, want)
		}
		if strings.Contains(main(body), "/homepage?q=") && !strings.Contains(tc.path, "jobs") ||
			strings.Contains(tc.path, "secret") && strings.Contains(main(body), "default/") {
			t.Errorf("%s shows what is not for people, or not for %s: %s", tc.path, tc.who, main(body))
		}
	}
	for path, want := range map[string]string{
		lab + "session_2026-01-01/api/jobs/a": "/clusters lists all of them",
		"/nope":                               "/homepage and /clusters",
		"/api/jobs/a":                         "{session or latest} before the path",
	} {
		f.ask(t, http.MethodGet, path, asProgram, ann).has(t, want)
	}
}
