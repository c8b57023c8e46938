package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/rayhistory/historyserver/internal/human"
)

// annotationGroup is the heading that a flag stands under in --help, annotationTopic the page that lists it.
const (
	annotationGroup = "rayhistory/group"
	annotationTopic = "rayhistory/topic"
)

// otherFlags is the heading of those that were given none.
const otherFlags = "Flags"

// Group gives the flags that add adds a heading in --help, except those to which add itself gives one.
func Group(fs *pflag.FlagSet, heading string, add func(*pflag.FlagSet)) {
	annotateAdded(fs, annotationGroup, heading, add)
}

// Heading gives flags a heading in --help.
func Heading(fs *pflag.FlagSet, heading string, flags ...string) {
	for _, flag := range flags {
		annotate(fs, flag, annotationGroup, []string{heading})
	}
}

// Topic gives the flags that add adds a page of their own, which TopicCommand makes: --help of commands only names it.
func Topic(fs *pflag.FlagSet, name string, add func(*pflag.FlagSet)) {
	annotateAdded(fs, annotationTopic, name, add)
}

// annotateAdded gives the flags that add adds an annotation, except those to which add itself gives one.
func annotateAdded(fs *pflag.FlagSet, annotation, value string, add func(*pflag.FlagSet)) {
	before := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && f.Annotations[annotation] == nil {
			annotate(fs, f.Name, annotation, []string{value})
		}
	})
}

// TopicCommand makes the command whose help, `help NAME`, lists the flags of a topic. It does nothing else.
func TopicCommand(name, short string, fs *pflag.FlagSet) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	cmd.SetHelpFunc(func(c *cobra.Command, _ []string) {
		fmt.Fprintln(c.OutOrStdout(), short)
		writeFlags(c.OutOrStdout(), fs, name)
		fmt.Fprint(c.OutOrStdout(), loadedToo)
	})
	return cmd
}

// Help makes --help of these commands, and of the commands below them, list the commands below and the flags by
// heading. The flags of the given commands are settings, which Load completes, and their help says so.
func Help(commands ...*cobra.Command) {
	for _, cmd := range commands {
		usual := cmd.UsageFunc()
		cmd.SetUsageFunc(func(c *cobra.Command) error {
			areSettings := slices.Contains(commands, c)
			if !areSettings && c.HasAvailableSubCommands() {
				return usual(c) // cobra's own, such as completion
			}
			return writeUsage(c.OutOrStderr(), c, areSettings)
		})
	}
}

// UnknownCommand is the error about an argument that should be the name of a command below cmd.
func UnknownCommand(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return UsageError(fmt.Errorf("there is no command %q%s; `%s --help` lists them", name, human.Suggest(name, names),
		cmd.CommandPath()))
}

// writeUsage writes how a command is used: its examples, the commands below it and, unless these are in groups, its
// flags. Flags of a topic are not listed: only the command is named that lists them. areSettings says that the flags
// can also be set by variables and the file.
func writeUsage(w io.Writer, cmd *cobra.Command, areSettings bool) error {
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, g := range cmd.Groups() {
		writeCommands(w, cmd, g)
	}
	if len(cmd.Groups()) > 0 {
		fmt.Fprintf(w, "\n`%s COMMAND --help` shows the flags of a command.\n", cmd.CommandPath())
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		writeCommands(w, cmd, &cobra.Group{Title: "Commands"})
	}
	topics := writeFlags(w, cmd.Flags(), "")
	for _, name := range topics {
		fmt.Fprintf(w, "\n`%s help %s` lists more flags.", cmd.Root().Name(), name)
	}
	if areSettings {
		fmt.Fprint(w, loadedToo)
	}
	return nil
}

// writeCommands lists the commands of a group below cmd.
func writeCommands(w io.Writer, cmd *cobra.Command, g *cobra.Group) {
	fmt.Fprintf(w, "\n%s:\n", g.Title)
	for _, c := range cmd.Commands() {
		if c.GroupID == g.ID && c.IsAvailableCommand() {
			fmt.Fprintf(w, "  %-14s %s\n", c.Name(), c.Short)
		}
	}
}

// loadedToo is said of flags that are settings.
const loadedToo = "\nEach flag is also an environment variable: --log-level is RAYHISTORY_LOG_LEVEL.\n"

// unknownWidth is how many columns help has where it is not written to a terminal.
const unknownWidth = 120

