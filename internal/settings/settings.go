// Package settings reads the flags of a binary also from the environment and a JSON file. A flag on the command line
// comes first, then the environment, then the file, then the default.
//
// Every flag has the variable RAYHISTORY_{FLAG_NAME} and has the same name in the file as on the command line. The
// functions here give it further names, which are stored as annotations of the flag. Nothing is guessed: a name that
// belongs to no flag, a value that does not parse, and two names of one setting with different values are errors that
// name the setting.
package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// envPrefix starts the variable that every flag has.
const envPrefix = "RAYHISTORY_"

// The annotations of a flag.
const (
	annotationEnv    = "rayhistory/env"
	annotationFile   = "rayhistory/file"
	annotationSecret = "rayhistory/secret"
	annotationAlias  = "rayhistory/alias-of"
	annotationPath   = "rayhistory/config-path"
)

// Bind gives flags further names, which are listed by flag: environment variables, in capitals, besides
// RAYHISTORY_{FLAG_NAME}, and names in the JSON file, which begin with a small letter. It panics where there is no such
// flag, as the other functions here do: that is a mistake in the program, not in a setting.
func Bind(fs *pflag.FlagSet, names map[string][]string) {
	for flag, all := range names {
		for _, name := range all {
			annotation := annotationEnv
			if name[0] >= 'a' {
				annotation = annotationFile
			}
			annotate(fs, flag, annotation, []string{name})
		}
	}
}

// Secret keeps the values of flags out of every message and table.
func Secret(fs *pflag.FlagSet, flags ...string) {
	for _, flag := range flags {
		annotate(fs, flag, annotationSecret, []string{"true"})
	}
}

// FilePath says which flag holds the path of the JSON file.
func FilePath(fs *pflag.FlagSet, flag string) {
	annotate(fs, flag, annotationPath, []string{"true"})
}

// Alias adds other spellings of a flag. Each spelling also has a variable of its own, and a name in the file.
func Alias(fs *pflag.FlagSet, flag string, spellings ...string) {
	f := lookup(fs, flag)
	value, ok := f.Value.(*spelled)
	if !ok {
		value = &spelled{Value: f.Value}
		f.Value = value
	}
	for _, spelling := range spellings {
		alias := fs.VarPF(&spelled{Value: value.Value}, spelling, "", "the same as --"+flag)
		alias.NoOptDefVal = f.NoOptDefVal
		annotate(fs, spelling, annotationAlias, []string{flag})
	}
}

// IsAlias says whether a flag is another spelling of one.
func IsAlias(f *pflag.Flag) bool { return f.Annotations[annotationAlias] != nil }

// spelled is one spelling of a flag; all of its spellings set the same value. It remembers what was set by it.
type spelled struct {
	pflag.Value
	set string // as the value prints it
}

func (s *spelled) Set(value string) error {
	if err := s.Value.Set(value); err != nil {
		return err
	}
	s.set = s.String()
	return nil
}

func annotate(fs *pflag.FlagSet, flag, annotation string, values []string) {
	f := lookup(fs, flag)
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[annotation] = append(f.Annotations[annotation], values...)
}

func lookup(fs *pflag.FlagSet, flag string) *pflag.Flag {
	f := fs.Lookup(flag)
	if f == nil {
		panic(fmt.Sprintf("settings: there is no flag --%s", flag))
	}
	return f
}

// setting is a flag with all of its names.
type setting struct {
	flag    *pflag.Flag
	aliases []*pflag.Flag
}

// allSettings returns the settings of a flag set, each with its aliases, sorted by the names of the flags.
func allSettings(fs *pflag.FlagSet) []*setting {
	var settings []*setting
	byName := map[string]*setting{}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !IsAlias(f) {
			s := &setting{flag: f}
			settings, byName[f.Name] = append(settings, s), s
		}
	})
	fs.VisitAll(func(f *pflag.Flag) {
		for _, name := range f.Annotations[annotationAlias] {
			if s := byName[name]; s != nil {
				s.aliases = append(s.aliases, f)
			}
		}
	})
	return settings
}

func (s *setting) isSecret() bool { return s.flag.Annotations[annotationSecret] != nil }

// flagNames are the setting's names on the command line, its own first.
func (s *setting) flagNames() []string {
	names := []string{s.flag.Name}
	for _, alias := range s.aliases {
		names = append(names, alias.Name)
	}
	return names
}

// envNames are the setting's names in the environment, its own first.
func (s *setting) envNames() []string {
	var names []string
	for _, spelling := range s.flagNames() {
		names = append(names, envName(spelling))
	}
	return append(names[:1:1], append(slices.Clone(s.flag.Annotations[annotationEnv]), names[1:]...)...)
}

// fileNames are the setting's names in the JSON file, its own first.
func (s *setting) fileNames() []string {
	names := s.flagNames()
	return append(names[:1:1], append(slices.Clone(s.flag.Annotations[annotationFile]), names[1:]...)...)
}

func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Shown lists the settings that differ from their defaults, one a line, for people who help with problems. Secrets, and
// passwords in addresses, are not shown.
func Shown(fs *pflag.FlagSet) string {
	var b strings.Builder
	for _, s := range allSettings(fs) {
		value := s.flag.Value.String()
		if value == s.flag.DefValue {
			continue
		}
		if address, err := url.Parse(value); s.isSecret() && value != "" {
			value = "(a secret)"
		} else if err == nil && address.User != nil {
			value = address.Redacted()
		}
		fmt.Fprintf(&b, "--%s=%s\n", s.flag.Name, value)
	}
	return b.String()
}
