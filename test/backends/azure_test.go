package backends

import (
	"fmt"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/azureblob"
	"github.com/rayhistory/historyserver/pkg/blob/blobtest"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestAzure(t *testing.T) {
	want(t, servers.Azurite.Name)
	server := start(t, servers.Azurite)
	record(run{"azureblob", servers.Azurite.Name, "none", azureContract(server.URL).Run(t)})
}

func azureContract(url string) blobtest.Contract {
	return blobtest.Contract{Open: func(t *testing.T) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		s, err := azureblob.Open(azureblob.Config{
			Container: fmt.Sprintf("test-%d", buckets.Add(1)), CreateBucket: true,
			AccountURL: url + "/" + servers.AzuriteAccount, Account: servers.AzuriteAccount, AccountKey: servers.AzuriteKey,
		}, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}
