package access

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/sirupsen/logrus"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/client/signin"
)

// provider is an OpenID provider: it signs people in, and its ID tokens say who they are. Safe for concurrent use.
type provider struct {
	config OIDCConfig
	http   *http.Client
	keys   *http.Client // reads the keys that tokens are signed with, at a limited rate
	seal   *sealer
	log    logrus.FieldLogger
	found  atomic.Pointer[discovered] // nil until the provider has answered

	work background.Worker
}

// discovered is what the provider says about itself.
type discovered struct {
	endpoint oauth2.Endpoint
	tokens   *oidc.IDTokenVerifier // whoever a token was made for: audiences are checked by verify
}

// providerTimeout bounds a request to the provider.
const providerTimeout = 10 * time.Second

// newProvider makes a provider of a configuration. It requests nothing of it yet.
func newProvider(c OIDCConfig, log logrus.FieldLogger) (*provider, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	authorities, err := c.authorities()
	if err != nil {
		return nil, err
	}
	keys, err := c.cookieKeys()
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		log.Warn("cookies are encrypted with a new random key: other replicas do not know it, and users must sign in " +
			"again after a restart; set --oidc-cookie-key-file")
		keys = []string{randomText()}
	}
	p := &provider{config: c, log: log.WithField("issuer", c.Issuer)}
	if p.seal, err = newSealer(keys); err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
	p.http = signin.ProviderClient(transport, providerTimeout)
	// A token with an unknown key has the provider's keys read again: strangers must not be able to have that done
	// without end.
	p.keys = signin.ProviderClient(&limitedTransport{transport, rate.NewLimiter(rate.Every(time.Second), 5)},
		providerTimeout)
	return p, nil
}

// connect looks the provider up until it has answered, or ctx ends.
func (p *provider) connect(ctx context.Context) {
	wait := backoff.Backoff{Min: time.Second, Max: 15 * time.Second}
	for {
		err := p.discover(ctx)
		if err == nil {
			p.log.WithField("errors", wait.Errors()).Info("the OpenID provider has answered: users can sign in")
			return
		}
		if ctx.Err() != nil {
			return
		}
		if wait.Errors()%20 == 0 { // one of 20 errors, which are five minutes once the pauses have their full length
			p.log.WithError(err).Error("the OpenID provider does not answer correctly: nobody can sign in until it " +
				"does; check --oidc-issuer-url and --oidc-ca-file. The server tries again")
		}
		if backoff.Sleep(ctx, wait.Next()) != nil {
			return
		}
	}
}

// discover reads the provider's endpoints. Its keys are read later, when the first token is checked, so their client
// does not end with ctx.
func (p *provider) discover(ctx context.Context) error {
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.http), p.config.Issuer)
	if err != nil {
		return err
	}
	withKeys := oidc.ClientContext(context.Background(), p.keys)
	p.found.Store(&discovered{found.Endpoint(), found.VerifierContext(withKeys, &oidc.Config{SkipClientIDCheck: true})})
	return nil
}

// errNoProvider says that the OpenID provider has not answered since the server's start.
var errNoProvider = errors.New(
	"the OpenID provider has not answered yet: nobody can sign in; the server's log says why")

// errNoKeys says that the OpenID provider's keys could not be read, because it does not answer or was asked too often.
// The token may be valid.
var errNoKeys = errors.New("the OpenID provider's keys cannot be read: try again in a few seconds")

// ownerOf returns the owner of an ID token that a program sent.
func (p *provider) ownerOf(ctx context.Context, token string) (Identity, error) {
	verified, err := p.verify(ctx, token, p.config.audiences())
	if err != nil {
		return Identity{}, err
	}
	return p.identity(verified)
}

// verify checks an ID token, and that it was made for one of the audiences. The error is errNoProvider if the provider
// has not answered yet, errNoKeys if its keys cannot be read, and otherwise ErrUnauthenticated.
func (p *provider) verify(ctx context.Context, token string, audiences []string) (*oidc.IDToken, error) {
	found := p.found.Load()
	if found == nil {
		return nil, errNoProvider
	}
	verified, err := found.tokens.Verify(ctx, token)
	// The library does not wrap this error. Only the beginning is compared: the rest of an error may quote the token,
	// and so what its sender chose. The token may be valid, so this is not ErrUnauthenticated.
	if err != nil && strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys ") {
		return nil, fmt.Errorf("%w: %w", errNoKeys, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the ID token is not valid: %w", ErrUnauthenticated, err)
	}
	if !slices.ContainsFunc(verified.Audience, func(a string) bool { return slices.Contains(audiences, a) }) {
		return nil, fmt.Errorf("%w: the ID token was made for %q, which is neither --oidc-client-id nor one of "+
			"--oidc-audiences", ErrUnauthenticated, verified.Audience)
	}
	return verified, nil
}

