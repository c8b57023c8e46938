package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client sends requests to a Ray dashboard.
type Client struct {
	base  string
	token func() (string, error)
	http  *http.Client
}

// requestTimeout bounds one request. A slower dashboard is busy and is asked again later.
const requestTimeout = 20 * time.Second

// statusError is an answer with a status other than 200.
type statusError struct {
	URL    string
	Status int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: status %d", e.URL, e.Status) }

// NewClient makes a client for the dashboard at address: host:port or a URL. token gives the bearer token of Ray's
// token authentication, "" for none.
func NewClient(address string, token func() (string, error)) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("dashboard address %q: want host:port or a URL (--ray-dashboard-address)", address)
	}
	// The dashboard is in the collector's own pod or its head's: an environment's proxy, as for the store, does not
	// know it.
	direct := http.DefaultTransport.(*http.Transport).Clone()
	direct.Proxy = nil
	return &Client{
		base:  strings.TrimRight(u.String(), "/"),
		token: token,
		http: &http.Client{
			Timeout: requestTimeout, Transport: direct,
			// Ray's dashboard does not redirect; following a redirect would send the token elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get requests a path with its query, and returns the body, which the caller closes. Any status except 200 is an error:
// a statusError.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the dashboard: %w", err)
	}
	token, err := c.token()
	if err != nil {
		return nil, fmt.Errorf("ask the dashboard: %w", err)
	}
	if token != "" {
		// Ray accepts both headers; a proxy may use Authorization for itself (ray/_private/authentication).
		request.Header.Set("X-Ray-Authorization", "Bearer "+token)
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the dashboard: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be reused
		_ = answer.Body.Close()
		return nil, fmt.Errorf("ask the dashboard: %w", &statusError{path, answer.StatusCode})
	}
	return answer.Body, nil
}

// maxVersion is longer than any version of Ray.
const maxVersion = 100

// Version asks the dashboard which session it shows, and which version of Ray runs it.
func (c *Client) Version(ctx context.Context) (session, ray string, err error) {
	body, err := c.Get(ctx, "/api/version")
	if err != nil {
		return "", "", err
	}
	defer body.Close()
	var version struct {
		Ray     string `json:"ray_version"`
		Session string `json:"session_name"`
	}
	err = json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&version)
	if err == nil && len(version.Ray) > maxVersion {
		err = fmt.Errorf("it has %d bytes", len(version.Ray))
	}
	if err != nil {
		return "", "", fmt.Errorf("read the dashboard's version: %w", err)
	}
	return version.Session, version.Ray, nil
}

// kubernetesToken is where Ray looks for the token of its service account (ray/rpc/authentication/k8s_constants.h).
const kubernetesToken = "/var/run/secrets/ray.io/serviceaccount/token"

// TokenFiles returns the files in which Ray looks for its token, as
// ray/rpc/authentication/authentication_token_loader.cc does. If a file was set (RAY_AUTH_TOKEN_PATH), it is the only
// one. Otherwise they are the token of the service account, if Kubernetes checks tokens (RAY_ENABLE_K8S_TOKEN_AUTH),
// and ~/.ray/auth_token.
func TokenFiles(set string, kubernetes bool) []string {
	if set != "" {
		return []string{set}
	}
	var files []string
	if kubernetes {
		files = append(files, kubernetesToken)
	}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".ray", "auth_token"))
	}
	return files
}

// Token returns Ray's token if mode (RAY_AUTH_MODE) is "token": value (RAY_AUTH_TOKEN), else the content of the first
// file that is not empty. In other modes it is "". Files are read again for every request, since Kubernetes rotates
// secrets.
func Token(mode, value string, files []string) func() (string, error) {
	return func() (string, error) {
		if !strings.EqualFold(mode, "token") {
			return "", nil
		}
		if value != "" {
			return strings.TrimSpace(value), nil
		}
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
				return strings.TrimSpace(string(data)), nil
			}
		}
		return "", fmt.Errorf("no token in RAY_AUTH_TOKEN, nor in %s: set RAY_AUTH_TOKEN_PATH to the file that has it",
			strings.Join(files, " or "))
	}
}
