// Package s3 stores objects in Amazon S3 and the many servers that speak its protocol.
package s3

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// defaultRegion is sent to servers that have no regions.
const defaultRegion = "us-east-1"

// Config says where the bucket is and who asks.
type Config struct {
	remote.Shared
	Bucket string
	// Endpoint is a server other than AWS, with or without http:// or https:// in front.
	Endpoint string
	Region   string
	// PathStyle puts the bucket in the path instead of the host name, as most servers other than AWS want it.
	PathStyle bool
	// DisableSSL speaks HTTP to an endpoint that does not say.
	DisableSSL bool
	// The keys are for a fixed account. Without them the SDK finds its own: AWS_ACCESS_KEY_ID and the like, a web
	// identity (IRSA), the shared configuration, the container's or the machine's role.
	AccessKeyID, SecretAccessKey, SessionToken string
	// Profile is one of the shared configuration (~/.aws).
	Profile string
	// Headers are NAME=VALUE of sentHeaders, with commas between them.
	Headers string
}

// AddFlags adds the flags of this backend, with KubeRay's names in the environment and in the settings file.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Bucket, "s3-bucket", "", "name of the bucket; required with this backend")
	fs.StringVar(&c.Endpoint, "s3-endpoint", "", "URL of another S3 server than AWS, such as http://minio:9000; "+
		"empty: AWS_ENDPOINT_URL, else AWS")
	fs.StringVar(&c.Region, "s3-region", "", "region of the bucket; empty: AWS_REGION, or at an endpoint "+
		defaultRegion)
	fs.BoolVar(&c.PathStyle, "s3-force-path-style", false,
		"put the bucket's name into the path, not the host name; most servers other than AWS need it")
	fs.BoolVar(&c.DisableSSL, "s3-disable-ssl", false, "use HTTP if --s3-endpoint has neither http:// nor https://")
	fs.StringVar(&c.AccessKeyID, "s3-access-key-id", "",
		"access key ID; empty: the AWS SDK's default credentials (AWS_ACCESS_KEY_ID, web identity, profile, role)")
	fs.StringVar(&c.SecretAccessKey, "s3-secret-access-key", "", "secret access key")
	fs.StringVar(&c.SessionToken, "s3-session-token", "", "session token of a temporary access key")
	fs.StringVar(&c.Profile, "s3-profile", "", "profile in the shared AWS configuration")
	fs.StringVar(&c.Headers, "s3-headers", "", "headers that a bucket's policy demands of those who write, such as "+
		"x-amz-server-side-encryption=aws:kms,x-amz-acl=bucket-owner-full-control; with "+
		requesterPays+"=requester, which all requests send, you pay for them")
	settings.Secret(fs, "s3-access-key-id", "s3-secret-access-key", "s3-session-token")
	settings.Bind(fs, map[string][]string{
		"s3-bucket":            {"S3_BUCKET", "s3Bucket"},
		"s3-endpoint":          {"S3_ENDPOINT", "s3Endpoint"},
		"s3-region":            {"S3_REGION", "s3Region"},
		"s3-force-path-style":  {"S3FORCE_PATH_STYLE", "s3ForcePathStyle"},
		"s3-disable-ssl":       {"S3DISABLE_SSL", "s3DisableSSL"},
		"s3-access-key-id":     {"AWS_S3ID"},
		"s3-secret-access-key": {"AWS_S3SECRET"},
		"s3-session-token":     {"AWS_S3TOKEN"},
	})
}

// Store is a bucket.
type Store struct {
	remote.Writer
	client           *awss3.Client
	bucket           string
	region           string
	createBucket     bool
	bucketSeen       atomic.Bool // it was listed
	log              logrus.FieldLogger
	renewCredentials func() // looks for credentials anew
	renewThrottle    rate.Sometimes
}

var _ blob.Store = (*Store)(nil)

