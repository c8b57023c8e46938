package yamledit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// maxNodes bounds what aliases may unfold to: manifests hold some thousand nodes, a document that unfolds to more is an
// attack.
const maxNodes = 1 << 20

// decoder turns nodes into the values of JSON: map[string]any, []any, string, int64, float64, bool and nil.
type decoder struct{ nodes int }

// value decodes a node. An alias becomes the values that it names each time that it is used, so a few lines may unfold
// to many values: more than maxNodes are an error.
func (d *decoder) value(n *yaml.Node) (any, error) {
	if d.nodes++; d.nodes > maxNodes {
		return nil, fmt.Errorf("line %d: aliases unfold to more than %d values", n.Line, maxNodes)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return d.value(n.Content[0])
	case yaml.AliasNode:
		return d.value(n.Alias)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := d.value(c)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case yaml.MappingNode:
		return d.mapping(n)
	default:
		return scalar(n)
	}
}

// mapping decodes a mapping, and resolves its merge keys (<<) as YAML does: explicit keys win, then mappings that are
// merged earlier. Content has the keys and values in turn.
func (d *decoder) mapping(n *yaml.Node) (map[string]any, error) {
	m := make(map[string]any, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			if val.Kind == yaml.SequenceNode {
				merged = append(merged, val.Content...)
			} else {
				merged = append(merged, val)
			}
			continue
		}
		if key.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: only plain keys are supported (%s)", key.Line, renderFirst)
		}
		if _, ok := m[key.Value]; ok {
			return nil, fmt.Errorf("line %d: key %q is given twice", key.Line, key.Value)
		}
		v, err := d.value(val)
		if err != nil {
			return nil, err
		}
		m[key.Value] = v
	}
	for _, src := range merged {
		v, err := d.value(src)
		if err != nil {
			return nil, err
		}
		from, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("line %d: a merge key wants a mapping", src.Line)
		}
		for k, v := range from {
			if _, ok := m[k]; !ok {
				m[k] = v
			}
		}
	}
	return m, nil
}

// scalar returns the value of a scalar as Kubernetes' own decoder of JSON does: an int64, float64, bool, nil or string.
// An integer beyond int64 is a float64.
func scalar(n *yaml.Node) (any, error) {
	switch n.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Line, err)
		}
		switch i := v.(type) {
		case int:
			return int64(i), nil
		case uint64:
			return float64(i), nil
		}
		return v, nil
	default:
		return n.Value, nil // timestamps too: Kubernetes has no such type
	}
}

// firstKeys are written before all others, in this order, as people write manifests; the rest follows by alphabet.
var firstKeys = []string{"apiVersion", "kind", "metadata", "name", "image", "restartPolicy", "args"}

// sortedKeys returns the keys of a mapping in alphabetical order, but those in firstKeys first, in that order.
func sortedKeys(m map[string]any) []string {
	rank := func(k string) int {
		if i := slices.Index(firstKeys, k); i >= 0 {
			return i
		}
		return len(firstKeys)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
}

// encode makes the YAML node of a value. Keys are sorted, so the same value always gives the same text.
func encode(v any) (*yaml.Node, error) {
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, k := range sortedKeys(v) {
			for _, x := range []any{k, v[k]} {
				c, err := encode(x)
				if err != nil {
					return nil, err
				}
				n.Content = append(n.Content, c)
			}
		}
		return n, nil
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, x := range v {
			c, err := encode(x)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, c)
		}
		return n, nil
	default:
		n := new(yaml.Node)
		if err := n.Encode(v); err != nil {
			return nil, fmt.Errorf("encode %T: %w", v, err)
		}
		return n, nil
	}
}

// render writes v as YAML in block style, without a line end at its end. Every line but the first begins with indent
// spaces. compact puts the dashes of a list into the column of the list's key, not two columns further in.
func render(v any, indent int, compact bool) (string, error) {
	n, err := encode(v)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if compact {
		enc.CompactSeqIndent()
	}
	if err := enc.Encode(n); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := 1; i < len(lines); i++ {
		if lines[i] != "" {
			lines[i] = strings.Repeat(" ", indent) + lines[i]
		}
	}
	return strings.Join(lines, "\n"), nil
}
