package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/testkit/flagdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
)

// TestDocs: docs/commands.md has a row for each command, with its usage, and the table of their flags that the code
// gives. UPDATE_DOCS=1 writes the table.
func TestDocs(t *testing.T) {
	const name, begin, end = "../../docs/commands.md", "<!-- flags -->\n", "<!-- /flags -->"
	data := must.Get(os.ReadFile(name))(t)
	for _, c := range command().Commands() {
		if c.Runnable() && c.Name() != "help" && !strings.Contains(string(data), "| `historyserver "+c.Name()) {
			t.Errorf("%s has no row for `historyserver %s`", name, c.Name())
		}
	}
	before, rest, found := strings.Cut(string(data), begin)
	table, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table between %q and %q", name, begin, end)
	}
	want := flagsTable()
	switch {
	case table == want:
	case os.Getenv("UPDATE_DOCS") == "":
		t.Errorf("%s is not up to date: run UPDATE_DOCS=1 go test ./cmd/historyserver -run Docs", name)
	default:
		must.OK(t, os.WriteFile(name, []byte(before+begin+want+end+after), 0o644))
	}
}

// flagsTable has a row for each flag of the operators' commands but those of the storage, which have a page of their
// own.
func flagsTable() string {
	type row struct {
		flag     *pflag.Flag
		commands []string
	}
	storage := pflag.NewFlagSet("storage", pflag.ContinueOnError)
	new(backend.Config).AddFlags(storage)
	var rows []*row
	operators := commands.All(command().Flags())
	for _, c := range operators {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if storage.Lookup(f.Name) != nil {
				return
			}
			same := func(r *row) bool { return r.flag.Name == f.Name && r.flag.Usage == f.Usage }
			i := slices.IndexFunc(rows, same)
			if i < 0 {
				i = len(rows)
				rows = append(rows, &row{flag: f})
			}
			rows[i].commands = append(rows[i].commands, "`"+c.Name()+"`")
		})
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.flag.Name, b.flag.Name), slices.Compare(a.commands, b.commands))
	})
	var b strings.Builder
	b.WriteString("| flag | of | default | |\n|---|---|---|---|\n")
	for _, r := range rows {
		flag, of, value := "`--"+r.flag.Name+"`", strings.Join(r.commands, " "), ""
		if r.flag.Shorthand != "" {
			flag += ", `-" + r.flag.Shorthand + "`"
		}
		if len(r.commands) == len(operators) {
			of = "all"
		}
		if r.flag.DefValue != "" && r.flag.DefValue != "[]" {
			value = "`" + strings.ReplaceAll(r.flag.DefValue, os.TempDir(), "/tmp") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", flag, of, value, strings.ReplaceAll(r.flag.Usage, "|", `\|`))
	}
	return b.String()
}

// TestPagesStateDefaults: where pages state the default of a flag, it is that.
func TestPagesStateDefaults(t *testing.T) {
	flagdocs.Defaults(t, command().Flags(), "../..", 4, "shutdown-timeout")
}
