// Package backend opens the store that the settings name. It is the only package that knows all drivers.
package backend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/aliyunoss"
	"github.com/rayhistory/historyserver/pkg/blob/azureblob"
	"github.com/rayhistory/historyserver/pkg/blob/gcs"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/blob/redact"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Config holds the settings of storage, which the collector and the history server share.
type Config struct {
	// Backend is one of the names of openers, in any case.
	Backend string
	// Root is the folder of the bucket that everything lies under, without slashes around it: the root that package
	// layout asks for.
	Root string
	// Prefix is what all keys of the bucket start with, before Root; "" for none.
	Prefix string
	// Top says that everything is stored at the top of the bucket. Keys begin with Root all the same; the store that
	// Open gives leaves it out.
	Top bool
	// Shared is what the driver of the backend gets.
	remote.Shared
	// LocalDir is the folder of the local store.
	LocalDir string
	S3       s3.Config
	GCS      gcs.Config
	Azure    azureblob.Config
	OSS      aliyunoss.Config

	// Probe is the prefix that is listed at the start, to check that the store answers. A program that may not list
	// everything sets the part that it may list.
	Probe string
	// Unchecked opens a store without the listing of Probe. Commands use it: their first request reports what is wrong.
	Unchecked bool

	configPath string      // read by package settings
	localDir   *pflag.Flag // of LocalDir; nil without flags
}

// AddFlags adds the flags of every backend to fs, with the names that KubeRay's documentation gives them in the
// environment and in the JSON file.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	settings.Topic(fs, "storage", func(fs *pflag.FlagSet) {
		settings.Group(fs, "Storage", c.addFlags)
		settings.Group(fs, "Amazon S3 and compatible servers", c.S3.AddFlags)
		settings.Group(fs, "Google Cloud Storage", c.GCS.AddFlags)
		settings.Group(fs, "Azure Blob Storage", c.Azure.AddFlags)
		settings.Group(fs, "Alibaba Cloud OSS", c.OSS.AddFlags)
	})
}

// Help is the command whose help lists the flags that AddFlags adds.
func Help() *cobra.Command {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	new(Config).AddFlags(fs)
	return settings.TopicCommand("storage", "Flags that say where sessions are stored", fs)
}

// addFlags adds the flags that belong to no single backend.
func (c *Config) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Backend, "storage-backend", "local", "storage backend: "+strings.Join(Names(), ", "))
	c.Root = layout.DefaultRoot
	fs.Var(&root{c}, "storage-root-dir",
		"folder in the bucket for everything that is stored; / is the top of the bucket")
	fs.Lookup("storage-root-dir").DefValue = layout.DefaultRoot
	fs.StringVar(&c.Prefix, "storage-prefix", "", "prefix of all keys, before the root folder, such as \"team-a/\"")
	fs.BoolVar(&c.CreateBucket, "storage-create-bucket", false, "create the bucket or container if it does not exist")
	fs.DurationVar(&c.Stall, "storage-timeout", remote.DefaultStall,
		"a request to the store fails when it makes no progress for this long")
	fs.StringVar(&c.LocalDir, "local-dir", "./data",
		"folder of the local backend; an object is the file {local-dir}/{key}")
	c.localDir = fs.Lookup("local-dir")
	fs.StringVar(&c.configPath, "storage-backend-config-path", "/var/collector-config/data",
		"JSON file with settings, mounted from a ConfigMap; the default file may be missing")
	settings.Alias(fs, "storage-backend", "runtime-class-name")
	settings.Alias(fs, "storage-root-dir", "ray-root-dir")
	settings.Alias(fs, "storage-backend-config-path", "runtime-class-config-path")
	settings.FilePath(fs, "storage-backend-config-path")
	settings.Bind(fs, map[string][]string{
		"storage-backend":  {"STORAGE_BACKEND", "RUNTIME_CLASS_NAME"},
		"storage-root-dir": {"RAY_ROOT_DIR", "STORAGE_ROOT_DIR"},
	})
}

// root is a pflag.Value that takes a folder with or without slashes around it, none at all for the default, and a slash
// for the top of the bucket, where newer collectors of KubeRay's store by default.
type root struct{ config *Config }

