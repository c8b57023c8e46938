// Package backend opens the store that the settings name. It is the one place that knows all drivers.
package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// Config holds the settings of storage, which the collector and the history server share.
type Config struct {
	// Backend is one of the names of openers, in any case.
	Backend string
	// Root is the folder of the bucket that everything lies under, without slashes around it: the root that package layout asks for.
	Root string
	// LocalDir is the folder of the local store.
	LocalDir string

	configPath string // read by package settings
}

// AddFlags adds the flags of every backend to fs, with the names that KubeRay's documentation gives them in the environment and in
// the JSON file.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Backend, "storage-backend", "local", "where history is stored: "+strings.Join(names(), ", "))
	fs.Var((*root)(&c.Root), "storage-root-dir", "folder of the bucket that everything is stored under")
	c.Root = layout.DefaultRoot
	fs.Lookup("storage-root-dir").DefValue = layout.DefaultRoot
	fs.StringVar(&c.LocalDir, "local-dir", "./data", "folder of the local backend; an object is the file {local-dir}/{its key}")
	fs.StringVar(&c.configPath, "storage-backend-config-path", "", "JSON file with settings, as mounted from a ConfigMap; empty: none")
	settings.Alias(fs, "storage-backend", "runtime-class-name")
	settings.Alias(fs, "storage-root-dir", "ray-root-dir")
	settings.Alias(fs, "storage-backend-config-path", "runtime-class-config-path")
	settings.FilePath(fs, "storage-backend-config-path")
	settings.Bind(fs, map[string][]string{
		"storage-backend":  {"STORAGE_BACKEND", "RUNTIME_CLASS_NAME"},
		"storage-root-dir": {"RAY_ROOT_DIR"},
	})
}

// root is a pflag.Value that takes a folder with or without slashes around it, and none at all for the default.
type root string

func (r *root) String() string { return string(*r) }
func (r *root) Type() string   { return "string" }

func (r *root) Set(value string) error {
	folder := strings.Trim(value, "/")
	for _, segment := range strings.Split(folder, "/") {
		if segment == "." || segment == ".." || (segment == "" && folder != "") {
			return fmt.Errorf("want a folder of the bucket, as %q", layout.DefaultRoot)
		}
	}
	if folder == "" {
		folder = layout.DefaultRoot
	}
	*r = root(folder)
	return nil
}

// openers are the backends by name.
var openers = map[string]func(context.Context, Config, logrus.FieldLogger) (blob.Store, error){
	"local":     openLocal,
	"localtest": openLocal,
}

func names() []string { return slices.Sorted(maps.Keys(openers)) }

// Open opens the configured backend and makes its bucket where there is none and that is allowed.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	open, ok := openers[strings.ToLower(c.Backend)]
	if !ok {
		return nil, fmt.Errorf("--storage-backend=%q: want one of %s", c.Backend, strings.Join(names(), ", "))
	}
	return open(ctx, c, log)
}

func openLocal(_ context.Context, c Config, _ logrus.FieldLogger) (blob.Store, error) {
	return local.Open(c.LocalDir)
}
