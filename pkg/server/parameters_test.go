package server

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

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
	if checked < 40 {
		t.Errorf("only %d routes were checked", checked)
	}
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
		if err != nil || got.status != http.StatusFound || to.Path != "/homepage" || to.RawQuery != want.Encode() {
			t.Errorf("%s: %d to %v, %v; want the list with %v", path, got.status, to, err, want)
		}
		f.ask(t, http.MethodGet, path, asProgram).wants(t, http.StatusNotFound, "/clusters")
	}
}
