package backends

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestS3(t *testing.T) {
	t.Parallel()
	for _, kind := range []servers.Kind{servers.VersityGW, servers.MinIO} {
		t.Run(kind.Name, func(t *testing.T) {
			want(t, kind.Name)
			t.Parallel() // with faults, it mostly waits
			server := start(t, kind)
			runContract(t, "s3", kind.Name, server.URL, s3Refusal, openS3(server).contract)
		})
	}
}

// start runs a server for the length of a test.
func start(t testing.TB, kind servers.Kind) *servers.Server {
	t.Helper()
	server := must.Get(kind.Start(t.Context(), "127.0.0.1:0", t.TempDir()))(t)
	t.Cleanup(func() {
		if server.Stop(); t.Failed() {
			t.Logf("%s printed last:\n%s", kind.Name, server.Log())
		}
	})
	return server
}

// buckets numbers the buckets of all tests: each store is empty because its bucket is new.
var buckets atomic.Int32

func newBucket() string { return fmt.Sprintf("test-%d", buckets.Add(1)) }

// opener opens a bucket of a server at url.
type opener func(t testing.TB, url, bucket string, stall time.Duration) blob.Store

// contract is run over a new bucket for each of its tests.
func (open opener) contract(url string, stall time.Duration) blobtest.Contract {
	return blobtest.Contract{Open: func(t testing.TB) blob.Store { return open(t, url, newBucket(), stall) }}
}

// s3Refusal is how S3 says that it is busy or broken, or that something is not allowed.
func s3Refusal(status int) string { return xmlRefusal(status, "SlowDown", "AccessDenied") }

func xmlRefusal(status int, busy, denied string) string {
	code := busy
	switch status {
	case http.StatusInternalServerError:
		code = "InternalError"
	case http.StatusForbidden:
		code = denied
	}
	return "<Error><Code>" + code + "</Code><Message>injected</Message></Error>"
}

func openS3(server *servers.Server) opener {
	return func(t testing.TB, url, bucket string, stall time.Duration) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		c := s3.Config{
			Bucket: bucket, Endpoint: url, PathStyle: true,
			AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey,
		}
		c.CreateBucket, c.Stall = true, stall
		return must.Get(s3.Open(t.Context(), c, log))(t)
	}
}
