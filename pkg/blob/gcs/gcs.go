// Package gcs stores objects in Google Cloud Storage.
package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"google.golang.org/api/option"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Config says where the bucket is and who asks.
type Config struct {
	remote.Shared
	Bucket string
	// Project is the project a bucket is made in, UserProject the one that pays for requests; "": the bucket's.
	Project, UserProject string
	// CredentialsFile is a service account's key. Without one the application default credentials count:
	// GOOGLE_APPLICATION_CREDENTIALS, the workload identity of the pod, the machine's service account.
	CredentialsFile string
	// Endpoint is a server other than Google's. One reached by HTTP is an emulator and gets no credentials.
	Endpoint string
}

// AddFlags adds the flags of this backend, with KubeRay's names in the environment and in the settings file.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Bucket, "gcs-bucket", "", "name of the bucket; required with this backend")
	fs.StringVar(&c.Project, "gcs-project", "", "Google Cloud project, for --storage-create-bucket")
	fs.StringVar(&c.UserProject, "gcs-user-project", "", "project that pays for requests to a bucket whose requesters pay")
	fs.StringVar(&c.CredentialsFile, "gcs-credentials-file", "",
		"key file of a service account; empty: the application default credentials (GOOGLE_APPLICATION_CREDENTIALS, "+
			"workload identity)")
	fs.StringVar(&c.Endpoint, "gcs-endpoint", "",
		"URL of another server than Google's; with http://, such as http://localhost:4443, it counts as an emulator "+
			"and gets no credentials")
	settings.Bind(fs, map[string][]string{
		"gcs-bucket":   {"GCS_BUCKET", "gcsBucket"},
		"gcs-project":  {"GCP_PROJECT_ID", "gcpProjectID"},
		"gcs-endpoint": {"STORAGE_EMULATOR_HOST"},
	})
}

// Store is a bucket.
type Store struct {
	remote.Writer
	bucket       *storage.BucketHandle
	name         string
	project      string
	createBucket bool
	log          logrus.FieldLogger
}

var _ blob.Store = (*Store)(nil)

// Open prepares a store and sends it no request: if the server cannot be reached, the first operation fails. The
// metadata server of the machine may be asked for credentials.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (*Store, error) {
	var options []option.ClientOption
	base := remote.Transport(c.Stall)
	endpoint, emulator, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if endpoint != "" {
		options = append(options, option.WithEndpoint(endpoint))
	}
	if emulator {
		if c.CredentialsFile != "" {
			return nil, errors.New("open GCS store: --gcs-credentials-file contradicts --gcs-endpoint over HTTP: " +
				"credentials are not sent without encryption")
		}
		options = append(options, option.WithoutAuthentication())
	} else {
		if base, err = remote.Authorized(base,
			"--gcs-credentials-file or GOOGLE_APPLICATION_CREDENTIALS, or give the pod a workload identity",
			func(base http.RoundTripper) (http.RoundTripper, error) { return c.authorize(ctx, base) }); err != nil {
			return nil, fmt.Errorf("open GCS store: %w", err)
		}
	}
	options = append(options, option.WithHTTPClient(&http.Client{Transport: base}))
	client, err := storage.NewClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open GCS store: %w", err)
	}
	return newStore(client, c, log), nil
}

func newStore(client *storage.Client, c Config, log logrus.FieldLogger) *Store {
	// Every write may be repeated: it stores a complete object, and is either conditional or replaces what is there.
	client.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(remote.MaxAttempts),
		storage.WithErrorFunc(shouldRetry),
		storage.WithBackoff(gax.Backoff{Initial: remote.MinDelay, Max: remote.MaxDelay, Multiplier: 2}))
	bucket := client.Bucket(c.Bucket)
	if c.UserProject != "" {
		bucket = bucket.UserProject(c.UserProject)
	}
	s := &Store{bucket: bucket, name: c.Bucket, project: c.Project, createBucket: c.CreateBucket,
		log: log}
	s.Writer = remote.NewWriter(s.send, nil, s.findKey, nil) // the SDK sends large objects in parts
	return s
}

// endpoint returns the URL of the JSON interface, "" for Google's own. emulator says that it is one of an emulator,
// which gets no credentials.
func (c *Config) endpoint() (endpoint string, emulator bool, err error) {
	if c.Endpoint == "" {
		return "", false, nil
	}
	endpoint = c.Endpoint
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", false, fmt.Errorf("--gcs-endpoint=%q: want a URL such as http://localhost:4443", c.Endpoint)
	}
	if path.Base(u.Path) == c.Bucket {
		return "", false, errors.New("--gcs-endpoint: the URL must not contain the bucket")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/storage/v1/"
	}
	return u.String(), u.Scheme == "http", nil // only emulators have no TLS
}