// writeFlags lists the flags of a topic ("": of no topic) by heading, and returns the other topics that flags have.
func writeFlags(w io.Writer, fs *pflag.FlagSet, topic string) (topics []string) {
	width := unknownWidth
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		width = columns
	}
	settings := allSettings(fs)
	for _, heading := range headings(fs) {
		list := pflag.NewFlagSet("", pflag.ContinueOnError)
		for _, s := range settings {
			flagTopic := topicOf(s.flag)
			if flagTopic == topic && headingOf(s.flag) == heading && !s.flag.Hidden && !isOfCobra(s.flag) {
				list.AddFlag(s.describedFlag())
			}
			if flagTopic != topic && !slices.Contains(topics, flagTopic) {
				topics = append(topics, flagTopic)
			}
		}
		if list.HasFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", heading, list.FlagUsagesWrapped(width))
		}
	}
	return topics
}

// isOfCobra says whether cobra adds the flag to each command.
func isOfCobra(f *pflag.Flag) bool { return f.Name == "help" || f.Name == "version" }

// describedFlag returns a copy of the setting's flag for the help. Its description names the setting's other flags, and
// its variables that do not follow from the flag's name; a default duration is written as Duration writes it.
func (s *setting) describedFlag() *pflag.Flag {
	f := *s.flag
	var others []string
	for _, spelling := range s.flagNames()[1:] {
		others = append(others, "--"+spelling)
	}
	for _, name := range s.envNames() {
		if !strings.HasPrefix(name, envPrefix) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		f.Usage += " [also " + strings.Join(others, ", ") + "]"
	}
	if d, err := time.ParseDuration(f.DefValue); err == nil && f.Value.Type() == "duration" {
		f.DefValue = (*Duration)(&d).String()
	}
	return &f
}

// headings returns the headings under which the help lists a set's flags, in the order in which the flags were added.
// The heading of flags without one comes first.
func headings(fs *pflag.FlagSet) []string {
	var list []string
	byName := fs.SortFlags
	fs.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		heading := headingOf(f)
		switch {
		case f.Hidden || IsAlias(f) || isOfCobra(f) || slices.Contains(list, heading):
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

func topicOf(f *pflag.Flag) string {
	if topic := f.Annotations[annotationTopic]; len(topic) > 0 {
		return topic[0]
	}
	return ""
}

// WriteTable writes a Markdown table of all settings of a flag set, by flag name. The tables in docs/ are generated by
// it.
func WriteTable(w io.Writer, fs *pflag.FlagSet) error {
	var b strings.Builder
	b.WriteString("| flag | environment | in the file | default | what |\n|---|---|---|---|---|\n")
	for _, s := range allSettings(fs) {
		if s.flag.Hidden {
			continue
		}
		var flags []string
		for _, spelling := range s.flagNames() {
			flags = append(flags, "--"+spelling)
		}
		value := s.flag.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		_, usage := pflag.UnquoteUsage(s.flag)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", asCode(flags), asCode(s.envNames()), asCode(s.fileNames()),
			value, strings.ReplaceAll(usage, "|", "\\|"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func asCode(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// CodeUsage is the exit code after wrong usage, as that of grep is. The others are 0, and 1 after other errors.
const CodeUsage = 2

// usageError is an error in a flag, an argument or a setting.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// UsageError returns an error in a flag, an argument or a setting, which ends the process with CodeUsage.
func UsageError(err error) error { return usageError{err} }

// ExitCode is the code that a process ends with after an error.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(usageError)):
		return CodeUsage
	}
	return 1
}

// Arguments has a command, and those below it, return a UsageError for wrong flags and arguments. The error of the
// program's own command names an unknown command, so it stays as it is.
func Arguments(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 {
			return UnknownCommand(cmd, before[0]) // the flag is one of the command that was meant
		}
		return FlagError(err, cmd.Flags(), cmd.CommandPath())
	})
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			switch {
			case err == nil:
				return nil
			case cmd.HasParent() && len(args) == 0:
				return UsageError(fmt.Errorf("an argument is missing; usage: %s", cmd.UseLine()))
			case cmd.HasParent():
				return UsageError(fmt.Errorf("wrong number of arguments, %d; usage: %s", len(args), cmd.UseLine()))
			}
			return UsageError(err)
		}
	}
	for _, c := range cmd.Commands() {
		Arguments(c)
	}
}
