// Package strictyaml reads the YAML files that operators write. It refuses names that it does not know, because nobody
// would notice a mistake that is silently ignored.
package strictyaml

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Decode reads one YAML document; an empty one changes nothing. Unknown fields and a second document are errors. what
// names what the document holds, such as "rules", for the error that says that all of it belongs into the first one.
func Decode(text []byte, into any, what string) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return forPeople(err)
	}
	for { // documents with nothing in them, such as one behind a last "---", are ignored
		var more any
		err := d.Decode(&more)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || more != nil {
			return fmt.Errorf("another document follows after ---: want one document with all %s", what)
		}
	}
}

// Errors of the decoder, in which it names Go's types.
var (
	unknownField = regexp.MustCompile(`field (\S+) not found in type .*`)
	otherType    = regexp.MustCompile("(.*)cannot unmarshal !!(\\S+)(?: (`[^`]*`))? into (.+)")
)

// forPeople writes errors of the decoder without the names of Go's types: "line 3: cannot unmarshal !!str `often` into
// int" becomes "line 3: want a number, not `often`".
func forPeople(err error) error {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return err
	}
	var all []string
	for _, said := range mistakes.Errors {
		if m := otherType.FindStringSubmatch(said); m != nil {
			line, yamlType, value, goType := m[1], m[2], m[3], m[4]
			said = line + "want " + wordFor(goType) + ", not " + cmp.Or(value, wordFor(yamlType))
		}
		all = append(all, unknownField.ReplaceAllString(said, `unknown name "$1"`))
	}
	return errors.New(strings.Join(all, "; "))
}

// wordFor returns the word that people know for a type of Go (int, []string) or for a tag of YAML (int, seq).
func wordFor(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"), name == "seq":
		return "a list"
	case strings.HasPrefix(name, "map"), strings.HasPrefix(name, "struct"):
		return "names with values"
	case strings.Contains(name, "."): // a type of the program
		return "another kind of value"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"), strings.HasPrefix(name, "float"):
		return "a number"
	case strings.HasPrefix(name, "bool"):
		return "true or false"
	}
	return "a text"
}
