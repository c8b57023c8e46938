// Package tabledocs compares what docs/analysis.md says of the tables that people read with the tables.
package tabledocs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// ofAll are the columns that the page says of all tables, or of those of rows in JSON, and not of each.
var ofAll = []string{"session", "cluster", "namespace", "row"}

// HasColumns checks that the page in the repository has a table with this name, and its columns in their order.
func HasColumns(t *testing.T, repository string, table *parquet.Schema) {
	t.Helper()
	page := string(must.Get(os.ReadFile(filepath.Join(repository, "docs/analysis.md")))(t))
	var columns []string
	for _, field := range table.Fields() {
		if !slices.Contains(ofAll, field.Name()) {
			columns = append(columns, "`"+field.Name()+"`")
		}
	}
	row := regexp.MustCompile("(?m)^\\| `" + table.Name() + "` \\|[^|]*\\| (.*) \\|$").FindStringSubmatch(page)
	if want := strings.Join(columns, " "); row == nil || row[1] != want {
		t.Errorf("docs/analysis.md has other columns of %s: %q. Write there:\n%s", table.Name(), row, want)
	}
}
