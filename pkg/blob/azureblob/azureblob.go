// Package azureblob stores objects as block blobs of an Azure Storage account.
package azureblob

import (
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Config says where the container is and who asks.
type Config struct {
	Container string
	// ConnectionString names the account, a key or a shared access signature, and the endpoint, all in one.
	ConnectionString string
	// AccountURL is the account's blob endpoint, as https://{account}.blob.core.windows.net. It may end in a shared
	// access signature.
	AccountURL string
	// Account and AccountKey are for authentication by key; Account alone gives AccountURL.
	Account, AccountKey string
	// AuthMode is one of connection_string, account_key, workload_identity and default (Azure's default chain:
	// environment, workload identity, managed identity, command line). Empty: by what is set.
	AuthMode string

	// CreateBucket allows making the container where there is none.
	CreateBucket bool
	// Stall is how long a request may make no progress.
	Stall time.Duration
}

// AddFlags adds the flags of this backend, with KubeRay's names for them.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Container, "azure-container", "", "name of the container; required with this backend")
	fs.StringVar(&c.ConnectionString, "azure-connection-string", "", "connection string of the storage account")
	fs.StringVar(&c.AccountURL, "azure-account-url", "",
		"blob endpoint of the storage account, such as https://account.blob.core.windows.net")
	fs.StringVar(&c.Account, "azure-account", "", "name of the storage account")
	fs.StringVar(&c.AccountKey, "azure-account-key", "", "key of the storage account")
	fs.StringVar(&c.AuthMode, "azure-auth-mode", authAuto,
		"connection_string, account_key, workload_identity or default; empty: what the other flags imply, else default")
	settings.Secret(fs, "azure-connection-string", "azure-account-key", "azure-account-url")
	settings.Bind(fs, map[string][]string{
		"azure-container":         {"AZURE_STORAGE_CONTAINER"},
		"azure-connection-string": {"AZURE_STORAGE_CONNECTION_STRING"},
		"azure-account-url":       {"AZURE_STORAGE_ACCOUNT_URL", "AZURE_STORAGE_ENDPOINT"},
		"azure-account":           {"AZURE_STORAGE_ACCOUNT"},
		"azure-account-key":       {"AZURE_STORAGE_KEY"},
		"azure-auth-mode":         {"AZURE_STORAGE_AUTH_MODE"},
	})
	settings.InFile(fs, map[string][]string{
		"azure-container":         {"azureContainer"},
		"azure-connection-string": {"azureConnectionString"},
		"azure-account-url":       {"azureAccountURL"},
		"azure-auth-mode":         {"azureAuthMode"},
	})
}

// Store is a container.
type Store struct {
	client       *container.Client
	name         string
	createBucket bool
	log          logrus.FieldLogger
}

var _ blob.Store = (*Store)(nil)

// Open prepares a store and sends no request: if the server cannot be reached, the first operation fails.
func Open(c Config, log logrus.FieldLogger) (*Store, error) {
	client, err := c.client()
	if err != nil {
		return nil, fmt.Errorf("open Azure store: %w", err)
	}
	return &Store{client: client, name: c.Container, createBucket: c.CreateBucket, log: log}, nil
}
