package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
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
		says.True(t, got.status == tc.status && got.header.Get("Location") == tc.location &&
			!strings.Contains(got.body, "layout"), "%s: %d to %q, want %d to %q: %s", tc.path, got.status,
			got.header.Get("Location"), tc.status, tc.location, got.body)
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
		{"/homepage", "Authorization: Bearer carol", 200, []string{"that carol may see, no sessions are stored", "Add the collector beside every Ray node"}},
		{"/nope", ann, 404, []string{"Nothing is at /nope.", "Correct the address", clusters}},
		{"/api/jobs/a", ann, 400, []string{"none is chosen", "Open a session in the list", clusters}},
		{"/fleet?team=ml", ann, 400, []string{"no parameter &#34;team&#34; here", "from, to", clusters}},
		{lab + "session_2026-01-01/", ann, 410, []string{
			"The cluster lab in namespace default has no session session_2026-01-01.",
			`homepage?cluster=lab&amp;namespace=default">Sessions of lab</a>`, clusters}},
		{lab + "lastest/", ann, 400, []string{"the session name &#34;lastest&#34; should be session_", clusters}},
		{"/namespaces/secret/clusters/lab/sessions/latest/", bob, 410, []string{
			"Nothing of a cluster lab in namespace secret is stored.", clusters}},
		{"/namespaces/secret/clusters/lba/sessions/latest/", bob, 410, []string{
			"Nothing of a cluster lba in namespace secret is stored.", clusters}}, // whose lab bob may not see
		{"/namespaces/default/clusters/lba/sessions/latest/", ann, 410, []string{
			"Nothing of a cluster lba in namespace default is stored (did you mean lab?).",
			`homepage?q=lab">Sessions of lab</a>`, clusters}},
		{"/namespaces/default/rayjobs/nightyl/latest", ann, 404, []string{"is stored (did you mean nightly?).",
			`homepage?q=nightly">Sessions of nightly</a>`, clusters}},
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
		if strings.Contains(main(body), "/homepage?q= ") ||
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

// foreign are routes of others' interfaces, which ignore parameters that they do not know, and files.
var foreign = []string{
	"/api/v1/{file_path:*}", "/{file_path:*}", "/homepage/assets/{file_path}", "/mcp", "/healthz", "/livez", "/readyz",
	"/metrics",
}

// TestUnknownParameters: each route of our own refuses a parameter that it does not know, and names it and those that
// it knows. Routes of Ray's ignore it, as Ray does. A route that is added has to do the one or the other.
func TestUnknownParameters(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	s := f.Config.Handler.(*Server)
	rays := map[string]bool{}
	for _, r := range s.opts.Routes {
		rays[r.Path] = !r.Own
	}
	checked := 0
	for _, route := range s.Routes() {
		path := strings.TrimPrefix(strings.TrimPrefix(route.Path, sessionPrefix), "/at/{"+paramAt+"}")
		if route.Method != http.MethodGet || rays[path] ||
			slices.ContainsFunc(foreign, func(p string) bool { return strings.HasSuffix(path, p) }) {
			continue
		}
		if path == "/" && route.Path != "/" || path == "" {
			continue // Ray's frontend
		}
		for name, value := range map[string]string{
			paramNamespace: "default", paramCluster: "lab", paramSession: name, paramAt: "2026-11-20T23:21:00Z",
			paramKind: "raycluster", paramPath: "x",
		} {
			path = strings.ReplaceAll(path, "{"+name+"}", value)
			route.Path = strings.ReplaceAll(route.Path, "{"+name+"}", value)
		}
		got := f.ask(t, http.MethodGet, route.Path+"?fooo=1", asProgram)
		got.wants(t, http.StatusBadRequest, "fooo")
		checked++
	}
	says.True(t, checked >= 40, "only %d routes were checked", checked)
	f.ask(t, http.MethodGet, lab+name+"/api/jobs/1?fooo=1", asProgram).wants(t, http.StatusOK)
}

