package backends

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/azureblob"
	"github.com/rayhistory/historyserver/pkg/blob/blobtest"
	"github.com/rayhistory/historyserver/test/faults"
	"github.com/rayhistory/historyserver/test/servers"
)

func TestAzure(t *testing.T) {
	want(t, servers.Azurite.Name)
	server := start(t, servers.Azurite)
	runContract(t, "azureblob", servers.Azurite.Name, server.URL, azureRefusal, azureContract)
}

// azureRefusal is how Azure Storage says that it is busy or broken, or that something is not allowed.
func azureRefusal(status int) string {
	return xmlRefusal(status, "ServerBusy", "AuthorizationPermissionMismatch")
}

func azureContract(url string, stall time.Duration) blobtest.Contract {
	return blobtest.Contract{Open: func(t testing.TB) blob.Store {
		log := logrus.New()
		log.SetOutput(t.Output())
		s, err := azureblob.Open(azureblob.Config{
			Container: fmt.Sprintf("test-%d", buckets.Add(1)), CreateBucket: true,
			AccountURL: url + "/" + servers.AzuriteAccount, Account: servers.AzuriteAccount, AccountKey: servers.AzuriteKey, Stall: stall,
		}, log)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}

// TestAzureJoinsByURL: joined blobs' bytes stay within the server: large stretches are blocks that it copies, none is sent by the client.
func TestAzureJoinsByURL(t *testing.T) {
	want(t, servers.Azurite.Name)
	server := start(t, servers.Azurite)
	proxy, err := faults.New(server.URL, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := azureContract(proxy.URL, stall).Open(t)
	var sources []blob.Object
	for i := range 4 {
		key := fmt.Sprintf("log.@%020d", i*chunkSize)
		if err := s.Create(t.Context(), key, strings.NewReader(strings.Repeat("0123456\n", chunkSize/8))); err != nil {
			t.Fatal(err)
		}
		o, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, o)
	}
	var copied, sent, read atomic.Int32
	proxy.Deny = func(r *http.Request) bool {
		switch block := r.URL.Query().Get("comp") == "block"; {
		case block && r.Header.Get("X-Ms-Copy-Source") != "":
			copied.Add(1)
		case block:
			sent.Add(1)
		case r.Method == http.MethodGet:
			read.Add(1)
		}
		return false
	}
	if err := blob.Concatenate(t.Context(), s, "log", sources); err != nil {
		t.Fatal(err)
	}
	if copied.Load() != 4 || sent.Load() != 0 || read.Load() > 4 { // the server reads what it copies from the address it is given: by way of the proxy
		t.Errorf("%d blocks copied, %d sent, %d requests to read", copied.Load(), sent.Load(), read.Load())
	}
}
