package access

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
)

// OIDCConfig is how people sign in with an OpenID provider. The names, claims and prefixes mean what kube-apiserver's
// flags of the same names mean, so that roles bound for `kubectl` hold here.
type OIDCConfig struct {
	Issuer           string
	ClientID         string
	ProgramClientID  string // the client that `historyserver login` signs in with; empty: ClientID
	ClientSecret     string
	ClientSecretFile string
	RedirectURL      string // where browsers reach this server's /oidc/callback
	Scopes           []string
	Audiences        []string // other clients whose ID tokens are taken from programs
	UsernameClaim    string
	UsernamePrefix   string
	GroupsClaim      string
	GroupsPrefix     string
	CAFile           string
	NamespacesFile   string // who sees which namespaces; empty: Kubernetes is asked
	CookieKey        string
	CookieKeyFile    string
	SessionFor       time.Duration
}

// addFlags binds the configuration to flags.
func (c *OIDCConfig) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Issuer, "oidc-issuer-url", "", "URL of the OpenID provider, as its tokens name it (--auth=oidc)")
	fs.StringVar(&c.ClientID, "oidc-client-id", "", "client ID of this server at the provider")
	fs.StringVar(&c.ProgramClientID, "oidc-program-client-id", "",
		"client ID at the provider with which historyserver login signs users in on their machines: a public client, "+
			"without a secret; empty: --oidc-client-id")
	fs.StringVar(&c.ClientSecret, "oidc-client-secret", "",
		"the client's secret, if it has one; prefer the environment variable or --oidc-client-secret-file")
	fs.StringVar(&c.ClientSecretFile, "oidc-client-secret-file", "",
		"file with the client's secret; changes are picked up without a restart")
	fs.StringVar(&c.RedirectURL, "oidc-redirect-url", "",
		"URL of this server's /oidc/callback for browsers, as registered at the provider, such as "+
			"https://history.example.com/oidc/callback")
	fs.StringSliceVar(&c.Scopes, "oidc-scopes", []string{oidc.ScopeOpenID, "profile", "email"},
		"scopes to request from the provider; for groups, many providers need the scope groups too")
	fs.StringSliceVar(&c.Audiences, "oidc-audiences", nil,
		"IDs of other clients at the provider whose ID tokens are accepted from programs, such as the one of kubectl")
	fs.StringVar(&c.UsernameClaim, "oidc-username-claim", "email", "claim of ID tokens that holds the user's name")
	fs.StringVar(&c.UsernamePrefix, "oidc-username-prefix", "",
		"prefix of user names; empty: the issuer's URL and #, or no prefix if the claim is email; -: no prefix")
	fs.StringVar(&c.GroupsClaim, "oidc-groups-claim", "groups", "claim of ID tokens that holds the user's groups")
	fs.StringVar(&c.GroupsPrefix, "oidc-groups-prefix", "", "prefix of group names")
	fs.StringVar(&c.CAFile, "oidc-ca-file", "", "CA certificates for the provider, PEM; empty: the system's")
	fs.StringVar(&c.NamespacesFile, "oidc-namespaces-file", "",
		"YAML file with the namespaces that users and groups may see; empty: those in which Kubernetes allows them "+
			"to get RayClusters. Changes are picked up without a restart")
	fs.StringVar(&c.CookieKey, "oidc-cookie-key", "",
		"secret of at least 32 characters that encrypts cookies, the same for all replicas; prefer the environment "+
			"variable or --oidc-cookie-key-file")
	fs.StringVar(&c.CookieKeyFile, "oidc-cookie-key-file", "",
		"file with such secrets, one per line: the first encrypts, all decrypt; empty: the server creates one at its "+
			"start, and users must sign in again after a restart")
	fs.DurationVar(&c.SessionFor, "oidc-session-lifetime", 8*time.Hour,
		"how long a browser stays signed in; changes of groups take effect at the next sign-in")
}

// callbackPath is where the provider sends browsers back to, and startPath where they leave for it.
const (
	callbackPath = "/oidc/callback"
	startPath    = "/oidc/start"
)