// Open prepares a store and sends no request: if the server cannot be reached, the first operation fails.
func Open(ctx context.Context, c Config, log logrus.FieldLogger) (*Store, error) {
	endpoint, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(c.Bucket, "--x-s3") { // their listings have no order, and only whole folders
		return nil, fmt.Errorf("open S3 store: --s3-bucket=%s is a directory bucket (S3 Express One Zone): choose a "+
			"general purpose bucket", c.Bucket)
	}
	if (c.AccessKeyID == "") != (c.SecretAccessKey == "") {
		return nil, errors.New("open S3 store: set both --s3-access-key-id and --s3-secret-access-key, or neither")
	}
	if c.AccessKeyID != "" && c.Profile != "" {
		return nil, errors.New("open S3 store: --s3-profile contradicts --s3-access-key-id: set only one of them")
	}
	headers, err := c.headers()
	if err != nil {
		return nil, err
	}
	options := c.loadOptions(log)
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("open S3 store: %w", err)
	}
	found := &provider{last: loaded.Credentials, options: options, log: log}
	cache := aws.NewCredentialsCache(found)
	loaded.Credentials = cache
	client := awss3.NewFromConfig(loaded, func(o *awss3.Options) {
		o.UsePathStyle = c.PathStyle
		o.EndpointOptions.DisableHTTPS = c.DisableSSL
		o.APIOptions = append(o.APIOptions, headers.send)
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
		if o.BaseEndpoint == nil { // nor do AWS_ENDPOINT_URL and the shared configuration have one
			return
		}
		o.Region = cmp.Or(o.Region, defaultRegion)
		if !isAmazon(*o.BaseEndpoint) {
			// Only AWS knows checksums in trailers; other servers have refused them or stored them as content.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
			// All know Content-MD5, which is wanted in a bucket with an object lock.
			o.APIOptions = append(o.APIOptions, smithyhttp.AddContentChecksumMiddleware)
		}
	})
	region := client.Options().Region
	if region == "" {
		return nil, errors.New("open S3 store: no region: set --s3-region or AWS_REGION")
	}
	s := &Store{client: client, bucket: c.Bucket, region: region, createBucket: c.CreateBucket, log: log,
		renewThrottle: rate.Sometimes{Interval: renewPause}}
	s.renewCredentials = func() {
		found.refused.Store(true)
		cache.Invalidate()
	}
	// A create relies on If-None-Match, as far as the server does.
	s.Writer = remote.NewWriter(s.put, s.uploadParts, s.findKey, &remote.Conditions{
		Unknown: refusesCondition,
		Warn: func() {
			log.Warn("the S3 server ignores If-None-Match: each key is looked up before it is written, which costs one " +
				"listing per write; do not run two collectors on the same node, nor two history servers")
		},
	})
	return s, nil
}

// loadOptions returns how the SDK loads its configuration: our client, pauses and retries, and the settings that are
// given. The rest comes from the environment and AWS's files.
func (c *Config) loadOptions(log logrus.FieldLogger) []func(*config.LoadOptions) error {
	client := awshttp.NewBuildableClient().WithTransportOptions(
		func(t *http.Transport) { remote.Configure(t, c.Stall) })
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(client),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),
		config.WithLogger(logging.LoggerFunc(func(_ logging.Classification, format string,
			v ...any) {
			log.Debugf("AWS SDK: "+format, v...)
		})),
		config.WithRetryer(func() aws.Retryer { return newRetryer() }),
		config.WithAPIOptions([]func(*middleware.Stack) error{makePauses, leaveEncodingOut}),
	}
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	if c.Profile != "" {
		options = append(options, config.WithSharedConfigProfile(c.Profile))
	}
	if c.AccessKeyID != "" {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.AccessKeyID,
			c.SecretAccessKey, c.SessionToken)))
	}
	return options
}

// renewTime is how long keys are used that do not say when they expire. They may be of a file that an agent renews, and
// the SDK reads it once.
const renewTime = 5 * time.Minute

// renewPause is the time between two looks for credentials in place of those that the store refuses.
const renewPause = 10 * time.Second

// provider gives credentials, to a cache.
type provider struct {
	last    aws.CredentialsProvider // nil: to be loaded
	options []func(*config.LoadOptions) error
	log     logrus.FieldLogger
	// keys are the last ones of a file or the environment. They stay in use while no others are found: a file may be
	// missing or empty at the moment when it is renewed.
	keys aws.Credentials
	// refused says that the store refuses the last credentials before their time: they were replaced or revoked, or
	// this machine's clock is slow. What gave them may have cached them.
	refused atomic.Bool
}

// Retrieve implements aws.CredentialsProvider. If no credentials are found, the last keys stay in use; without such the
// error says what to set, because the SDK's names only the last source that it asked. Credentials that do not say when
// they expire are looked for again after renewTime.
func (p *provider) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := p.findCredentials(ctx)
	if err != nil && p.keys.HasKeys() {
		p.log.WithError(err).Warn("could not read the access key anew; the last one stays in use: restart this " +
			"program if the key was removed on purpose")
		found, err = p.keys, nil
	}
	if err == nil && !found.CanExpire {
		found.CanExpire, found.Expires = true, time.Now().Add(renewTime)
	}
	return found, remote.NoCredentials(ctx, err,
		"--s3-access-key-id and --s3-secret-access-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the "+
			"pod a role")
}

