package backends

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/blobtest"
	"github.com/rayhistory/historyserver/pkg/blob/s3"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestS3(t *testing.T) {
	for _, kind := range []servers.Kind{servers.VersityGW, servers.MinIO} {
		t.Run(kind.Name, func(t *testing.T) {
			want(t, kind.Name)
			server := start(t, kind)
			record(run{"s3", kind.Name, "none", s3Contract(server, server.URL).Run(t)})
		})
	}
}

// start runs a server for the length of a test.
func start(t *testing.T, kind servers.Kind) *servers.Server {
	t.Helper()
	server, err := kind.Start(t.Context(), "127.0.0.1:0", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// buckets numbers the buckets of all tests: each store is empty because its bucket is new.
var buckets atomic.Int32

func s3Contract(server *servers.Server, url string) blobtest.Contract {
	return blobtest.Contract{Open: func(t *testing.T) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		s, err := s3.Open(t.Context(), s3.Config{
			Bucket: fmt.Sprintf("test-%d", buckets.Add(1)), CreateBucket: true, Endpoint: url, PathStyle: true,
			AccessKeyID: server.AccessKey, SecretAccessKey: server.SecretKey,
		}, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}
