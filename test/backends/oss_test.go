package backends

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
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
	runContract(t, "aliyunoss", "oss", server.URL, s3Refusal, ossContract)
}

func startOSS(t testing.TB) *httptest.Server {
	server := httptest.NewServer(oss.NewServer(t.TempDir(), ossKey, ossSecret, ossRegion))
	t.Cleanup(server.Close)
	return server
}

func ossContract(url string, stall time.Duration) blobtest.Contract {
	return blobtest.Contract{Open: func(t testing.TB) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		n := buckets.Add(1)
		c := aliyunoss.Config{Bucket: fmt.Sprintf("test-%d", n), CreateBucket: true, Endpoint: url, AccessKeyID: ossKey,
			AccessKeySecret: ossSecret, Stall: stall}
		if n%2 == 0 {
			c.Region = ossRegion // signs the newer way
		}
		s := must.Get(aliyunoss.Open(c, log))(t)
		return s
	}}
}
