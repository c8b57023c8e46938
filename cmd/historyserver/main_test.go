package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestHelp: every flag has a heading, and --help names its variable and default.
func TestHelp(t *testing.T) {
	root := command()
	for _, cmd := range append(root.Commands(), root) {
		var out strings.Builder
		cmd.SetOut(&out)
		must.OK(t, cmd.Help())
		help := out.String()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" || f.Name == "version" {
				return
			}
			env := "RAYHISTORY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			if !strings.Contains(help, "--"+f.Name) || !strings.Contains(help, env) {
				t.Errorf("%s: --%s or %s is not in the help", cmd.Name(), f.Name, env)
			}
		})
		for _, want := range []string{"\nStorage:\n", "\nAmazon S3", "S3_BUCKET", "\nLog:\n", "(default info)"} {
			if !slices.Contains([]string{"webhook", "mcp", "login", "logout"}, cmd.Name()) && !strings.Contains(help, want) {
				t.Errorf("%s: no %q in the help:\n%s", cmd.Name(), want, help)
			}
		}
		if cmd == root && !strings.Contains(help, "\n  rm ") {
			t.Errorf("the commands are not in the help:\n%s", help)
		}
	}
}
