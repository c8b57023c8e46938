package backends

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/gcs"
	"github.com/rayhistory/historyserver/test/faults"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestGCS(t *testing.T) {
	want(t, servers.FakeGCS.Name)
	t.Parallel()
	server := start(t, servers.FakeGCS)
	runContract(t, "gcs", servers.FakeGCS.Name, server.URL, gcsRefusal, gcsContract)
}

// gcsRefusal is how the JSON interface says that it is busy or broken.
func gcsRefusal(status int) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"injected"}}`, status)
}

// humourFakeGCS sets a proxy up for the server at url. It wants to be called by its own name, and appends each chunk of
// an upload, whatever its Content-Range says: one that is sent again after a lost answer is then in the object twice.
func humourFakeGCS(proxy *faults.Proxy, url string) {
	proxy.Host = strings.TrimPrefix(url, "http://")
	proxy.Spare = func(r *http.Request, fault faults.Fault) bool {
		return fault == faults.LoseAnswer && strings.HasSuffix(r.Header.Get("Content-Range"), "/*")
	}
}

func gcsContract(url string, stall time.Duration) blobtest.Contract {
	c := opener(openGCS).contract(url, stall)
	c.Many = 2500 // this server searches all of its objects for each new one
	c.ForgetsUploads = true
	return c
}

func openGCS(t testing.TB, url, bucket string, stall time.Duration) blob.Store {
	log := logrus.New()
	log.SetOutput(t.Output())
	c := gcs.Config{Bucket: bucket, Project: "test", Endpoint: url}
	c.CreateBucket, c.Stall = true, stall
	return must.Get(gcs.Open(t.Context(), c, log))(t)
}
