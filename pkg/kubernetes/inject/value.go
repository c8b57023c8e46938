package inject

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// unread stands in a text for a part that is known only when the pod runs.
const unread = "\uE000" // of no script: it is in Unicode's private area

// value is a text of a manifest. Variables that Kubernetes takes from a field of the pod stay as $(NAME): the collector
// has them too.
type value struct {
	text string
	// why names what the parts in text that are unread depend on, such as "variable SCRATCH (valueFrom)"; empty if all
	// is known.
	why string
}

func knownValue(text string) value { return value{text: text} }

func unknownValue(why string) value { return value{text: unread, why: why} }

func (v value) isKnown() bool { return v.why == "" }

// A manifest may make long texts of short ones, by variables that name others several times: maxText bounds one text,
// maxVariables all that a container's variables take, in bytes.
const (
	maxText      = maxScript
	maxVariables = 1 << 20
)

// joinValues returns the texts of values one after the other. If one is not known, the whole is not.
func joinValues(values ...value) value {
	var out strings.Builder
	why := ""
	for _, v := range values {
		if out.Len()+len(v.text) > maxText {
			return unknownValue("a text that is too long")
		}
		out.WriteString(v.text)
		why = cmp.Or(why, v.why)
	}
	return value{out.String(), why}
}

// reference is $(NAME), which Kubernetes replaces in commands, arguments and variables.
var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// environment is what a container's variables are before it runs.
type environment struct {
	vars map[string]value
	// from names the ConfigMaps and Secrets of envFrom, whose keys are not known here.
	from []string
}

// environmentOf reads the variables of a container, and the names of the ConfigMaps and Secrets that may have more.
func environmentOf(container map[string]any) (environment, error) {
	e := environment{vars: map[string]value{}}
	from, err := list(container, "envFrom")
	if err != nil {
		return e, err
	}
	for _, f := range from {
		source, _ := f.(map[string]any)
		for key, kind := range map[string]string{"configMapRef": "ConfigMap", "secretRef": "Secret"} {
			if ref, _ := mapping(source, key); ref != nil {
				e.from = append(e.from, kind+" "+text(ref, "name"))
			}
		}
	}
	env, err := list(container, "env")
	if err != nil {
		return e, err
	}
	taken := 0
	for _, v := range env {
		m, ok := v.(map[string]any)
		if !ok {
			continue
		}
		name := text(m, "name")
		if taken > maxVariables {
			e.vars[name] = unknownValue("variable " + name + " (too long)")
			continue
		}
		e.vars[name] = e.valueOf(m)
		taken += len(e.vars[name].text)
	}
	return e, nil
}

// valueOf is the value of an entry of env. It may refer to earlier ones.
func (e environment) valueOf(entry map[string]any) value {
	name := text(entry, "name")
	source, _ := mapping(entry, "valueFrom")
	if source == nil {
		return e.expand(scalarText(entry["value"]))
	}
	if field, _ := mapping(source, "fieldRef"); field != nil {
		return knownValue("$(" + name + ")")
	}
	return unknownValue("variable " + name + " (valueFrom)")
}

// expand replaces references to variables, $(NAME), as Kubernetes does: $$ is an escape, and a reference to no variable
// stays.
func (e environment) expand(s string) value {
	var out strings.Builder
	why := ""
	for s != "" && out.Len() <= maxText {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			out.WriteString(s)
			break
		}
		out.WriteString(s[:i])
		s = s[i:]
		name := referredAt(s)
		switch {
		case s[1] == '$':
			out.WriteByte('$')
			s = s[2:]
		case name == "":
			out.WriteByte('$')
			s = s[1:]
		default:
			v := e.valueOfReference(name)
			out.WriteString(v.text)
			why = cmp.Or(why, v.why)
			s = s[len("$()")+len(name):]
		}
	}
	if out.Len() > maxText {
		return unknownValue("a text that is too long")
	}
	return value{out.String(), why}
}

// referredAt is the name in the reference that a text begins with, empty if it begins with none.
func referredAt(s string) string {
	name, _, closed := strings.Cut(strings.TrimPrefix(s[:min(len(s), maxName)], "$("), ")")
	if !closed || !strings.HasPrefix(s, "$(") || !isName(name) {
		return ""
	}
	return name
}

// maxName bounds the name of a variable.
const maxName = 256

// valueOfReference returns what Kubernetes puts in the place of $(name): as written if the container has no such
// variable. One from a ConfigMap or Secret is not known.
func (e environment) valueOfReference(name string) value {
	if v, ok := e.vars[name]; ok {
		return v
	}
	if len(e.from) > 0 {
		return unknownValue("variable " + name)
	}
	return knownValue("$(" + name + ")")
}

// scalarText is a YAML scalar as text: people write ports without quotes.
func scalarText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}
