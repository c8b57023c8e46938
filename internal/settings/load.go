package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
)

// Load completes a parsed flag set from environ (as os.Environ gives it) and then from the JSON file, if FilePath's
// flag names one. A file that is named by nothing but the flag's default need not be there. After a mistake the rest is
// set all the same, and the error names all mistakes. Names of known, the flag sets of the binary's other commands, are
// not unknown. An empty variable counts as not set.
func Load(fs *pflag.FlagSet, environ []string, known ...*pflag.FlagSet) error {
	unknown, mistakes := LoadKnown(fs, environ, known...)
	return errors.Join(unknown, mistakes)
}

// LoadKnown is Load for programs that may get settings of a later version. The two errors divide what is wrong: unknown
// names the variables, and the names in the file, that are no settings; mistakes has the rest. known has further flag
// sets, whose settings are not unknown.
func LoadKnown(fs *pflag.FlagSet, environ []string, known ...*pflag.FlagSet) (unknown, mistakes error) {
	settings := allSettings(fs)
	given := map[*setting]bool{} // by a flag, a variable or the file, in this order: the first one counts
	for _, s := range settings {
		changed, err := s.givenAsFlag()
		mistakes = errors.Join(mistakes, err)
		given[s] = changed
	}
	env := map[string]string{}
	for _, variable := range environ {
		if name, value, _ := strings.Cut(variable, "="); value != "" && !serviceURL.MatchString(variable) {
			env[name] = value // it is set, and not by Kubernetes
		}
	}
	unknown = checkNames(env, append(known, fs))
	mistakes = errors.Join(mistakes, setFrom(fs, settings, given,
		source{"environment variable", env, (*setting).envNames}))
	unknownInFile, inFile := fillFromFile(fs, settings, given, append(known, fs))
	unknown, mistakes = errors.Join(unknown, unknownInFile), errors.Join(mistakes, inFile)
	for _, s := range settings {
		trim(s.flag.Value)
	}
	return unknown, mistakes
}

// fillFromFile sets what was not given otherwise from the file that the flag of FilePath names. A file that is missing
// is a mistake only if it was named. unknown says which names in the file are settings of no set in known, which has
// fs and those of the binary's other commands; mistakes is all else. What can be read is set in spite of both.
func fillFromFile(fs *pflag.FlagSet, settings []*setting, given map[*setting]bool,
	known []*pflag.FlagSet) (unknown, mistakes error) {
	path, named := "", false
	for _, s := range settings {
		if s.flag.Annotations[annotationPath] != nil {
			path, named = s.flag.Value.String(), given[s]
		}
	}
	if path == "" {
		return nil, nil
	}
	file, unknown, err := readFile(path, known)
	if errors.Is(err, os.ErrNotExist) && !named {
		return nil, nil // the flag's default: where the file may be
	}
	if unknown != nil {
		unknown = fmt.Errorf("read settings from %s: %w", path, unknown)
	}
	if err = errors.Join(err, setFrom(fs, settings, given, source{"setting", file, (*setting).fileNames})); err != nil {
		mistakes = fmt.Errorf("read settings from %s: %w", path, err)
	}
	return unknown, mistakes
}

