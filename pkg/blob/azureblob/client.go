package azureblob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// The ways to prove who asks.
const (
	authAuto             = ""
	authConnectionString = "connection_string"
	authAccountKey       = "account_key"
	authWorkloadIdentity = "workload_identity"
	authDefault          = "default"
)

func (c *Config) client() (*container.Client, error) {
	if c.Container == "" {
		return nil, errors.New("no container: set --azure-container or AZURE_STORAGE_CONTAINER")
	}
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
		if err != nil {
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
		tokens, err := newTokens(mode, options.ClientOptions)
		if err != nil {
			return nil, remote.NoCredentials(err, credentialsHint)
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
	return token, remote.NoCredentials(err, credentialsHint)
}

func newTokens(mode string, options azcore.ClientOptions) (azcore.TokenCredential, error) {
	if mode == authWorkloadIdentity {
		return azidentity.NewWorkloadIdentityCredential(
			&azidentity.WorkloadIdentityCredentialOptions{ClientOptions: options})
	}
	return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options})
}

// containerURL is the container's address, and whether it carries a shared access signature.
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
	return u.JoinPath(c.Container).String(), u.Query().Has("sig"), nil
}

func (c *Config) clientOptions() azcore.ClientOptions {
	stall := cmp.Or(c.Stall, remote.DefaultStall)
	return azcore.ClientOptions{
		Transport: &http.Client{Transport: remote.Transport(stall)},
		Retry: policy.RetryOptions{
			MaxRetries:    remote.MaxAttempts - 1,
			RetryDelay:    remote.MinDelay,
			MaxRetryDelay: remote.MaxDelay,
		},
		PerRetryPolicies: []policy.Policy{attemptCounter{}},
	}
}

// attemptCounter counts the requests of an operation whose context carries a counter.
type attemptCounter struct{}

type attemptsKey struct{}

func (attemptCounter) Do(request *policy.Request) (*http.Response, error) {
	if n, ok := request.Raw().Context().Value(attemptsKey{}).(*int); ok {
		*n++
	}
	return request.Next()
}
