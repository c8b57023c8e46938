// Package aliyunoss stores objects in Alibaba Cloud's Object Storage Service.
package aliyunoss

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Config says where the bucket is and who asks.
type Config struct {
	remote.Shared
	Bucket string
	// Endpoint is the service's address, as https://oss-cn-hangzhou.aliyuncs.com; Region, as cn-hangzhou, gives one,
	// and is found in one that Alibaba Cloud gave. Requests of a known region are signed the newer way (V4).
	Endpoint, Region string
	// Internal takes the region's endpoint within Alibaba Cloud's network, where traffic is free.
	Internal bool
	// The keys are for a fixed account.
	AccessKeyID, AccessKeySecret, SecurityToken string
	// Role is what the pod's service account may assume (RRSA): used without keys.
	Role Role
}

// AddFlags adds the flags of this backend. Their environment variables and the names in the settings file are those of
// KubeRay and Alibaba Cloud.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Bucket, "oss-bucket", "", "name of the bucket; required with this backend")
	fs.StringVar(&c.Endpoint, "oss-endpoint", "",
		"URL of the service, such as https://oss-cn-hangzhou.aliyuncs.com; empty: the region's")
	fs.StringVar(&c.Region, "oss-region", "", "region, such as cn-hangzhou; empty: the endpoint's")
	fs.BoolVar(&c.Internal, "oss-internal", false, "use the region's internal endpoint, within Alibaba Cloud's network")
	fs.StringVar(&c.AccessKeyID, "oss-access-key-id", "", "access key ID; empty: the pod's role (RRSA)")
	fs.StringVar(&c.AccessKeySecret, "oss-access-key-secret", "", "access key secret")
	fs.StringVar(&c.SecurityToken, "oss-security-token", "", "security token of a temporary access key")
	fs.StringVar(&c.Role.ARN, "oss-role-arn", "", "role to assume (RRSA); set in the pod by Alibaba Cloud")
	fs.StringVar(&c.Role.Provider, "oss-oidc-provider-arn", "", "identity provider of the role (RRSA)")
	fs.StringVar(&c.Role.TokenFile, "oss-oidc-token-file", "", "file with the service account's token (RRSA)")
	fs.StringVar(&c.Role.Endpoint, "oss-sts-endpoint", "https://sts.aliyuncs.com", "URL of the token service (RRSA)")
	settings.Secret(fs, "oss-access-key-id", "oss-access-key-secret", "oss-security-token")
	settings.Bind(fs, map[string][]string{
		"oss-bucket":            {"OSS_BUCKET", "ossBucket"},
		"oss-endpoint":          {"OSS_ENDPOINT", "ossEndpoint"},
		"oss-region":            {"OSS_REGION", "ossRegion"},
		"oss-access-key-id":     {"OSS_ACCESS_KEY_ID"},
		"oss-access-key-secret": {"OSS_ACCESS_KEY_SECRET"},
		"oss-security-token":    {"OSS_SESSION_TOKEN"},
		"oss-role-arn":          {"ALIBABA_CLOUD_ROLE_ARN"},
		"oss-oidc-provider-arn": {"ALIBABA_CLOUD_OIDC_PROVIDER_ARN"},
		"oss-oidc-token-file":   {"ALIBABA_CLOUD_OIDC_TOKEN_FILE"},
	})
}

// Store is a bucket.
type Store struct {
	remote.Writer
	client       *oss.Client
	bucket       *oss.Bucket
	name         string
	createBucket bool
	log          logrus.FieldLogger
}

var _ blob.Store = (*Store)(nil)

// Open prepares a store and sends no request: if the server cannot be reached, the first operation fails.
func Open(c Config, log logrus.FieldLogger) (*Store, error) {
	endpoint, region, err := c.endpoint()
	if err != nil {
		return nil, fmt.Errorf("open OSS store: %w", err)
	}
	httpClient := &http.Client{Transport: remote.Transport(c.Stall)}
	credentials, err := c.credentials(httpClient)
	if err != nil {
		return nil, fmt.Errorf("open OSS store: %w", err)
	}
	options := []oss.ClientOption{oss.HTTPClient(httpClient), oss.SetCredentialsProvider(credentials),
		oss.RedirectEnabled(false)}
	if region != "" { // without one only older signatures can be made
		options = append(options, oss.Region(region), oss.AuthVersion(oss.AuthV4))
	}
	client, err := oss.New(endpoint, "", "", options...)
	if err != nil {
		return nil, fmt.Errorf("open OSS store: %w", err)
	}
	bucket, err := client.Bucket(c.Bucket)
	if err != nil {
		return nil, fmt.Errorf("open OSS store: --oss-bucket=%q: %w", c.Bucket, err)
	}
	s := &Store{client: client, bucket: bucket, name: c.Bucket, createBucket: c.CreateBucket, log: log}
	// A create relies on x-oss-forbid-overwrite, as far as the bucket honours it.
	s.Writer = remote.NewWriter(s.put, s.uploadParts, s.findKey, &remote.Conditions{Warn: func() {
		log.Warn("the OSS bucket ignores x-oss-forbid-overwrite, as versioned buckets do: each key is looked up before " +
			"it is written, which costs one listing per write; do not run two collectors on the same node, nor two " +
			"history servers")
	}})
	return s, nil
}

// endpoint returns the service's URL, and its region; the region is "" if neither the settings nor the URL name it. The
// error names settings that contradict each other.
func (c *Config) endpoint() (endpoint, region string, err error) {
	endpoint, region = c.Endpoint, c.Region
	if endpoint == "" {
		if region == "" {
			return "", "", errors.New("no endpoint: set --oss-endpoint or --oss-region")
		}
		endpoint = "oss-" + region
		if c.Internal {
			endpoint += "-internal"
		}
		return "https://" + endpoint + ".aliyuncs.com", region, nil
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", "", fmt.Errorf("--oss-endpoint=%q: want a URL such as https://oss-cn-hangzhou.aliyuncs.com",
			c.Endpoint)
	}
	host, ofAlibaba := strings.CutSuffix(u.Hostname(), ".aliyuncs.com")
	host, isInternal := strings.CutSuffix(host, "-internal")
	if c.Internal && !isInternal {
		return "", "", fmt.Errorf("--oss-internal contradicts --oss-endpoint=%q", c.Endpoint)
	}
	named, ok := strings.CutPrefix(host, "oss-")
	// The endpoints "accelerate" are of many regions.
	if ofAlibaba && ok && named != "accelerate" && named != "accelerate-overseas" {
		if region != "" && region != named {
			return "", "", fmt.Errorf("--oss-region=%q contradicts --oss-endpoint=%q", region, c.Endpoint)
		}
		region = named
	}
	return endpoint, region, nil
}