func (r *root) String() string {
	switch {
	case r.config == nil:
		return ""
	case r.config.Top:
		return "/"
	}
	return r.config.Root
}

func (r *root) Type() string { return "string" }

// Set implements pflag.Value. A slash alone means no folder: the bucket's top.
func (r *root) Set(value string) error {
	folder := strings.Trim(value, "/")
	r.config.Top = value != "" && folder == ""
	for _, segment := range strings.Split(folder, "/") {
		if segment == "." || segment == ".." || (segment == "" && folder != "") {
			return fmt.Errorf("want a folder of the bucket, such as %q", layout.DefaultRoot)
		}
	}
	r.config.Root = cmp.Or(folder, layout.DefaultRoot)
	return nil
}

// openers are the backends by name.
var openers = map[string]func(context.Context, Config, logrus.FieldLogger) (blob.Store, error){
	"local":     openLocal,
	"localtest": openLocal,
	"s3": func(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
		c.S3.Shared = c.Shared
		return s3.Open(ctx, c.S3, log)
	},
	"gcs": func(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
		c.GCS.Shared = c.Shared
		return gcs.Open(ctx, c.GCS, log)
	},
	"azureblob": func(_ context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
		c.Azure.Shared = c.Shared
		return azureblob.Open(c.Azure, log)
	},
	"aliyunoss": func(_ context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
		c.OSS.Shared = c.Shared
		return aliyunoss.Open(c.OSS, log)
	},
}

func openLocal(_ context.Context, c Config, _ logrus.FieldLogger) (blob.Store, error) {
	return local.Open(c.LocalDir)
}

// Names are the backends' names, sorted.
func Names() []string { return slices.Sorted(maps.Keys(openers)) }

// CheckBucket returns an error if the chosen backend has no bucket's name, or one with a slash or quotes, or a folder
// that only a shell would find, or if a bucket of another backend is set while the backend is the default. S3 has
// buckets that an ARN names, its access points; and Ceph has TENANT:BUCKET.
func (c *Config) CheckBucket() error {
	if c.IsLocal() && (strings.IndexAny(c.LocalDir, `~$"'`) == 0 || strings.Contains(c.LocalDir, "://")) {
		return fmt.Errorf("--local-dir=%q: want a folder's path, without quotes; neither ~ nor variables are expanded",
			c.LocalDir)
	}
	for _, b := range []struct{ backend, flag, env, name string }{
		{"s3", "s3-bucket", "S3_BUCKET", c.S3.Bucket}, {"gcs", "gcs-bucket", "GCS_BUCKET", c.GCS.Bucket},
		{"aliyunoss", "oss-bucket", "OSS_BUCKET", c.OSS.Bucket},
		{"azureblob", "azure-container", "AZURE_STORAGE_CONTAINER", c.Azure.Container},
	} {
		switch {
		case c.IsLocal() && c.localDir != nil && !c.localDir.Changed && b.name != "":
			return fmt.Errorf("--%s=%q has no effect with --storage-backend=%s: set --storage-backend=%s, or "+
				"--local-dir for a folder", b.flag, b.name, c.Backend, b.backend)
		case !strings.EqualFold(c.Backend, b.backend):
		case b.name == "":
			return fmt.Errorf("--%s is not set, nor %s: say in which bucket data is stored", b.flag, b.env)
		case strings.ContainsAny(b.name, `/"'`) && !strings.HasPrefix(b.name, "arn:"):
			return fmt.Errorf("--%s=%q: want the name alone, without quotes; put a folder into --storage-prefix", b.flag,
				b.name)
		}
	}
	return nil
}

