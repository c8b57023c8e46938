package main

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/flagdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/dashboard/bars"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// TestDocs: docs/commands.md has a row for each command, with its usage, and the table of their flags that the code
// gives. docs/dev/features.md has the names of what there is. UPDATE_DOCS=1 writes both.
func TestDocs(t *testing.T) {
	const name = "../../docs/commands.md"
	page := string(must.Get(os.ReadFile(name))(t))
	for _, c := range command().Commands() {
		says.True(t, !c.Runnable() || c.Name() == "help" || strings.Contains(page, "| `historyserver "+c.Name()),
			"%s has no row for `historyserver %s`", name, c.Name())
	}
	docblock.Keep(t, name, "flags", flagsTable())

	const features = "../../docs/dev/features.md"
	help, _, err := run(t, "serve", "--help")
	must.OK(t, err)
	docblock.Keep(t, features, "server", docblock.Flags(help))
	docblock.Keep(t, features, "commands", commandsList())
	var tools strings.Builder
	arguments := argumentsOfTools(t)
	for _, tool := range slices.Sorted(maps.Keys(arguments)) {
		fmt.Fprintf(&tools, "- `%s`: %s\n", tool, docblock.Names(arguments[tool]))
	}
	docblock.Keep(t, features, "tools", tools.String())
	docblock.Keep(t, features, "kinds", "- kinds of findings: "+docblock.Names(findings.Kinds())+
		"\n- outcomes: "+docblock.Names(catalog.Outcomes)+", of sessions that are "+
		docblock.Names([]string{catalog.Running, catalog.Ended})+
		"\n- events: "+docblock.Names(webhooks.EventTypes)+", as "+docblock.Names(webhooks.Formats())+
		"\n- colours of the timeline: "+docblock.Names(bars.Colours)+"\n")
	var files strings.Builder
	for _, file := range []struct {
		flag string
		read reflect.Type
	}{
		{"prices", reflect.TypeFor[fleet.Prices]()}, {"retention-rules", reflect.TypeFor[retention.Rule]()},
		{"webhooks", reflect.TypeFor[webhooks.Config]()},
	} {
		fmt.Fprintf(&files, "- `--%s`: %s\n", file.flag, docblock.Names(slices.Compact(slices.Sorted(keysOf(file.read)))))
	}
	docblock.Keep(t, features, "files", files.String())
}

// keysOf are the keys of YAML that a type is read from, and those of the types in it.
func keysOf(of reflect.Type) iter.Seq[string] {
	return func(yield func(string) bool) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice:
			keysOf(of.Elem())(yield)
		case reflect.Struct:
			for field := range of.Fields() {
				tag, isKey := field.Tag.Lookup("yaml")
				if name, _, _ := strings.Cut(tag, ","); isKey && name != "" && !yield(name) {
					return
				}
				keysOf(field.Type)(yield)
			}
		}
	}
}

// commandsList has a line for each of the operators' commands, with the flags that few others have.
func commandsList() string {
	const many = 8
	flags, used := flagsOfCommands(), map[string]int{}
	for _, names := range flags {
		for _, name := range names {
			used[name]++
		}
	}
	var b strings.Builder
	for _, c := range commands.All(command().Flags()) {
		own := slices.DeleteFunc(flags[c.Name()], func(name string) bool { return used[name] >= many })
		fmt.Fprintf(&b, "- `%s`: %s", c.Name(), strings.TrimSuffix(c.Short, "."))
		if len(own) > 0 {
			b.WriteString(": " + docblock.Names(own))
		}
		b.WriteByte('\n')
	}
	var others []string
	for _, c := range command().Commands() {
		if c.Runnable() && flags[c.Name()] == nil {
			others = append(others, c.Name())
		}
	}
	return b.String() + "- others: " + docblock.Names(others) + "\n"
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
