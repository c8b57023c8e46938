package inject

import (
	"fmt"
	"regexp"
	"strings"
)

// unread stands in a text for a part that is known only when the pod runs.
const unread = "\uE000" // of no script: it is in Unicode's private area

// value is a text of a manifest. Variables that Kubernetes takes from a field of the pod stay as $(NAME): the collector has them too.
type value struct {
	text string
	// why names what the parts in text that are unread depend on, such as "variable SCRATCH (valueFrom)"; empty if all is known.
	why string
}

func known(text string) value { return value{text: text} }

func unknown(why string) value { return value{text: unread, why: why} }

func (v value) known() bool { return v.why == "" }

// plus is the value followed by another one.
func (v value) plus(w value) value {
	if v.why == "" {
		v.why = w.why
	}
	v.text += w.text
	return v
}

// reference is $(NAME), which Kubernetes replaces in commands, arguments and variables.
var reference = regexp.MustCompile(`\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// environment is what a container's variables are before it runs.
type environment struct {
	vars map[string]value
	// from names the ConfigMaps and Secrets of envFrom, whose keys are not known here.
	from []string
}

// environmentOf reads a container's env and envFrom.
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
	for _, v := range env {
		if m, ok := v.(map[string]any); ok {
			e.vars[text(m, "name")] = e.valueOf(m)
		}
	}
	return e, nil
}

// valueOf is the value of an entry of env. It may refer to earlier ones.
func (e environment) valueOf(entry map[string]any) value {
	name := text(entry, "name")
	source, _ := mapping(entry, "valueFrom")
	if source == nil {
		return e.expand(scalar(entry["value"]))
	}
	if field, _ := mapping(source, "fieldRef"); field != nil {
		return known("$(" + name + ")")
	}
	return unknown("variable " + name + " (valueFrom)")
}

// expand replaces the references of a text as Kubernetes does: $$ is an escape, and what refers to no variable stays.
func (e environment) expand(s string) value {
	out := value{}
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i+1 == len(s) {
			return out.plus(known(s))
		}
		out = out.plus(known(s[:i]))
		s = s[i:]
		at := reference.FindStringSubmatchIndex(s)
		switch {
		case s[1] == '$':
			out, s = out.plus(known("$")), s[2:]
		case at == nil || at[0] != 0:
			out, s = out.plus(known("$")), s[1:]
		default:
			out, s = out.plus(e.referred(s[at[2]:at[3]])), s[at[1]:]
		}
	}
}

func (e environment) referred(name string) value {
	if v, ok := e.vars[name]; ok {
		return v
	}
	if len(e.from) > 0 {
		return unknown("variable " + name)
	}
	return known("$(" + name + ")")
}

// scalar is a YAML scalar as text: people write ports without quotes.
func scalar(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return fmt.Sprint(v)
}