// TestWrongValues: a value that cannot be used is refused with its parameter's name and what it should be, by pages
// beside its field.
func TestWrongValues(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	for address, want := range map[string]string{
		"/clusters?names=lab":                            "Parameters of this address are: q, namespace, cluster",
		"/clusters?state=running&state=ended":            "one value",
		"/clusters?q=%zz":                                "cannot be read",
		"/clusters?longer=abc":                           "a duration such as 90m",
		"/clusters?limit=0":                              "at least 1",
		"/clusters?continue=!":                           "continue",
		"/homepage?longer=abc":                           "Want a duration such as 90m",
		"/homepage?shorter=abc":                          "a duration such as 90m",
		"/homepage?state=dead":                           "Want running or ended",
		"/homepage?from=yesterday":                       "Want a date",
		"/homepage?size=7":                               "Want 25, 50",
		"/homepage?group=colour":                         "Want cluster or owner",
		"/homepage?sort=colour":                          "the name of a column",
		"/homepage?page=-1":                              "at least 1",
		"/homepage?names=lab":                            "There is no parameter",
		"/?names=lab":                                    "There is no parameter",
		"/?larger=huge":                                  "Want bytes",
		"/fleet?from=yesterday":                          "Want a date",
		"/fleet?from=2026-01-02&to=2026-01-01":           "Want a day before",
		"/fleet?top=many":                                "a whole number from 1 to 5000",
		"/api/history/fleet?format=xml":                  "json or csv",
		"/api/history/fleet?format=csv&table=x":          "days, causes",
		lab + name + "/search?level=loud":                "Want debug",
		lab + name + "/search?from=yesterday":            "Want a date or a time",
		lab + name + "/search?regexp=perhaps":            "true or false",
		lab + name + "/api/history/search?q=x&level=x":   "debug, info",
		lab + name + "/api/history/search?querry=x":      "Parameters of this address are: node_id",
		lab + name + "/api/history/logs.zip?nodes=x":     "Parameters of this address are: node_id",
		lab + name + "/log?node_id=x&file=raylet.out":    "56 hexadecimal digits",
		lab + name + "/note?pin=1":                       "Parameters of this address are: at.",
		lab + name + "/at/banana/":                       "which is not a time",
		lab + name + "/at/banana/session_status":         "which is not a time",
		lab + name + "/session_status?at=-5":             "in Unix milliseconds",
		lab + name + "/at/2026-11-20T23:21:00Z/log?at=x": "a time in RFC 3339",
	} {
		as := asBrowser
		if strings.Contains(address, "/api/") || strings.HasPrefix(address, "/clusters") {
			as = asProgram
		}
		got := f.ask(t, http.MethodGet, address, as)
		got.wants(t, http.StatusBadRequest, want)
	}
	// The values that the pages' own forms send when nothing is chosen.
	for _, address := range []string{
		"/homepage?sort=-start&q=&state=&outcome=&kind=&group=&size=25&from=&to=&longer=&larger=&version=",
		"/homepage?sort=version&group=cluster", "/fleet?q=&outcome=&kind=&version=&by=cpu",
		"/?page=99999999999999999999", lab + name + "/?anything=1",
	} {
		f.ask(t, http.MethodGet, address, asBrowser).wants(t, http.StatusOK)
	}
}

// main is what a page says.
func main(body string) string {
	if _, after, ok := strings.Cut(body, `<main id="main">`); ok {
		return after[:min(len(after), 600)]
	}
	return body[:min(len(body), 600)]
}

// TestUnfinishedAddresses: an address that ends early leads people to the list of what it names, and programs are told
// how to go on.
func TestUnfinishedAddresses(t *testing.T) {
	f := start(t, nil)
	for path, want := range map[string]url.Values{
		"/namespaces/": {}, "/namespaces/default": {"namespace": {"default"}},
		"/namespaces/default/": {"namespace": {"default"}}, "/namespaces/default/clusters/": {"namespace": {"default"}},
		"/namespaces/default/clusters/lab":           {"namespace": {"default"}, "cluster": {"lab"}},
		"/namespaces/default/clusters/lab/sessions/": {"namespace": {"default"}, "cluster": {"lab"}},
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		at, err := url.Parse(f.URL + path)
		must.OK(t, err)
		to, err := at.Parse(got.header.Get("Location"))
		says.True(t, err == nil && got.status == http.StatusFound && to.Path == "/homepage" &&
			to.RawQuery == want.Encode(), "%s: %d to %v, %v; want the list with %v", path, got.status, to, err, want)
		f.ask(t, http.MethodGet, path, asProgram).wants(t, http.StatusNotFound, "/clusters")
	}
}
