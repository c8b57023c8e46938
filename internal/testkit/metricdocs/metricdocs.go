// Package metricdocs is for tests that compare the metrics that a binary registers with those that the documentation,
// the alerts and the dashboard name.
package metricdocs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// Registry is a registry that knows all names, also of metrics that have no values yet, which are not gathered.
type Registry struct {
	*prometheus.Registry
	mu    sync.Mutex
	names map[string]bool
}

// NewRegistry makes an empty one.
func NewRegistry() *Registry {
	return &Registry{Registry: prometheus.NewRegistry(), names: make(map[string]bool)}
}

var described = regexp.MustCompile(`fqName: "([^"]+)"`)

// Register implements prometheus.Registerer.
func (r *Registry) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		c.Describe(descs)
	}()
	r.mu.Lock()
	for desc := range descs {
		if m := described.FindStringSubmatch(desc.String()); m != nil {
			r.names[m[1]] = true
		}
	}
	r.mu.Unlock()
	return r.Registry.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *Registry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Names are the registered metrics but for those of the Go runtime and the process, sorted.
func (r *Registry) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.names)), func(name string) bool {
		return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_")
	})
}

var (
	named = regexp.MustCompile(`\b(?:rayhistory|historyserver)_[a-z_]*[a-z]`)
	// A table's second name of a row leaves out what it begins with: `…_seconds`.
	shortened = regexp.MustCompile("`…(_[a-z_]*[a-z])")
)

// places are the files that name metrics, from the repository's root.
var places = []string{"docs/*.md", "docs/kubernetes/*.md", "config/helm/files/*"}

// Compare fails the test where a metric with one of the prefixes is named but not registered, or registered but not
// named in docs/operations.md, whole or by its end. root is the repository's folder.
func Compare(t *testing.T, root string, registered []string, prefixes ...string) {
	t.Helper()
	must.True(t, len(registered) != 0, "no metrics are registered")
	var files []string
	for _, place := range places {
		found, err := filepath.Glob(filepath.Join(root, place))
		must.True(t, err == nil && len(found) != 0, "%s: %d files, %v", place, len(found), err)
		files = append(files, found...)
	}
	known := func(name string) bool {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && slices.Contains(registered, base) {
				return true
			}
		}
		return false
	}
	for _, file := range files {
		data := must.Get(os.ReadFile(file))(t)
		for _, name := range named.FindAllString(string(data), -1) {
			says.True(t, !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) ||
				known(name), "%s names %s, which does not exist", file, name)
		}
	}
	operations := must.Get(os.ReadFile(filepath.Join(root, "docs/operations.md")))(t)
	var ends []string
	for _, m := range shortened.FindAllStringSubmatch(string(operations), -1) {
		ends = append(ends, m[1])
	}
	documented := named.FindAllString(string(operations), -1)
	for _, name := range registered {
		says.True(t, slices.Contains(documented, name) ||
			slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(name, end) }),
			"%s is not in docs/operations.md", name)
	}
}
