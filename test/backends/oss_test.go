package backends

import (
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/aliyunoss"
	"github.com/rayhistory/historyserver/test/servers/oss"
)

const (
	ossKey, ossSecret = "test-access", "test-secret-key"
	ossRegion         = "cn-test"
)

func TestOSS(t *testing.T) {
	want(t, "oss")
	t.Parallel()
	server := startOSS(t)
	runContract(t, "aliyunoss", "oss", server.URL, s3Refusal, opener(openOSS).contract)
}

func startOSS(t testing.TB) *httptest.Server {
	server := httptest.NewServer(oss.NewServer(t.TempDir(), ossKey, ossSecret, ossRegion))
	t.Cleanup(server.Close)
	return server
}

// ossOpened counts, so that every other client signs the newer way.
var ossOpened atomic.Int32

func openOSS(t testing.TB, url, bucket string, stall time.Duration) blob.Store {
	log := logrus.New()
	log.SetOutput(t.Output())
	c := aliyunoss.Config{Bucket: bucket, Endpoint: url, AccessKeyID: ossKey, AccessKeySecret: ossSecret}
	c.CreateBucket, c.Stall = true, stall
	if ossOpened.Add(1)%2 == 0 {
		c.Region = ossRegion // signs the newer way
	}
	return must.Get(aliyunoss.Open(c, log))(t)
}
