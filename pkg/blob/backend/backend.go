// Package backend opens the store that the settings name. It is the one place that knows all drivers.
package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/aliyunoss"
	"github.com/rayhistory/historyserver/pkg/blob/azureblob"
	"github.com/rayhistory/historyserver/pkg/blob/gcs"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// Config holds the settings of storage, which the collector and the history server share.
type Config struct {
	// Backend is one of the names of openers, in any case.
	Backend string
	// Root is the folder of the bucket that everything lies under, without slashes around it: the root that package layout asks for.
	Root string
	// Prefix is what all keys of the bucket start with, before Root; "" for none.
	Prefix string
	// CreateBucket allows making the bucket or container where there is none.
	CreateBucket bool
	// Timeout is how long a request may make no progress before it is sent again.
	Timeout time.Duration
	// LocalDir is the folder of the local store.
	LocalDir string
	S3       s3.Config
	GCS      gcs.Config
	Azure    azureblob.Config
	OSS      aliyunoss.Config

	configPath string // read by package settings
}

// AddFlags adds the flags of every backend to fs, with the names that KubeRay's documentation gives them in the environment and in
// the JSON file.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Backend, "storage-backend", "local", "where history is stored: "+strings.Join(names(), ", "))
	fs.Var((*root)(&c.Root), "storage-root-dir", "folder of the bucket that everything is stored under")
	c.Root = layout.DefaultRoot
	fs.Lookup("storage-root-dir").DefValue = layout.DefaultRoot
	fs.StringVar(&c.Prefix, "storage-prefix", "", "what all keys start with, before the root folder, as \"team-a/\"")
	fs.BoolVar(&c.CreateBucket, "storage-create-bucket", true, "make the bucket or container where there is none")
	fs.DurationVar(&c.Timeout, "storage-timeout", remote.DefaultStall, "how long a request to the store may make no progress")
	fs.StringVar(&c.LocalDir, "local-dir", "./data", "folder of the local backend; an object is the file {local-dir}/{its key}")
	fs.StringVar(&c.configPath, "storage-backend-config-path", "/var/collector-config/data", "JSON file with settings, as mounted from a ConfigMap; that of the default need not be there")
	c.S3.AddFlags(fs)
	c.GCS.AddFlags(fs)
	c.Azure.AddFlags(fs)
	c.OSS.AddFlags(fs)
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
	"s3":        openS3,
	"gcs":       openGCS,
	"azureblob": openAzure,
	"aliyunoss": openOSS,
}

func names() []string { return slices.Sorted(maps.Keys(openers)) }

// Open opens the configured backend. A store that cannot be reached now is no error but a warning: collectors keep what they are sent
// until it can be.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	open, ok := openers[strings.ToLower(c.Backend)]
	if !ok {
		return nil, fmt.Errorf("--storage-backend=%q: want one of %s", c.Backend, strings.Join(names(), ", "))
	}
	if c.Timeout <= 0 {
		return nil, fmt.Errorf("--storage-timeout=%s: want more than 0", c.Timeout)
	}
	store, err := open(ctx, c, log)
	if err != nil {
		return nil, err
	}
	if c.Prefix != "" {
		store = blob.WithPrefix(store, c.Prefix)
	}
	check(ctx, store, log)
	return store, nil
}

// checkTime is how long a start may wait for the store.
const checkTime = 5 * time.Second

// check asks for one key, so that wrong settings show in the log at the start, and the bucket is made.
func check(ctx context.Context, store blob.Store, log logrus.FieldLogger) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	for _, err := range store.List(ctx, "", blob.ListOptions{}) {
		if err != nil {
			log.WithError(err).Warn("the store does not answer as it should yet; it is tried again whenever it is needed")
		}
		return
	}
}

func openLocal(_ context.Context, c Config, _ logrus.FieldLogger) (blob.Store, error) {
	return local.Open(c.LocalDir)
}

func openS3(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	c.S3.CreateBucket, c.S3.Stall = c.CreateBucket, c.Timeout
	return s3.Open(ctx, c.S3, log)
}

func openGCS(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	c.GCS.CreateBucket, c.GCS.Stall = c.CreateBucket, c.Timeout
	return gcs.Open(ctx, c.GCS, log)
}

func openAzure(_ context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	c.Azure.CreateBucket, c.Azure.Stall = c.CreateBucket, c.Timeout
	return azureblob.Open(c.Azure, log)
}

func openOSS(_ context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	c.OSS.CreateBucket, c.OSS.Stall = c.CreateBucket, c.Timeout
	return aliyunoss.Open(c.OSS, log)
}
