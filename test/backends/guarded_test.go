package backends

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/test/faults"
	"github.com/rayhistory/historyserver/test/servers"
)

// guardedKind is a server behind a proxy that lets through what a collector may do, to create and to list, and nothing
// else.
type guardedKind struct {
	server  string
	run     func(t *testing.T) running
	refusal func(status int) string
	allow   func(*http.Request) bool
}

// running is a server and how it is spoken to.
type running struct {
	url        string
	openBucket opener
	// flags are the collector's for a bucket behind a URL.
	flags func(url, bucket string) []string
}

func s3Kind(kind servers.Kind) guardedKind {
	return guardedKind{
		server: kind.Name,
		run: func(t *testing.T) running {
			server := start(t, kind)
			return running{
				url:        server.URL,
				openBucket: openS3(server),
				flags: func(url, bucket string) []string {
					return []string{"--storage-backend=s3", "--s3-endpoint=" + url, "--s3-bucket=" + bucket,
						"--s3-force-path-style",
						"--s3-access-key-id=" + server.AccessKey, "--s3-secret-access-key=" + server.SecretKey}
				},
			}
		},
		refusal: s3Refusal,
		allow:   func(r *http.Request) bool { return s3Collects(r, r.Header.Get("If-None-Match") == "*") },
	}
}

// s3Collects says whether a request of S3's protocol lists, creates, or puts a part of what is created.
func s3Collects(r *http.Request, creates bool) bool {
	query := r.URL.Query()
	part := r.Method == http.MethodPost && query.Has("uploads") || r.Method == http.MethodPut && query.Has("partNumber")
	return query.Get("list-type") == "2" || part || creates
}

var guardedKinds = []guardedKind{
	s3Kind(servers.VersityGW),
	s3Kind(servers.MinIO),
	{
		server: servers.FakeGCS.Name,
		run: func(t *testing.T) running {
			return running{start(t, servers.FakeGCS).URL, openGCS, func(url, bucket string) []string {
				return []string{"--storage-backend=gcs", "--gcs-endpoint=" + url, "--gcs-bucket=" + bucket}
			}}
		},
		refusal: gcsRefusal,
		allow: func(r *http.Request) bool {
			query := r.URL.Query()
			return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/o") ||
				query.Get("ifGenerationMatch") == "0" || query.Has("upload_id")
		},
	},
	{
		server: servers.Azurite.Name,
		run: func(t *testing.T) running {
			return running{start(t, servers.Azurite).URL, openAzure, func(url, bucket string) []string {
				return []string{"--storage-backend=azureblob",
					"--azure-account-url=" + url + "/" + servers.AzuriteAccount, "--azure-container=" + bucket,
					"--azure-account=" + servers.AzuriteAccount, "--azure-account-key=" + servers.AzuriteKey}
			}}
		},
		refusal: azureRefusal,
		allow: func(r *http.Request) bool {
			query := r.URL.Query()
			return query.Get("comp") == "list" || query.Get("comp") == "block" || r.Header.Get("If-None-Match") == "*"
		},
	},
	{
		server: "oss",
		run: func(t *testing.T) running {
			return running{startOSS(t).URL, openOSS, func(url, bucket string) []string {
				return []string{"--storage-backend=aliyunoss", "--oss-endpoint=" + url, "--oss-bucket=" + bucket,
					"--oss-access-key-id=" + ossKey, "--oss-access-key-secret=" + ossSecret}
			}}
		},
		refusal: s3Refusal,
		allow:   func(r *http.Request) bool { return s3Collects(r, r.Header.Get("X-Oss-Forbid-Overwrite") == "true") },
	},
}

// guarded is a running server of a guardedKind.
type guarded struct {
	guardedKind
	running
	proxy *faults.Proxy
	stall time.Duration
}

// start runs the server, and the proxy, which injects faults into a share of the requests. Everything is allowed yet.
func (k guardedKind) start(t *testing.T, share float64, stall time.Duration) *guarded {
	t.Helper()
	g := &guarded{guardedKind: k, running: k.run(t), stall: stall}
	g.proxy = must.Get(faults.New(g.url, share, *seed))(t)
	t.Cleanup(g.proxy.Close)
	g.proxy.Refusal = k.refusal
	if k.server == servers.FakeGCS.Name {
		humourFakeGCS(g.proxy, g.url)
	}
	return g
}

// open opens a new bucket by way of a URL, the proxy's or the server's own.
func (g *guarded) open(t *testing.T, url string) (s blob.Store, bucket string) {
	t.Helper()
	bucket = newBucket()
	return g.openBucket(t, url, bucket, g.stall), bucket
}

// guard makes the bucket, which is an administrator's work, and from then on lets a collector's requests through only.
func (g *guarded) guard(t *testing.T, s blob.Store) {
	t.Helper()
	for _, err := range s.List(t.Context(), "", blob.ListOptions{}) {
		t.Fatal(fmt.Errorf("the store is not empty: %w", err))
	}
	g.proxy.Deny = func(r *http.Request) bool { return !g.allow(r) }
}
