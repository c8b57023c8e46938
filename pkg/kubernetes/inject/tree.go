package inject

import "fmt"

// The manifests are trees of map[string]any and []any, as YAML and JSON give them; null and absent are the same.

// mapping returns the mapping at a key, nil if there is none.
func mapping(m map[string]any, key string) (map[string]any, error) {
	switch v := m[key].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s: want a mapping", key)
	}
}

// list returns the list at a key, nil if there is none.
func list(m map[string]any, key string) ([]any, error) {
	switch v := m[key].(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s: want a list", key)
	}
}

// descend follows keys through mappings. It returns nil if one is missing.
func descend(m map[string]any, keys ...string) (map[string]any, error) {
	for _, k := range keys {
		var err error
		if m, err = mapping(m, k); err != nil || m == nil {
			return nil, err
		}
	}
	return m, nil
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// indexOfName returns the index of the item with that name, -1 if there is none.
func indexOfName(items []any, name string) int {
	for i, v := range items {
		if m, ok := v.(map[string]any); ok && text(m, "name") == name {
			return i
		}
	}
	return -1
}

// anySlice returns texts as a list of a manifest.
func anySlice(s []string) []any {
	out := make([]any, len(s))
	for i, v := range s {
		out[i] = v
	}
	return out
}

// quantities returns amounts as a mapping of a manifest, which the caller may change.
func quantities(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
