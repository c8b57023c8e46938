package settings

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// annotationGroup is the heading that a flag stands under in --help.
const annotationGroup = "rayhistory/group"

// otherFlags is the heading of those that were given none.
const otherFlags = "Flags"

// Group gives the flags that add adds a heading in --help, except those to which add itself gives one.
func Group(fs *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	before := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && f.Annotations[annotationGroup] == nil {
			annotate(fs, f.Name, annotationGroup, []string{heading})
		}
	})
}

// Heading gives flags a heading in --help.
func Heading(fs *pflag.FlagSet, heading string, flags ...string) {
	for _, flag := range flags {
		annotate(fs, flag, annotationGroup, []string{heading})
	}
}

// Help makes --help of commands list flags by their headings, each with its default and its environment variables. These are the commands
// whose flags Load completes.
func Help(commands ...*cobra.Command) {
	for _, cmd := range commands {
		usual := cmd.UsageFunc()
		cmd.SetUsageFunc(func(c *cobra.Command) error {
			if !slices.Contains(commands, c) {
				return usual(c) // a command below one of these
			}
			return writeUsage(c.OutOrStderr(), c)
		})
	}
}

func writeUsage(w io.Writer, cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-14s %s\n", c.Name(), c.Short)
			}
		}
		fmt.Fprintf(&b, "\n`%s COMMAND --help` shows the flags of a command.\n", cmd.CommandPath())
	}
	settings := all(cmd.Flags())
	for _, heading := range headings(cmd.Flags()) {
		fmt.Fprintf(&b, "\n%s:\n", heading)
		for _, s := range settings {
			if headingOf(s.flag) == heading && !s.flag.Hidden && s.flag.Name != "version" {
				s.describe(&b)
			}
		}
	}
	b.WriteString("\n  -h, --help\n      show this help\n")
	if cmd.Version != "" {
		b.WriteString("  --version\n      show the version\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// headings are those of a flag set in the order in which the flags were added, the flags without one first.
func headings(fs *pflag.FlagSet) []string {
	var list []string
	byName := fs.SortFlags
	fs.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		heading := headingOf(f)
		switch {
		case f.Hidden || f.Annotations[annotationAlias] != nil || f.Name == "help" || f.Name == "version" || slices.Contains(list, heading):
		case heading == otherFlags:
			list = slices.Insert(list, 0, heading)
		default:
			list = append(list, heading)
		}
	})
	fs.SortFlags = byName
	return list
}

func headingOf(f *pflag.Flag) string {
	if group := f.Annotations[annotationGroup]; len(group) > 0 {
		return group[0]
	}
	return otherFlags
}

// describe writes a setting's names, its default, what it is, and its variables.
func (s *setting) describe(b *strings.Builder) {
	kind, usage := pflag.UnquoteUsage(s.flag)
	b.WriteString("  ")
	if s.flag.Shorthand != "" {
		b.WriteString("-" + s.flag.Shorthand + ", ")
	}
	b.WriteString("--" + strings.Join(s.spellings(), ", --"))
	if kind != "" {
		b.WriteString(" " + kind)
	}
	value := s.flag.DefValue
	if d, err := time.ParseDuration(value); err == nil && kind == "duration" {
		value = (*Duration)(&d).String()
	}
	if value != "" && value != "false" && value != "[]" {
		b.WriteString(" (default " + value + ")")
	}
	fmt.Fprintf(b, "\n      %s\n      Environment: %s\n", usage, strings.Join(s.env(), ", "))
}
