package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/strictyaml"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrNoRules says that the file of namespaces cannot be read. Then nothing is shown, because only the file can allow
// it.
var ErrNoRules = errors.New("cannot read who may see this")

// rule lets a user or a group see namespaces. "*" is all of them, "*.prod-eu" all of the Kubernetes cluster prod-eu.
type rule struct {
	User       string   `yaml:"user"`
	Group      string   `yaml:"group"`
	Namespaces []string `yaml:"namespaces"`
}

// rules are those of a file, by user and by group.
type rules struct{ users, groups map[string][]string }

// namespaceFile says who may see which namespaces. Safe for concurrent use.
type namespaceFile struct {
	path string
	read answers[rules]
}

// openNamespaceFile returns the file with a path. It is read now, so that a mistake in it ends the start, and again
// when what was read is older than cacheFor.
func openNamespaceFile(path string, cacheFor time.Duration) (*namespaceFile, error) {
	f := &namespaceFile{path: path, read: newAnswers[rules](cacheFor, 1)}
	_, err := f.parse(context.Background())
	return f, err
}

// allows says whether a rule lets the caller, or one of the caller's groups, see a namespace.
func (f *namespaceFile) allows(ctx context.Context, id Identity, namespace string) (bool, error) {
	const key = "" // the cache has only the one file
	known, err := f.read.get(ctx, key, f.parse)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrNoRules, err)
	}
	_, cluster := layout.SplitNamespace(namespace)
	sees := func(namespaces []string) bool {
		return slices.Contains(namespaces, "*") || slices.Contains(namespaces, namespace) ||
			cluster != "" && slices.Contains(namespaces, "*."+cluster)
	}
	return sees(known.users[id.User]) || slices.ContainsFunc(id.Groups,
		func(group string) bool { return sees(known.groups[group]) }), nil
}

func (f *namespaceFile) parse(context.Context) (rules, error) {
	data, err := settings.ReadFile(f.path)
	if err != nil {
		return rules{}, fmt.Errorf("--oidc-namespaces-file: %w", err)
	}
	known, err := parseRules(data)
	if err != nil {
		return rules{}, fmt.Errorf("--oidc-namespaces-file=%s: %w", f.path, err)
	}
	return known, nil
}

// parseRules reads a YAML list of rules. Unknown fields are mistakes, and so are rules without a user, a group or
// namespaces, because they would allow nothing.
func parseRules(data []byte) (rules, error) {
	known := rules{users: map[string][]string{}, groups: map[string][]string{}}
	var list []rule
	if err := strictyaml.Decode(data, &list, "rules"); err != nil {
		return rules{}, fmt.Errorf("want a list of `group: NAME` or `user: NAME`, each with `namespaces: [NAME]`: %w",
			err)
	}
	for i, r := range list {
		if (r.User == "") == (r.Group == "") || len(r.Namespaces) == 0 {
			return rules{}, fmt.Errorf("rule %d: want either user or group, and namespaces; \"*\" means all namespaces",
				i+1)
		}
		for _, name := range r.Namespaces {
			if name != "*" && strings.Contains(strings.TrimPrefix(name, "*."), "*") {
				return rules{}, fmt.Errorf("rule %d: namespace %q: want a name, \"*\" for all namespaces or "+
					"\"*.CLUSTER\" for all of another Kubernetes cluster; no other patterns are known here", i+1, name)
			}
		}
		if r.User != "" {
			known.users[r.User] = append(known.users[r.User], r.Namespaces...)
		} else {
			known.groups[r.Group] = append(known.groups[r.Group], r.Namespaces...)
		}
	}
	return known, nil
}