// Check refuses a configuration with which nobody could sign in.
func (c *OIDCConfig) Check() error {
	for _, required := range []struct{ flag, value string }{
		{"--oidc-issuer-url", c.Issuer}, {"--oidc-client-id", c.ClientID},
		{"--oidc-redirect-url", c.RedirectURL}, {"--oidc-username-claim", c.UsernameClaim},
	} {
		if required.value == "" {
			return errors.New("--auth=oidc needs " + required.flag)
		}
	}
	for _, u := range []struct{ flag, value string }{{"--oidc-issuer-url", c.Issuer},
		{"--oidc-redirect-url", c.RedirectURL}} {
		parsed, err := url.Parse(u.value)
		if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "" ||
			parsed.RawQuery != "" || parsed.Fragment != "" {
			return fmt.Errorf("%s=%s: want a URL such as https://login.example.com", u.flag, u.value)
		}
	}
	if !strings.HasSuffix(c.RedirectURL, callbackPath) {
		return fmt.Errorf("--oidc-redirect-url=%s: want one that ends with %s", c.RedirectURL, callbackPath)
	}
	if !slices.Contains(c.Scopes, oidc.ScopeOpenID) {
		return errors.New("--oidc-scopes: the list, separated by commas, must contain openid: without it a provider " +
			"sends no ID token")
	}
	if c.SessionFor < time.Minute {
		return fmt.Errorf("--oidc-session-lifetime=%s: want at least 1m", c.SessionFor)
	}
	_, err := c.clientSecret()
	return err
}

// clientSecret returns the client's secret; "" for a client that has none. It reads the file each time, because the
// file may change.
func (c *OIDCConfig) clientSecret() (string, error) {
	if c.ClientSecretFile == "" {
		return c.ClientSecret, nil
	}
	if c.ClientSecret != "" {
		return "", errors.New("--oidc-client-secret contradicts --oidc-client-secret-file")
	}
	data, err := settings.ReadFile(c.ClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("--oidc-client-secret-file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// cookieKeys returns the secrets that encrypt cookies; none if they are not configured, and the server is to make one.
func (c *OIDCConfig) cookieKeys() ([]string, error) {
	keys, err := readSecrets(c.CookieKey, "--oidc-cookie-key-file", c.CookieKeyFile)
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0 && c.CookieKeyFile != "":
		return nil, fmt.Errorf("--oidc-cookie-key-file=%s is empty: write 32 random bytes into it, for example "+
			"with openssl rand -hex 32", c.CookieKeyFile)
	}
	const minLength = 32
	if slices.ContainsFunc(keys, func(key string) bool { return len(key) < minLength }) {
		return nil, errors.New("--oidc-cookie-key and the lines of --oidc-cookie-key-file need at least 32 " +
			"characters each, for example from openssl rand -hex 32")
	}
	return keys, nil
}

// authorities are the CA certificates that the provider's certificate is checked against; nil for the system's.
func (c *OIDCConfig) authorities() (*x509.CertPool, error) {
	if c.CAFile == "" {
		return nil, nil
	}
	data, err := settings.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--oidc-ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("--oidc-ca-file=%s holds no certificate in PEM", c.CAFile)
	}
	return pool, nil
}

// usernamePrefix is what is put before the user's name of an ID token, by kube-apiserver's rule: unless it is
// configured, the issuer, because another issuer may have a user of the same name; nothing before e-mail addresses,
// which are unique.
func (c *OIDCConfig) usernamePrefix() string {
	switch {
	case c.UsernamePrefix == "-":
		return ""
	case c.UsernamePrefix == "" && c.UsernameClaim != "email":
		return c.Issuer + "#"
	}
	return c.UsernamePrefix
}

// AboutPath is where programs learn how their users sign in, before they have.
const AboutPath = "/api/history/about"

// SignIn says to programs how their users sign in.
type SignIn struct {
	Mode Mode `json:"mode"`
	// Issuer is the OpenID provider and ClientID the client that programs sign in with, for --auth=oidc.
	Issuer   string   `json:"issuer,omitempty"`
	ClientID string   `json:"client_id,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
}

// SignIn returns how programs' users sign in.
func (a *Access) SignIn() SignIn {
	s := SignIn{Mode: a.config.Auth}
	if c := &a.config.OIDC; a.provider != nil {
		s.Issuer, s.ClientID, s.Scopes = c.Issuer, c.programClient(), c.Scopes
	}
	return s
}

// programClient is the ID of the client with which programs sign their users in.
func (c *OIDCConfig) programClient() string { return cmp.Or(c.ProgramClientID, c.ClientID) }

// audiences are the IDs of the clients whose ID tokens are accepted from programs.
func (c *OIDCConfig) audiences() []string {
	return slices.Concat([]string{c.ClientID, c.programClient()}, c.Audiences)
}
