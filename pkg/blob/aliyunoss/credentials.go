package aliyunoss

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

// Role is what a Kubernetes service account may assume: RAM roles for service accounts (RRSA).
type Role struct {
	ARN, Provider, TokenFile string
	// Endpoint is the URL of the security token service.
	Endpoint string
}

// credentials returns a provider of the configured keys, or else of the keys of the pod's role.
func (c *Config) credentials(client *http.Client) (oss.CredentialsProvider, error) {
	switch {
	case (c.AccessKeyID == "") != (c.AccessKeySecret == ""):
		return nil, errors.New("set both --oss-access-key-id and --oss-access-key-secret, or neither")
	case c.AccessKeyID != "":
		return keys{id: c.AccessKeyID, secret: c.AccessKeySecret, token: c.SecurityToken}, nil
	case c.Role.ARN != "" && c.Role.Provider != "" && c.Role.TokenFile != "":
		return &assumed{role: c.Role, client: client}, nil
	case c.Role.ARN != "" || c.Role.Provider != "" || c.Role.TokenFile != "":
		return nil, errors.New("set all of --oss-role-arn, --oss-oidc-provider-arn and --oss-oidc-token-file, or none")
	}
	return nil, errors.New("no credentials: set --oss-access-key-id and --oss-access-key-secret, or enable RRSA for " +
		"the pod's service account")
}

// keys are credentials, and provide themselves.
type keys struct{ id, secret, token string }

func (k keys) GetAccessKeyID() string          { return k.id }
func (k keys) GetAccessKeySecret() string      { return k.secret }
func (k keys) GetSecurityToken() string        { return k.token }
func (k keys) GetCredentials() oss.Credentials { return k }

const (
	// renewBefore is how long before their end the keys of a role are renewed.
	renewBefore = 5 * time.Minute
	// renewPause is how long after a failure they are renewed again: all requests wait for an attempt, which takes as
	// long as a connection that cannot be made.
	renewPause = 30 * time.Second
	// sessionSeconds is how long they are asked to be valid.
	sessionSeconds = "3600"
)

// assumed provides the keys of a role, renewed as they expire.
type assumed struct {
	role   Role
	client *http.Client

	mu      sync.Mutex
	current keys
	expires time.Time
	failed  time.Time // when the keys could not be renewed
	err     error     // why not
}

// GetCredentials implements oss.CredentialsProvider; the SDK prefers GetCredentialsE.
func (a *assumed) GetCredentials() oss.Credentials {
	credentials, err := a.GetCredentialsE()
	if err != nil {
		return keys{}
	}
	return credentials
}

// GetCredentialsE implements oss.CredentialsProviderE: it returns the role's keys, which it renews some time before
// they expire. Where that fails, the present keys are used as long as they are valid, and it is tried again after
// renewPause.
func (a *assumed) GetCredentialsE() (oss.Credentials, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Until(a.expires) > renewBefore {
		return a.current, nil
	}
	if time.Since(a.failed) >= renewPause {
		fresh, expires, err := a.assumeRole()
		if err == nil {
			a.current, a.expires = fresh, expires
			return a.current, nil
		}
		a.failed, a.err = time.Now(), err
	}
	if time.Now().After(a.expires) {
		return nil, remote.NoCredentials(context.Background(), fmt.Errorf("assume role %s: %w", a.role.ARN, a.err),
			"a correct --oss-role-arn and the trust of that role, or --oss-access-key-id and --oss-access-key-secret")
	}
	return a.current, nil
}

// assumeRole exchanges the service account's token for keys, by AssumeRoleWithOIDC of the security token service, and
// returns when they expire.
func (a *assumed) assumeRole() (keys, time.Time, error) {
	token, err := os.ReadFile(a.role.TokenFile)
	if err != nil {
		return keys{}, time.Time{}, err
	}
	response, err := a.client.PostForm(a.role.Endpoint, url.Values{
		"Action": {"AssumeRoleWithOIDC"}, "Version": {"2015-04-01"}, "Format": {"JSON"},
		"RoleArn": {a.role.ARN}, "OIDCProviderArn": {a.role.Provider}, "OIDCToken": {strings.TrimSpace(string(token))},
		"RoleSessionName": {"ray-historyserver"}, "DurationSeconds": {sessionSeconds},
	})
	if err != nil {
		return keys{}, time.Time{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return keys{}, time.Time{}, err
	}
	var answer struct {
		Code, Message string // of an error
		Credentials   struct {
			AccessKeyID     string `json:"AccessKeyId"`
			AccessKeySecret string
			SecurityToken   string
			Expiration      time.Time
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return keys{}, time.Time{}, fmt.Errorf("%s: %w", response.Status, err)
	}
	if response.StatusCode != http.StatusOK || answer.Credentials.AccessKeyID == "" {
		return keys{}, time.Time{}, errors.New(strings.TrimRight(fmt.Sprintf("%s: %s: %s", response.Status, answer.Code,
			answer.Message), ": "))
	}
	c := answer.Credentials
	return keys{c.AccessKeyID, c.AccessKeySecret, c.SecurityToken}, c.Expiration, nil
}
