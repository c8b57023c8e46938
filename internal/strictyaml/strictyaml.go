// Package strictyaml reads the YAML files that operators write. It refuses names that it does not know, because nobody
// would notice a mistake that is silently ignored.
package strictyaml

import (
	"bytes"
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
	for {
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

// forPeople writes errors of the decoder without the names of Go's types.
func forPeople(err error) error {
	var mistakes *yaml.TypeError
	if !errors.As(err, &mistakes) {
		return err
	}
	text := strings.Join(mistakes.Errors, "; ")
	return errors.New(regexp.MustCompile(`field (\S+) not found in type [^;]*`).ReplaceAllString(text, `unknown name "$1"`))
}