// trim removes the white space around a string: a Secret made by echo ends with a line break. Of a list it removes the
// blanks that people write behind the commas, and items of nothing but blanks.
func trim(value pflag.Value) {
	if spelling, ok := value.(*spelled); ok { // one of several spellings of a flag: it wraps the value
		value = spelling.Value
	}
	// The values were accepted with white space, so they are accepted without it, and no error is possible.
	if text := value.String(); value.Type() == "string" && text != strings.TrimSpace(text) {
		_ = value.Set(strings.TrimSpace(text))
	}
	if list, ok := value.(pflag.SliceValue); ok && value.Type() == "stringSlice" {
		var items []string
		for _, item := range list.GetSlice() {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		_ = list.Replace(items)
	}
}

// trimValue takes the line break away that files and secrets end with. Of a list, one item a line is taken too: pflag
// would read the first line alone.
func trimValue(kind, value string) string {
	value = strings.TrimRight(value, "\r\n")
	if kind == "stringSlice" || kind == "stringToString" {
		value = strings.ReplaceAll(strings.ReplaceAll(value, "\r", ""), "\n", ",")
	}
	return value
}

// givenAsFlag says whether the setting was given as a flag. If it was given in two spellings, both must have the same
// value. A flag that has several spellings has a value of the type spelled, which Alias sets.
func (s *setting) givenAsFlag() (given bool, err error) {
	var first *pflag.Flag
	for _, f := range append([]*pflag.Flag{s.flag}, s.aliases...) {
		if !f.Changed {
			continue
		}
		if first == nil {
			first = f
			continue
		}
		a, b := first.Value.(*spelled).set, f.Value.(*spelled).set
		if a != b {
			return true, fmt.Errorf("--%s%s contradicts --%s%s: they are the same setting", first.Name, s.quote(a),
				f.Name, s.quote(b))
		}
	}
	return first != nil, nil
}

// quote shows a value in an error unless it is a secret.
func (s *setting) quote(value string) string {
	if s.isSecret() {
		return ""
	}
	return fmt.Sprintf("=%q", value)
}

// source is one place that settings come from.
type source struct {
	what   string // "environment variable"
	values map[string]string
	names  func(*setting) []string
}

// setFrom sets the settings that no earlier source has given from the values of a source, and notes them in given.
// mistakes has all that is wrong, without secrets: values that cannot be parsed, and two names of a setting with
// different values, whoever has given it.
func setFrom(fs *pflag.FlagSet, settings []*setting, given map[*setting]bool, from source) (mistakes error) {
	for _, s := range settings {
		first := ""
		for _, name := range from.names(s) {
			value, ok := from.values[name]
			if !ok {
				continue
			}
			if first != "" {
				if before := from.values[first]; before != value {
					mistakes = errors.Join(mistakes, fmt.Errorf("%s %s%s contradicts %s%s: they are the same setting",
						from.what, first, s.quote(before), name, s.quote(value)))
				}
				continue
			}
			first = name
		}
		if first == "" || given[s] {
			continue
		}
		if err := fs.Set(s.flag.Name, trimValue(s.flag.Value.Type(), from.values[first])); err != nil {
			if s.isSecret() {
				err = errors.New("not a valid value")
			}
			mistakes = errors.Join(mistakes, fmt.Errorf("%s %s: %w", from.what, first, err))
			continue
		}
		given[s] = true
	}
	return mistakes
}

// serviceLink matches what Kubernetes adds to the environment of every pod for each service of its namespace: for a
// service called "rayhistory-server" RAYHISTORY_SERVER_SERVICE_HOST and so on.
var serviceLink = regexp.MustCompile(`(_SERVICE_(HOST|PORT(_.+)?)|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceURL matches such a variable that has the name of a setting: a service called "events" gives EVENTS_PORT.
var serviceURL = regexp.MustCompile(`^\w+_PORT=(tcp|udp|sctp)://`)

// checkNames returns an error that names the environment variables whose names begin like a setting's and are none's,
// without those that Kubernetes sets for a service.
func checkNames(env map[string]string, flagSets []*pflag.FlagSet) error {
	known := namesOf(flagSets, (*setting).envNames)
	var unknown []string
	for name := range env {
		if strings.HasPrefix(name, envPrefix) && !known[name] && !serviceLink.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("unknown environment variable %s: see --help for the settings; a setting's variable is %s and "+
		"its flag's name in upper case%s", strings.Join(unknown, ", "), envPrefix,
		human.Suggest(unknown[0], slices.Sorted(maps.Keys(known))))
}

// FlagError adds to an error of parsing a command line how to list the command's flags and, for an unknown flag, the
// flag in the help that is spelled most like it.
func FlagError(err error, fs *pflag.FlagSet, command string) error {
	like := ""
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		fs.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden { // a hidden one, which has no effect with this command, is no help
				names = append(names, "--"+f.Name)
			}
		})
		like = human.Suggest("--"+unknown.GetSpecifiedName(), names)
	}
	return UsageError(fmt.Errorf("%w%s; `%s --help` lists the flags", err, like, command))
}

// namesOf are the names of all settings of some flag sets, in the environment or in the file.
func namesOf(flagSets []*pflag.FlagSet, names func(*setting) []string) map[string]bool {
	known := map[string]bool{}
	for _, fs := range flagSets {
		for _, s := range allSettings(fs) {
			for _, name := range names(s) {
				known[name] = true
			}
		}
	}
	return known
}

// readFile reads a file of settings: one JSON object of strings, numbers and booleans, such as `{"s3Bucket": "history",
// "s3ForcePathStyle": "true"}`. Empty strings and null count as not set. unknown names what is no setting; mistakes has
// the rest of what is wrong.
func readFile(path string, flagSets []*pflag.FlagSet) (values map[string]string, unknown, mistakes error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, nil, fmt.Errorf("want one JSON object: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("want one JSON object: more data follows at byte %d", decoder.InputOffset())
	}
	known := namesOf(flagSets, (*setting).fileNames)
	values = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		if !known[name] {
			unknown = errors.Join(unknown,
				fmt.Errorf("unknown setting %q: want a flag's name, such as \"s3-bucket\", or KubeRay's name, such "+
					"as \"s3Bucket\"%s", name, human.Suggest(name, slices.Sorted(maps.Keys(known)))))
			continue
		}
		switch value := value.(type) {
		case string:
			if value != "" {
				values[name] = value
			}
		case json.Number, bool:
			values[name] = fmt.Sprint(value)
		case nil:
		default:
			mistakes = errors.Join(mistakes, fmt.Errorf("setting %q: want a string, a number or a boolean", name))
		}
	}
	return values, unknown, mistakes
}
