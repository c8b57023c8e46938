package server

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// TestDocsHaveOwnRoutes: docs/ have each route with which programs ask for what only this server has, and its
// parameters. docs/dev/features.md has the parameters of all our own routes; UPDATE_DOCS=1 writes them.
func TestDocsHaveOwnRoutes(t *testing.T) {
	// What our own commands and pages alone ask for, and Ray's routes.
	ours := map[string]bool{access.AboutPath: true, "/mcp": true, "near": true, "until": true, "continue": true}
	docs := ""
	for _, pattern := range []string{"../../docs/*.md", "../../docs/kubernetes/*.md"} {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			docs += string(must.Get(os.ReadFile(path))(t))
		}
	}
	f := start(t, func(o *Options, store *gatedStore) {
		withNotes(o, store)
		o.Routes = o.Dashboard.Routes()
		for _, route := range o.Routes {
			if !route.Own { // they ignore unknown parameters
				ours[route.Path] = true
			}
		}
	})
	f.waitDescribed(t)
	takes := regexp.MustCompile(`Parameters of this address are: ([^.]*)\.`)
	routes, parameters := 0, 0
	listed := map[string]string{} // the parameters of each of our own routes
	for _, route := range f.Config.Handler.(*Server).Routes() {
		path := strings.TrimPrefix(route.Path, sessionPrefix)
		if route.Method != http.MethodGet || strings.Contains(path, "{") || ours[path] {
			continue
		}
		address := strings.ReplaceAll(route.Path, sessionPrefix, lab+name)
		answer := f.ask(t, http.MethodGet, address+"?fooo=1", asProgram).body
		m := takes.FindStringSubmatch(answer)
		if m != nil {
			listed[path] = ": " + docblock.Names(strings.Split(m[1], ", "))
		} else if strings.Contains(answer, "This address takes no parameters.") {
			listed[path] = ""
		}
		if !strings.HasPrefix(path, "/api/history/") && path != "/clusters" {
			continue
		}
		if routes++; !strings.Contains(docs, path) {
			t.Errorf("docs/ do not have %s", path)
		}
		if m == nil {
			continue // it takes none
		}
		for parameter := range strings.SplitSeq(m[1], ", ") {
			parameters++
			named := regexp.MustCompile("`[^`]*\\b" + parameter + "\\b[^`]*`")
			says.True(t, ours[parameter] || named.MatchString(docs), "docs/ do not have the parameter %s of %s",
				parameter, path)
		}
	}
	says.True(t, routes >= 12 && parameters >= 60, "only %d routes and %d parameters were compared", routes, parameters)
	var list strings.Builder
	for _, path := range slices.Sorted(maps.Keys(listed)) {
		fmt.Fprintf(&list, "- `%s`%s\n", path, listed[path])
	}
	docblock.Keep(t, "../../docs/dev/features.md", "routes", list.String())
}
