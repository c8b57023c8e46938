// Package gcs stores objects in Google Cloud Storage.
package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// Config says where the bucket is and who asks.
type Config struct {
	Bucket string
	// Project is the project a bucket is made in.
	Project string
	// CredentialsFile is a service account's key. Without one the application default credentials count: GOOGLE_APPLICATION_CREDENTIALS,
	// the workload identity of the pod, the machine's service account.
	CredentialsFile string
	// Endpoint is a server other than Google's. One reached by HTTP is an emulator and gets no credentials.
	Endpoint string

	// CreateBucket allows making the bucket where there is none.
	CreateBucket bool
	// Stall is how long a request may make no progress.
	Stall time.Duration
}

// AddFlags adds the flags of this backend, with KubeRay's names for them.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Bucket, "gcs-bucket", "ray-historyserver", "Google Cloud Storage bucket")
	fs.StringVar(&c.Project, "gcs-project", "", "Google Cloud project to make the bucket in")
	fs.StringVar(&c.CredentialsFile, "gcs-credentials-file", "", "key file of a service account; empty: the application default credentials (GOOGLE_APPLICATION_CREDENTIALS, workload identity)")
	fs.StringVar(&c.Endpoint, "gcs-endpoint", "", "server other than Google's; over HTTP an emulator, without credentials, as `http://localhost:4443`")
	settings.Bind(fs, map[string][]string{
		"gcs-bucket":   {"GCS_BUCKET"},
		"gcs-project":  {"GCP_PROJECT_ID"},
		"gcs-endpoint": {"STORAGE_EMULATOR_HOST"},
	})
	settings.InFile(fs, map[string][]string{
		"gcs-bucket":  {"gcsBucket"},
		"gcs-project": {"gcpProjectID"},
	})
}

// Store is a bucket.
type Store struct {
	client       *storage.Client
	bucket       *storage.BucketHandle
	name         string
	project      string
	createBucket bool
	log          logrus.FieldLogger
}

var (
	_ blob.Store        = (*Store)(nil)
	_ blob.Concatenator = (*Store)(nil)
)

// Open prepares a store. It talks to nobody yet: a server that cannot be reached shows in the first operation.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (*Store, error) {
	if c.Bucket == "" {
		return nil, errors.New("open GCS store: no bucket: set --gcs-bucket")
	}
	stall := c.Stall
	if stall == 0 {
		stall = remote.DefaultStall
	}
	var options []option.ClientOption
	var base http.RoundTripper = remote.Patient{Base: remote.Transport(stall)}
	endpoint, emulator, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if endpoint != "" {
		options = append(options, option.WithEndpoint(endpoint))
	}
	if emulator {
		if c.CredentialsFile != "" {
			return nil, errors.New("open GCS store: --gcs-credentials-file contradicts --gcs-endpoint over HTTP: credentials are not sent in the clear")
		}
		options = append(options, option.WithoutAuthentication())
	} else {
		credentials := []option.ClientOption{option.WithScopes(storage.ScopeReadWrite)}
		if c.CredentialsFile != "" {
			credentials = append(credentials, option.WithAuthCredentialsFile(option.ServiceAccount, c.CredentialsFile))
		}
		if base, err = htransport.NewTransport(ctx, base, credentials...); err != nil {
			return nil, fmt.Errorf("open GCS store: %w", err)
		}
	}
	options = append(options, option.WithHTTPClient(&http.Client{Transport: base}))
	client, err := storage.NewClient(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open GCS store: %w", err)
	}
	// Every write here may be repeated: it is of a whole object, and either conditional or meant to replace.
	client.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(remote.MaxAttempts), storage.WithErrorFunc(shouldRetry),
		storage.WithBackoff(gax.Backoff{Initial: 100 * time.Millisecond, Max: remote.MaxDelay, Multiplier: 2}))
	return &Store{client: client, bucket: client.Bucket(c.Bucket), name: c.Bucket, project: c.Project, createBucket: c.CreateBucket, log: log}, nil
}

// endpoint is the URL of the JSON interface, "" for Google's own, and whether it is an emulator's.
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
		return "", false, fmt.Errorf("--gcs-endpoint=%q: want a URL as http://localhost:4443", c.Endpoint)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/storage/v1/"
	}
	return u.String(), u.Scheme == "http", nil
}

func shouldRetry(err error) bool {
	var netErr net.Error
	return storage.ShouldRetry(err) || (errors.As(err, &netErr) && netErr.Timeout() && !errors.Is(err, context.DeadlineExceeded))
}

// explain maps an error of the service to what callers branch on. permission is what the operation needs.
func (s *Store) explain(err error, permission string) error {
	if err == nil {
		return nil
	}
	var apiErr *googleapi.Error
	errors.As(err, &apiErr)
	switch {
	case errors.Is(err, storage.ErrObjectNotExist):
		return os.ErrNotExist
	case s.isNoBucket(err):
		return fmt.Errorf("bucket %s does not exist: make it or set --gcs-bucket: %w", s.name, err)
	case apiErr == nil:
		return err
	case apiErr.Code == http.StatusPreconditionFailed:
		return os.ErrExist
	case apiErr.Code == http.StatusUnauthorized, apiErr.Code == http.StatusForbidden:
		return fmt.Errorf("%w: grant %s on bucket %s: %w", blob.ErrPermission, permission, s.name, err)
	case apiErr.Code == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %w", blob.ErrThrottled, err)
	}
	return err
}

// isNoBucket says whether an error of a listing or a write tells that the bucket is missing.
func (s *Store) isNoBucket(err error) bool {
	var apiErr *googleapi.Error
	return errors.Is(err, storage.ErrBucketNotExist) || (errors.As(err, &apiErr) && apiErr.Code == http.StatusNotFound && !errors.Is(err, storage.ErrObjectNotExist))
}

// do runs an operation, again while its answers are broken: the SDK repeats requests, but not those whose answer it cannot read. Where
// the bucket is missing and may be made, it makes it and goes on.
func (s *Store) do(ctx context.Context, permission string, operation func() error) error {
	attempt := func() remote.Outcome {
		err := operation()
		return remote.Outcome{Err: err, Retry: isBroken(err)}
	}
	err := remote.Retry(ctx, attempt)
	if s.createBucket && s.isNoBucket(err) {
		if err := s.makeBucket(ctx); err != nil {
			return err
		}
		err = remote.Retry(ctx, attempt)
	}
	return s.explain(err, permission)
}

// isBroken says whether an error is that of an answer that did not arrive whole, or of an upload that must start over.
func isBroken(err error) bool {
	var body remote.BodyError
	var netErr net.Error
	var syntax *json.SyntaxError
	var upload uploadError
	if err == nil || errors.As(err, &body) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &netErr) || errors.As(err, &syntax) || errors.As(err, &upload)
}

func (s *Store) makeBucket(ctx context.Context) error {
	err := remote.Retry(ctx, func() remote.Outcome {
		err := s.bucket.Create(ctx, s.project, nil)
		return remote.Outcome{Err: err, Retry: isBroken(err)}
	})
	var apiErr *googleapi.Error
	switch {
	case err == nil:
		s.log.WithField("bucket", s.name).Info("made the bucket")
		return nil
	case errors.As(err, &apiErr) && apiErr.Code == http.StatusConflict: // by another process, just now
		return nil
	case s.project == "":
		return fmt.Errorf("bucket %s does not exist; making it: %w: set --gcs-project", s.name, err)
	}
	return fmt.Errorf("bucket %s does not exist; making it: %w", s.name, s.explain(err, "storage.buckets.create"))
}
