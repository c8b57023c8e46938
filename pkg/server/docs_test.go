package server

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// TestDocsHaveOwnRoutes: docs/ have each route with which programs ask for what only this server has, and its
// parameters.
func TestDocsHaveOwnRoutes(t *testing.T) {
	// What our own commands and pages alone ask for.
	ours := map[string]bool{access.AboutPath: true, "near": true, "until": true, "continue": true}
	docs := ""
	for _, pattern := range []string{"../../docs/*.md", "../../docs/kubernetes/*.md"} {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			docs += string(must.Get(os.ReadFile(path))(t))
		}
	}
	f := start(t, func(o *Options, store *gatedStore) {
		withNotes(o, store)
		o.Routes = o.Dashboard.Routes()
	})
	f.waitDescribed(t)
	takes := regexp.MustCompile(`Parameters of this address are: ([^.]*)\.`)
	routes, parameters := 0, 0
	for _, route := range f.Config.Handler.(*Server).Routes() {
		path := strings.TrimPrefix(route.Path, sessionPrefix)
		if route.Method != http.MethodGet || strings.Contains(path, "{") || ours[path] ||
			!strings.HasPrefix(path, "/api/history/") && path != "/clusters" {
			continue
		}
		routes++
		if !strings.Contains(docs, path) {
			t.Errorf("docs/ do not have %s", path)
		}
		address := strings.ReplaceAll(route.Path, sessionPrefix, lab+name)
		m := takes.FindStringSubmatch(f.ask(t, http.MethodGet, address+"?fooo=1", asProgram).body)
		if m == nil {
			continue // it takes none
		}
		for parameter := range strings.SplitSeq(m[1], ", ") {
			parameters++
			named := regexp.MustCompile("`[^`]*\\b" + parameter + "\\b[^`]*`")
			if !ours[parameter] && !named.MatchString(docs) {
				t.Errorf("docs/ do not have the parameter %s of %s", parameter, path)
			}
		}
	}
	if routes < 12 || parameters < 60 {
		t.Errorf("only %d routes and %d parameters were compared", routes, parameters)
	}
}
