// Package azureblob stores objects as block blobs of an Azure Storage account.
package azureblob

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Config says where the container is and who asks.
type Config struct {
	remote.Shared
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
}

// AddFlags adds the flags of this backend, with KubeRay's names in the environment and in the settings file.
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
		"azure-container":         {"AZURE_STORAGE_CONTAINER", "azureContainer"},
		"azure-connection-string": {"AZURE_STORAGE_CONNECTION_STRING", "azureConnectionString"},
		"azure-account-url":       {"AZURE_STORAGE_ACCOUNT_URL", "AZURE_STORAGE_ENDPOINT", "azureAccountURL"},
		"azure-account":           {"AZURE_STORAGE_ACCOUNT"},
		"azure-account-key":       {"AZURE_STORAGE_KEY"},
		"azure-auth-mode":         {"AZURE_STORAGE_AUTH_MODE", "azureAuthMode"},
	})
}

// Store is a container.
type Store struct {
	remote.Writer
	client       *container.Client
	name         string
	createBucket bool
	log          logrus.FieldLogger
}

var _ blob.Store = (*Store)(nil)

// Open prepares a store and sends no request: if the server cannot be reached, the first operation fails.
func Open(c Config, log logrus.FieldLogger) (*Store, error) {
	client, err := c.newClient()
	if err != nil {
		return nil, fmt.Errorf("open Azure store: %w", err)
	}
	s := &Store{client: client, name: c.Container, createBucket: c.CreateBucket, log: log}
	s.Writer = remote.NewWriter(s.put, s.uploadParts, s.findKey, nil)
	return s, nil
}

// The ways to prove who asks.
const (
	authAuto             = ""
	authConnectionString = "connection_string"
	authAccountKey       = "account_key"
	authWorkloadIdentity = "workload_identity"
	authDefault          = "default"
)

// newClient makes a client of the container. It authenticates as --azure-auth-mode says, or else by what the other
// settings have: a connection string, an account key, or Azure's default credentials.
func (c *Config) newClient() (*container.Client, error) {
	mode := strings.ToLower(strings.TrimSpace(c.AuthMode))
	if mode == authAuto {
		switch {
		case c.ConnectionString != "":
			mode = authConnectionString
		case c.AccountKey != "":
			mode = authAccountKey
		default:
			mode = authDefault
		}
	}
	options := &container.ClientOptions{ClientOptions: c.clientOptions()}
	if mode == authConnectionString {
		if c.ConnectionString == "" {
			return nil, errors.New("no connection string: set --azure-connection-string")
		}
		client, err := container.NewClientFromConnectionString(c.ConnectionString, c.Container, options)
		if err != nil { // its text may have the key
			return nil, errors.New("--azure-connection-string is not a connection string: want " +
				"AccountName=…;AccountKey=…;BlobEndpoint=…")
		}
		return client, nil
	}
	address, signed, err := c.containerURL()
	if err != nil {
		return nil, err
	}
	switch mode {
	case authAccountKey:
		if c.Account == "" || c.AccountKey == "" {
			return nil, errors.New("authentication by key needs --azure-account and --azure-account-key")
		}
		key, err := container.NewSharedKeyCredential(c.Account, c.AccountKey)
		if err != nil {
			return nil, errors.New("--azure-account-key is not base64")
		}
		return container.NewClientWithSharedKeyCredential(address, key, options)
	case authWorkloadIdentity, authDefault:
		if signed {
			return container.NewClientWithNoCredential(address, options)
		}
		var tokens azcore.TokenCredential
		if mode == authWorkloadIdentity {
			tokens, err = azidentity.NewWorkloadIdentityCredential(
				&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options.ClientOptions})
		} else {
			tokens, err = azidentity.NewDefaultAzureCredential(
				&azidentity.DefaultAzureCredentialOptions{ClientOptions: options.ClientOptions})
		}
		if err != nil {
			return nil, remote.NoCredentials(context.Background(), err, credentialsHint)
		}
		return container.NewClient(address, provider{tokens}, options)
	}
	return nil, fmt.Errorf("--azure-auth-mode=%q: want %s, %s, %s or %s", c.AuthMode, authConnectionString,
		authAccountKey, authWorkloadIdentity, authDefault)
}

// credentialsHint is what to set where there are no credentials.
const credentialsHint = "--azure-connection-string, or --azure-account and --azure-account-key, or a shared access " +
	"signature in --azure-account-url, or give the pod a workload identity"

// provider says what to set if there are no tokens.
type provider struct{ azcore.TokenCredential }

func (p provider) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := p.TokenCredential.GetToken(ctx, options)
	return token, remote.NoCredentials(ctx, err, credentialsHint)
}

// containerURL returns the container's address. signed says that it has a shared access signature, so no other
// credentials are needed.
func (c *Config) containerURL() (address string, signed bool, err error) {
	account := c.AccountURL
	if account == "" {
		if c.Account == "" {
			return "", false, errors.New("no account: set --azure-account-url, --azure-account or " +
				"--azure-connection-string")
		}
		account = "https://" + c.Account + ".blob.core.windows.net"
	}
	u, err := url.Parse(account)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", false, errors.New("--azure-account-url: want a URL such as https://account.blob.core.windows.net")
	}
	// Azure's hosts name the account, also in its DNS zones (account.z01.blob.storage.azure.net). Elsewhere a path of
	// one element is the account's, which may be called as the container.
	host := strings.ToLower(u.Host)
	ofAzure := strings.Contains(host, ".blob.core.") || strings.Contains(host, ".blob.storage.azure.net")
	if path.Base(u.Path) == c.Container && (ofAzure || path.Dir(path.Clean(u.Path)) != "/") {
		return "", false, errors.New("--azure-account-url: the URL must not contain the container")
	}
	return u.JoinPath(c.Container).String(), u.Query().Has("sig"), nil
}

// clientOptions bound how long a request takes and how often it is sent again.
func (c *Config) clientOptions() azcore.ClientOptions {
	return azcore.ClientOptions{
		Transport: &http.Client{Transport: remote.Transport(c.Stall)},
		Retry: policy.RetryOptions{
			MaxRetries:    remote.MaxAttempts - 1,
			RetryDelay:    remote.MinDelay,
			MaxRetryDelay: remote.MaxDelay,
		},
		PerRetryPolicies: []policy.Policy{attemptPolicy{}},
	}
}

// attemptPolicy counts the requests of an operation whose context carries a counter.
type attemptPolicy struct{}

type attemptsKey struct{}

func (attemptPolicy) Do(request *policy.Request) (*http.Response, error) {
	if n, ok := request.Raw().Context().Value(attemptsKey{}).(*int); ok {
		*n++
	}
	return request.Next()
}
