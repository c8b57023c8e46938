package backend

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/must"
)

var update = flag.Bool("update", false, "write the table of settings to docs/backends.md")

// TestDocs: the table of settings in the documentation is that of the code.
func TestDocs(t *testing.T) {
	const name, begin, end = "../../../docs/backends.md", "<!-- settings -->\n", "<!-- /settings -->"
	data := must.Get(os.ReadFile(name))(t)
	before, rest, found := strings.Cut(string(data), begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table between %q and %q", name, begin, end)
	}
	var c Config
	fs := pflag.NewFlagSet("storage", pflag.ContinueOnError)
	c.AddFlags(fs)
	var want strings.Builder
	must.OK(t, settings.WriteTable(&want, fs))
	if table == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: run go test ./pkg/blob/backend -run Docs -update", name)
	}
	must.OK(t, os.WriteFile(name, []byte(before+begin+want.String()+end+after), 0o644))
}
