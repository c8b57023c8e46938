package server

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
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
			says.True(t, got.status == http.StatusFound && to.String() == want, "%s with %s: %d to %s, want %s", from,
				as, got.status, to, want)
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
	says.True(t, strings.Contains(header, "Signed in as") && !strings.Contains(header, "logout"),
		"who sends a header is shown %s", header)
}

// TestAddresses: what people know of a job leads to the job in the newest session that has it, and never to a part of a
// longer ID.
func TestAddresses(t *testing.T) {
	newer := layout.Session{Namespace: "team", Cluster: "nightly-abcde", Name: "session_2026-11-21_00-00-00_000000_1"}
	newest := layout.Session{Namespace: "team", Cluster: "nightly-fghij", Name: "session_2026-11-22_00-00-00_000000_1"}
	f := start(t, func(_ *Options, store *gatedStore) {
		jobs := func(ref layout.Session, ids ...string) {
			var rows []string
			for _, id := range ids {
				rows = append(rows, fmt.Sprintf(
					`{"submission_id":%q,"status":"FAILED","entrypoint":"python raysubmit_entry"}`, id))
			}
			put(t, store, layout.SnapshotKey(root, ref, "/api/jobs/"), "["+strings.Join(rows, ",")+"]")
		}
		jobs(layout.Session{Namespace: "default", Cluster: "lab", Name: name}, "raysubmit_Zz9", "both", "odd id?&%",
			"../up")
		for _, ref := range []layout.Session{newer, newest} {
			put(t, store, layout.MarkerKey(root, ref), "")
			put(t, store, layout.MetadataKey(root, ref, layout.Start),
				`{"ownerKind":"RayJob","ownerName":"nightly","rayVersion":"2.60.0"}`)
			put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-22T23:25:00Z"}`)
		}
		jobs(newer, "both", "nightly-vwxyz")
		jobs(newest, "nightly-a1b2c", "nightly-second-1", "raysubmit_Zz9longer")
	})
	f.waitDescribed(t)
	home := lab + name + "/"
	team := "/namespaces/team/clusters/" + newest.Cluster + "/sessions/" + newest.Name + "/"
	for path, want := range map[string]string{
		"/jobs/raysubmit_Zz9":          home + "#/jobs/raysubmit_Zz9",
		"/jobs/raysubmit_Zz9/findings": home + "findings?submission_id=raysubmit_Zz9",
		"/jobs/both/findings": "/namespaces/team/clusters/" + newer.Cluster +
			"/sessions/" + newer.Name + "/findings?submission_id=both",
		"/jobs/odd%20id%3F&%25/findings":                   home + "findings?submission_id=odd+id%3F%26%25",
		"/namespaces/team/rayjobs/nightly/latest":          team + "#/jobs/nightly-a1b2c",
		"/namespaces/team/rayjobs/nightly/latest/findings": team + "findings?submission_id=nightly-a1b2c",
		// which of its jobs is the RayJob's is not known
		"/namespaces/default/rayjobs/nightly/latest": home + "#/jobs",
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		at, err := url.Parse(f.URL + path)
		must.OK(t, err)
		to, err := at.Parse(got.header.Get("Location"))
		says.True(t, err == nil && got.status == http.StatusFound && strings.TrimPrefix(to.String(), f.URL) == want,
			"%s: %d to %v, %v; want %s", path, got.status, to, err, want)
	}
	for _, path := range []string{
		"/jobs/raysubmit_Zz", "/jobs/raysubmit", "/jobs/Zz9", "/jobs/%0A", "/jobs/raysubmit_Zz9%0Aboth",
		"/jobs/python%20raysubmit", "/jobs/" + strings.Repeat("x", 3000),
		"/namespaces/team/rayjobs/night/latest", "/namespaces/team/rayservices/nightly/latest",
		"/namespaces/other/rayjobs/nightly/latest/findings",
	} {
		f.ask(t, http.MethodGet, path, asProgram).wants(t, http.StatusNotFound, "/homepage")
	}
}

// TestAddressesOfOthers: a job of a namespace that the caller may not see is answered as one that does not exist.
func TestAddressesOfOthers(t *testing.T) {
	f, _ := guarded(t)
	const job = "/jobs/raysubmit_classified/findings"
	f.ask(t, http.MethodGet, job, asProgram, "Authorization: Bearer bob").wants(t, http.StatusFound)
	hidden := f.ask(t, http.MethodGet, job, asProgram, "Authorization: Bearer ann")
	unknown := f.ask(t, http.MethodGet, "/jobs/raysubmit_unknown/findings", asProgram, "Authorization: Bearer ann")
	says.True(t, hidden.status == http.StatusNotFound &&
		hidden.body == strings.ReplaceAll(unknown.body, "raysubmit_unknown", "raysubmit_classified"),
		"as ann: %d %s, want what is answered of a job that does not exist: %s", hidden.status, hidden.body,
		unknown.body)
}

// TestBelowAPath: behind a proxy that removes a path from requests, all that pages lead to is below that path.
func TestBelowAPath(t *testing.T) {
	f := start(t, nil)
	f.waitLoaded(t, name)
	behind := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(f.URL))(t))
	front := httptest.NewServer(http.StripPrefix("/history", behind))
	t.Cleanup(front.Close)
	outside := *f
	outside.Server = front
	for _, page := range []string{"/", "/homepage", "/fleet", lab + name + "/", lab + "latest/findings",
		lab + name + "/logs", lab + name + "/search?q=x", lab + name + "/timeline", lab + name + "/note",
		lab + name + "/compare", lab + "none/findings"} {
		got := outside.ask(t, http.MethodGet, "/history"+page, asBrowser)
		at := must.Get(url.Parse("/history" + page))(t)
		addresses := addressInPage.FindAllStringSubmatch(got.body, -1)
		says.True(t, len(addresses) > 2, "%s: %d, addresses %q", page, got.status, addresses)
		for _, found := range append(addresses, []string{"", got.header.Get("Location")}) {
			to := at.ResolveReference(must.Get(url.Parse(html.UnescapeString(found[1])))(t))
			says.True(t, to.Host != "" || strings.HasPrefix(to.Path, "/history/"), "%s leads to %s", page, to)
		}
	}
}

// addressInPage matches what a page leads to, asks or loads.
var addressInPage = regexp.MustCompile(`\b(?:href|src|action|formaction|data-status)="([^"#]+)`)
