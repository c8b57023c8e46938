package inject

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/yamledit"
)

// resourceList is the kind of what a KRM function reads and writes
// (https://github.com/kubernetes-sigs/kustomize/blob/master/cmd/config/docs/api-conventions/functions-spec.md).
const resourceList = "ResourceList"

// setByFunction sets flags from the input's functionConfig if the input is a ResourceList of kustomize. Flags that the
// command line has set stay. Other input is left to the caller.
func setByFunction(fs *pflag.FlagSet, in []byte) error {
	tree, err := yamledit.Decode(in)
	object, ok := tree.(map[string]any)
	if err != nil || !ok || text(object, "kind") != resourceList {
		return nil // Manifest reads it, and says what is wrong
	}
	data, err := descend(object, "functionConfig", "data")
	if err != nil {
		return err
	}
	given := map[string]bool{}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if given[name] {
			continue
		}
		if name == "file" || name == "output" || fs.Lookup(name) == nil {
			return fmt.Errorf("functionConfig: data.%s is no flag of collector inject", name)
		}
		values, ok := data[name].([]any)
		if !ok {
			values = []any{data[name]}
		}
		for _, value := range values {
			if err := fs.Set(name, fmt.Sprint(value)); err != nil {
				return fmt.Errorf("functionConfig: data.%s: %w", name, err)
			}
		}
	}
	return nil
}
