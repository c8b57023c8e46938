// Package helm_test compares the chart's values with their schema and their documentation. What the chart makes of them
// is tested in test/kube.
package helm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// value is one line of values.yaml that can be set.
type value struct {
	path    []string
	node    *yaml.Node
	comment string
}

// values reads values.yaml: everything below which nothing more has a name.
func values(t *testing.T) []value {
	t.Helper()
	data := must.Get(os.ReadFile("values.yaml"))(t)
	var document yaml.Node
	must.OK(t, yaml.Unmarshal(data, &document))
	var found []value
	var walk func(path []string, comment string, node *yaml.Node)
	walk = func(path []string, comment string, node *yaml.Node) {
		// A mapping in braces is one value.
		if node.Kind != yaml.MappingNode || len(node.Content) == 0 || node.Style&yaml.FlowStyle != 0 ||
			path[len(path)-1] == "resources" {
			found = append(found, value{path, node, comment})
			return
		}
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			said := strings.TrimSpace(strings.ReplaceAll(strings.TrimPrefix(key.HeadComment, "#"), "\n#", ""))
			if i == 0 && said == "" {
				said = comment // what is said of the whole stands in the first line
			}
			walk(append(path[:len(path):len(path)], key.Value), said, node.Content[i+1])
		}
	}
	walk([]string{""}, "", document.Content[0])
	return found
}

func TestSchemaKnowsEveryValue(t *testing.T) {
	data := must.Get(os.ReadFile("values.schema.json"))(t)
	type schema struct {
		Properties map[string]json.RawMessage
	}
	for _, v := range values(t) {
		at := json.RawMessage(data)
		for _, name := range v.path[1:] {
			var s schema
			must.OK(t, json.Unmarshal(at, &s))
			if at = s.Properties[name]; at == nil {
				t.Errorf("values.schema.json does not know %s", strings.Join(v.path[1:], "."))
				break
			}
		}
	}
}

// TestSchemaAllowsWhatTheServerDoes: where the schema lists words or the fields of an object, they are those that the
// server accepts.
func TestSchemaAllowsWhatTheServerDoes(t *testing.T) {
	data := must.Get(os.ReadFile("values.schema.json"))(t)
	type schema struct {
		Properties map[string]schema
		Items      *schema
		Enum       []string
	}
	var root schema
	must.OK(t, json.Unmarshal(data, &root))
	at := func(path string) schema {
		t.Helper()
		s := root
		for name := range strings.SplitSeq(path, ".") {
			s = s.Properties[name]
			if s.Items != nil {
				s = *s.Items
			}
		}
		return s
	}
	fields := func(of any) (names []string) {
		for field := range reflect.TypeOf(of).Fields() {
			if name := field.Tag.Get("yaml"); name != "" {
				names = append(names, name)
			}
		}
		return names
	}
	var modes []string
	for _, mode := range access.Modes {
		modes = append(modes, string(mode))
	}
	for path, want := range map[string][]string{
		"retention.rules.outcomes": catalog.Outcomes,
		"notify.receivers.events":  webhooks.EventTypes,
		"notify.receivers.format":  webhooks.Formats(),
		"auth.mode":                modes,
	} {
		got := at(path).Enum
		says.True(t, sameWords(got, want), "%s may be %v, want %v", path, got, want)
	}
	for path, want := range map[string][]string{"retention.rules": fields(retention.Rule{}),
		"notify.receivers": fields(webhooks.Receiver{})} {
		if got := slices.Collect(maps.Keys(at(path).Properties)); !sameWords(got, want) {
			t.Errorf("%s may have %v, want %v", path, got, want)
		}
	}
}

// sameWords says whether two lists have the same words, in any order.
func sameWords(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestDocs: docs/kubernetes/values.md has the table of the values. UPDATE_DOCS=1 writes it.
func TestDocs(t *testing.T) {
	var want strings.Builder
	want.WriteString("| value | default | |\n|---|---|---|\n")
	for _, v := range values(t) {
		text := must.Get(yaml.Marshal(v.node))(t)
		shown := strings.TrimSpace(string(text))
		if v.node.Kind != yaml.ScalarNode {
			var any any
			must.OK(t, v.node.Decode(&any))
			line := must.Get(json.Marshal(any))(t)
			shown = string(line)
		}
		if i := strings.Index(shown, "#"); v.node.Kind == yaml.ScalarNode && i >= 0 {
			_, shown, _ = strings.Cut(shown, "\n") // without the comment
		}
		fmt.Fprintf(&want, "| `%s` | `%s` | %s |\n", strings.Join(v.path[1:], "."), strings.Trim(shown, "\n"),
			strings.ReplaceAll(v.comment, "|", `\|`))
	}
	docblock.Keep(t, "../../docs/kubernetes/values.md", "values", want.String())
}