// Open opens the configured backend. If the store cannot be reached now, that is a warning and not an error: collectors
// keep what they receive until it can. It removes white space around the variables that SDKs read, in the process's
// environment, and hides secrets in all errors and logs of the store.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (blob.Store, error) {
	open, ok := openers[strings.ToLower(c.Backend)]
	if !ok {
		return nil, fmt.Errorf("--storage-backend=%q: want %s", c.Backend, human.Or(Names()))
	}
	if c.Stall <= 0 {
		return nil, fmt.Errorf("--storage-timeout=%s: want more than 0", c.Stall)
	}
	if err := c.CheckBucket(); err != nil {
		return nil, err
	}
	trimVariables()
	redactor := redact.New(c.secrets()...)
	store, err := open(ctx, c, redactor.Logger(log))
	if err != nil {
		return nil, redactor.Error(err)
	}
	store = redactor.Store(store)
	switch {
	case c.Top: // callers use keys below Root, the bucket has them below Prefix only
		store = blob.Renamed(store, c.Root+"/", c.Prefix)
	case c.Prefix != "":
		store = blob.Renamed(store, "", c.Prefix)
	}
	if !c.Unchecked {
		probeStore(ctx, store, c.Probe, log)
	}
	return store, nil
}

// trimVariables removes the white space around the variables that the SDKs read themselves, such as AWS_ACCESS_KEY_ID:
// package settings does so with all that are settings.
func trimVariables() {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		ofSDK := slices.ContainsFunc([]string{"AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if trimmed := strings.TrimSpace(value); ofSDK && trimmed != value {
			_ = os.Setenv(name, trimmed) // a variable that was set can be set
		}
	}
}

// IsLocal says whether the store is a folder.
func (c *Config) IsLocal() bool {
	name := strings.ToLower(c.Backend)
	return name == "local" || name == "localtest"
}

// Equal says whether two configurations have the same settings, which may have been read at different times.
func (c *Config) Equal(other *Config) bool {
	a, b := *c, *other
	a.localDir, b.localDir = nil, nil // of the flags that each was read by
	return a == b
}

// IsAt says whether two configurations name the same place, as far as their settings are spelled alike. A region and a
// profile count because each may mean another cloud or server, where the same name is another bucket.
func (c *Config) IsAt(other *Config) bool {
	place := func(c *Config) []string {
		all := []string{strings.ToLower(c.Backend), c.BucketKey(c.Root + "/"), c.S3.Bucket, c.S3.Endpoint, c.S3.Region,
			c.S3.Profile, c.GCS.Bucket, c.GCS.Endpoint, c.Azure.Container, c.Azure.AccountURL, c.Azure.Account,
			c.Azure.ConnectionString, c.OSS.Bucket, c.OSS.Endpoint}
		if c.IsLocal() {
			folder, _ := filepath.Abs(c.LocalDir)
			all = append(all[:2], folder)
		}
		return all
	}
	return slices.Equal(place(c), place(other))
}

// Describe says for people where everything is stored.
func (c *Config) Describe() string {
	place := "the " + strings.ToLower(c.Backend) + " backend"
	if c.IsLocal() {
		place = "the local folder " + c.LocalDir
	}
	if folder := c.BucketKey(c.Root + "/"); folder != "" {
		place += ", below " + folder
	}
	return place
}

// BucketKey is the key in the bucket of an object, by its key in the store that Open gives.
func (c *Config) BucketKey(key string) string {
	if c.Top {
		key = strings.TrimPrefix(key, c.Root+"/")
	}
	return c.Prefix + key
}

// secrets are the values of the settings that must not be shown.
func (c *Config) secrets() []string {
	signed := ""
	if u, err := url.Parse(c.Azure.AccountURL); err == nil {
		signed = u.Query().Get("sig")
	}
	return []string{
		c.S3.AccessKeyID, c.S3.SecretAccessKey, c.S3.SessionToken, c.Azure.AccountKey, c.Azure.ConnectionString, signed,
		c.OSS.AccessKeyID, c.OSS.AccessKeySecret, c.OSS.SecurityToken,
	}
}

// checkTime is how long a start may wait for the store.
const checkTime = 5 * time.Second

// probeStore asks for one key, so that wrong settings show in the log at the start, and the bucket is made.
func probeStore(ctx context.Context, store blob.Store, prefix string, log logrus.FieldLogger) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	for _, err := range store.List(ctx, prefix, blob.ListOptions{}) {
		if err != nil {
			log.WithError(err).Warn("the store cannot be used yet; it is tried again with every request")
		}
		return
	}
}