// findCredentials returns the credentials of the source that gave the last ones, or looks for a source. A source that
// failed, or whose credentials do not say when they expire, is not asked again: the next call looks for one anew. Where
// keys were found before, no other kind of source is asked: a file that is empty for a moment must not make the
// machine's role the account.
func (p *provider) findCredentials(ctx context.Context) (found aws.Credentials, err error) {
	source := p.last
	p.last = nil
	if p.refused.Swap(false) || source == nil {
		loaded, err := config.LoadDefaultConfig(ctx, p.options...)
		if err != nil {
			return found, err
		}
		source = loaded.Credentials
	}
	hasKeys := aws.IsCredentialsProvider(source, credentials.StaticCredentialsProvider{})
	if !hasKeys && p.keys.HasKeys() {
		return found, errors.New("there is no access key any more where the last one was")
	}
	found, err = source.Retrieve(ctx)
	switch {
	case err == nil && hasKeys:
		p.keys = found
	case err == nil && found.CanExpire:
		p.last = source
	}
	return found, err
}

// endpoint is the server's URL, "" for AWS.
func (c *Config) endpoint() (string, error) {
	if c.Endpoint == "" {
		return "", nil
	}
	endpoint := c.Endpoint
	if !strings.Contains(endpoint, "://") {
		scheme := "https://"
		if c.DisableSSL {
			scheme = "http://"
		}
		endpoint = scheme + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fmt.Errorf("--s3-endpoint=%q: want a URL such as http://minio:9000", c.Endpoint)
	}
	if u.User != nil {
		return "", errors.New("--s3-endpoint: the URL must not contain an account; set --s3-access-key-id and " +
			"--s3-secret-access-key")
	}
	if u.RawQuery != "" || path.Base(u.Path) == c.Bucket {
		return "", errors.New("--s3-endpoint: the URL must contain neither the bucket nor a query")
	}
	if c.DisableSSL && u.Scheme == "https" {
		return "", fmt.Errorf("--s3-disable-ssl contradicts --s3-endpoint=%q", c.Endpoint)
	}
	return endpoint, nil
}

// isAmazon says whether an endpoint is one of AWS, such as that of a VPC. Its buckets with an object lock take no
// object without a checksum.
func isAmazon(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && (strings.HasSuffix(u.Hostname(), ".amazonaws.com") ||
		strings.HasSuffix(u.Hostname(), ".amazonaws.com.cn") || strings.HasSuffix(u.Hostname(), ".amazonaws.eu"))
}

// leaveEncodingOut removes Accept-Encoding from requests. The SDK would sign it, and what lies before a server may
// change it, so the signature would not match: seen with Google's S3 interface and Cloudflare's tunnels.
func leaveEncodingOut(stack *middleware.Stack) error {
	_, _ = stack.Finalize.Remove("DisableAcceptEncodingGzip") // requests for credentials have none
	return nil
}

// makePauses makes the SDK wait as long as refusals ask for, before it tries again.
func makePauses(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("MakePauses", func(ctx context.Context,
		in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata,
		error) {
		out, metadata, err := next.HandleFinalize(ctx, in)
		if refused, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && refused.Response != nil {
			// If ctx ends, the SDK notices, too.
			_ = remote.Pause(ctx, refused.HTTPStatusCode(), refused.Response.Header)
		}
		return out, metadata, err
	}), "Retry", middleware.After)
}

// newRetryer returns what decides which requests of the SDK are repeated, and when: also after answers from which S3
// servers are seen to recover.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = remote.MaxAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return remote.Delay(attempt - 1), nil
		})
		o.Retryables = append(o.Retryables,
			// 307 is the answer of a new bucket until its name is known everywhere.
			retry.RetryableHTTPStatusCode{Codes: map[int]struct{}{http.StatusRequestTimeout: {},
				http.StatusTooManyRequests: {}, http.StatusTemporaryRedirect: {}}},
			// Two conditional writes of one key at the same moment: AWS asks to repeat the later one.
			retry.RetryableErrorCode{Codes: map[string]struct{}{"ConditionalRequestConflict": {}}},
			// An answer that was cut short, the body of a refusal included: it says why, and what is missing.
			retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
				if errors.As(err, new(*smithy.DeserializationError)) || errors.As(err, new(*xml.SyntaxError)) {
					return aws.TrueTernary
				}
				return aws.UnknownTernary
			}),
		)
	})
}
