package dashboard

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRoutesDocs: docs/compatibility.md has a row for every request that is answered, and none for one that is not.
func TestRoutesDocs(t *testing.T) {
	const document = "../../docs/compatibility.md"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, table, begins := strings.Cut(string(text), "<!-- routes -->")
	table, _, ends := strings.Cut(table, "<!-- end of routes -->")
	if !begins || !ends {
		t.Fatalf("%s has no table of routes between its marks", document)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		told[m[1]] = true
	}
	served := map[string]bool{}
	for _, route := range New(Options{}).Routes() {
		// Grafana's pages are none of Ray's dashboard.
		if route.Method == http.MethodGet && !refuses(route) && !strings.HasPrefix(route.Path, "/grafana/") {
			served[route.Path] = true
		}
	}
	for path := range served {
		if !told[path] {
			t.Errorf("%s does not tell where %s comes from", document, path)
		}
	}
	for path := range told {
		if !served[path] {
			t.Errorf("%s tells of %s, which is not served", document, path)
		}
	}
}

// refuses says whether a route is answered by a refusal, whatever is asked.
func refuses(route Route) bool {
	for _, r := range refusals {
		if r.method == route.Method && r.path == route.Path {
			w := httptest.NewRecorder()
			route.Serve(w, nil)
			return w.Code == http.StatusMethodNotAllowed
		}
	}
	return false
}
