package backends

import (
	"fmt"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/blobtest"
	"github.com/rayhistory/historyserver/pkg/blob/gcs"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestGCS(t *testing.T) {
	want(t, servers.FakeGCS.Name)
	server := start(t, servers.FakeGCS)
	record(run{"gcs", servers.FakeGCS.Name, "none", gcsContract(server.URL).Run(t)})
}

func gcsContract(url string) blobtest.Contract {
	// This server searches all of its objects for each new one, and does not look at the generations to compose.
	return blobtest.Contract{Many: 2500, AnyVersion: true, Open: func(t *testing.T) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		s, err := gcs.Open(t.Context(), gcs.Config{Bucket: fmt.Sprintf("test-%d", buckets.Add(1)), Project: "test", CreateBucket: true, Endpoint: url}, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}
