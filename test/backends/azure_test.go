package backends

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/azureblob"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestAzure(t *testing.T) {
	want(t, servers.Azurite.Name)
	t.Parallel()
	server := start(t, servers.Azurite)
	runContract(t, "azureblob", servers.Azurite.Name, server.URL, azureRefusal, opener(openAzure).contract)
}

// azureRefusal is how Azure Storage says that it is busy or broken, or that something is not allowed.
func azureRefusal(status int) string {
	return xmlRefusal(status, "ServerBusy", "AuthorizationPermissionMismatch")
}

func openAzure(t testing.TB, url, bucket string, stall time.Duration) blob.Store {
	log := logrus.New()
	log.SetOutput(t.Output())
	c := azureblob.Config{
		Container: bucket, AccountURL: url + "/" + servers.AzuriteAccount, Account: servers.AzuriteAccount,
		AccountKey: servers.AzuriteKey,
	}
	c.CreateBucket, c.Stall = true, stall
	return must.Get(azureblob.Open(c, log))(t)
}