// identity reads who somebody is out of an ID token, by kube-apiserver's rules: the user's name and groups are in the
// configured claims and get the configured prefixes. It refuses a token that does not say it for certain: without a
// name, with an address that nobody verified, without groups that were too many, or with names of Kubernetes' own.
func (p *provider) identity(token *oidc.IDToken) (Identity, error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return Identity{}, fmt.Errorf("%w: the ID token's claims: %w", ErrUnauthenticated, err)
	}
	var name string
	if json.Unmarshal(claims[p.config.UsernameClaim], &name) != nil || name == "" {
		return Identity{}, fmt.Errorf(
			"%w: the ID token has no claim %q: request it from the provider with --oidc-scopes, or choose another "+
				"claim with --oidc-username-claim", ErrUnauthenticated, p.config.UsernameClaim)
	}
	if verified, ok := claims["email_verified"]; ok && p.config.UsernameClaim == "email" && !isTrue(verified) {
		return Identity{}, fmt.Errorf("%w: the provider has not verified the e-mail address %s", ErrUnauthenticated,
			name)
	}
	if p.config.groupsLeftOut(claims) {
		return Identity{}, fmt.Errorf(
			"%w: the provider left the groups out of the ID token because there are too many: let it send only those "+
				"that are assigned to this application", ErrUnauthenticated)
	}
	groups, err := stringsOf(claims[p.config.GroupsClaim])
	if err != nil {
		return Identity{}, fmt.Errorf("%w: the ID token's claim %q: want names of groups", ErrUnauthenticated,
			p.config.GroupsClaim)
	}
	id := Identity{User: p.config.usernamePrefix() + name}
	for _, group := range groups {
		id.Groups = append(id.Groups, p.config.GroupsPrefix+group)
	}
	if ofKubernetes(id.User) || slices.ContainsFunc(id.Groups, ofKubernetes) {
		return Identity{}, fmt.Errorf(
			"%w: the provider names a user or group of Kubernetes' own (system:…): set --oidc-username-prefix or "+
				"--oidc-groups-prefix", ErrUnauthenticated)
	}
	return id.withAuthenticatedGroup(), nil
}

// groupsLeftOut reports whether an ID token lacks the user's groups because they are too many, as those of Microsoft's
// Entra ID do. Such a token says instead where the groups can be read (_claim_names), which the server has no right to,
// or only that there are some (hasgroups). Without this check the user would count as one who is in no group.
func (c *OIDCConfig) groupsLeftOut(claims map[string]json.RawMessage) bool {
	var elsewhere map[string]json.RawMessage
	_ = json.Unmarshal(claims["_claim_names"], &elsewhere) // none if the claim is missing
	return claims[c.GroupsClaim] == nil &&
		(elsewhere[c.GroupsClaim] != nil || c.GroupsClaim == "groups" && isTrue(claims["hasgroups"]))
}

// withAuthenticatedGroup returns the identity with Kubernetes' group of everybody who is authenticated at the end of
// its groups.
func (id Identity) withAuthenticatedGroup() Identity {
	id.Groups = append(id.Groups[:len(id.Groups):len(id.Groups)], "system:authenticated")
	return id
}

// isTrue says whether a claim is true or "true": providers write both.
func isTrue(value json.RawMessage) bool {
	return string(value) == "true" || string(value) == `"true"`
}

// stringsOf returns the strings of a claim that is a list of them or one string; none if the claim is missing.
func stringsOf(claim json.RawMessage) ([]string, error) {
	var list []string
	if claim == nil || json.Unmarshal(claim, &list) == nil {
		return list, nil
	}
	var one string
	err := json.Unmarshal(claim, &one)
	return []string{one}, err
}

// issuerOf is the issuer that a token names, which nobody has checked; "" if the token is no JWT.
func issuerOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	_ = json.Unmarshal(payload, &claims)
	return claims.Issuer
}

// limitedTransport limits the rate of requests; what goes beyond it is an error.
type limitedTransport struct {
	next  http.RoundTripper
	limit *rate.Limiter
}

// RoundTrip implements http.RoundTripper.
func (t *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.limit.Allow() {
		return nil, errors.New("too many requests to the OpenID provider; try again in a second")
	}
	return t.next.RoundTrip(r)
}
