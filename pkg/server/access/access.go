// Package access decides who may see which namespaces. It identifies the caller of each request once. What is stored or
// running in a namespace is shown only to callers who may get its RayClusters in Kubernetes, or whom a file of
// namespaces names.
//
// Every answer that is about a namespace must ask Allowed or Filter with the request's context; a context that no
// Handler made is refused.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// AddToScheme makes the types known to the client that New wants.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(authenticationv1.AddToScheme(s), authorizationv1.AddToScheme(s))
}

// Access decides who may see what. Safe for concurrent use.
type Access struct {
	config  Config
	proxies []netip.Prefix
	client  client.Client
	turns   *turns.Slots // of questions about rights
	log     logrus.FieldLogger
	users   answers[Identity] // by the sum of a token
	rights  answers[bool]     // by the sum of an identity's key and a namespace; "" stands for all namespaces

	validTokens *cache.Cache[string, struct{}] // sums of tokens that were valid
	otherTokens *rate.Limiter                  // for reviews of all other tokens
	flooded     logthrottle.Throttle           // about too many reviews of those
	misread     logthrottle.Throttle           // about lines of the file of tokens

	otherClusters map[string]*otherCluster // other Kubernetes clusters, by name
	unlisted      logthrottle.Throttle     // about those that are not among them

	provider   *provider      // nil without an OpenID provider
	namespaces *namespaceFile // nil where Kubernetes says who may see what
}

// maxAnswers bounds the answers that are kept: some hundred bytes each.
const maxAnswers = 100_000

// New checks the configuration, and makes the access control that it describes. It sends no requests. The client may be
// nil unless Config.AsksKubernetes.
func New(c Config, cl client.Client, log logrus.FieldLogger) (*Access, error) {
	c.Auth = cmp.Or(c.Auth, Off)
	if err := c.check(cl != nil); err != nil {
		return nil, err
	}
	a := &Access{
		config: c, client: cl, log: log, otherClusters: map[string]*otherCluster{},
		turns: turns.New(maxReviews, turns.NoLimit), // a review takes no longer than askTimeout anyway
		users: newAnswers[Identity](c.CacheFor, maxAnswers), rights: newAnswers[bool](c.CacheFor, maxAnswers),
		validTokens: cache.New[string, struct{}](maxAnswers, knownFor, nil),
		otherTokens: rate.NewLimiter(unknownTokensPerSecond, unknownTokensAtOnce),
	}
	a.flooded.Log, a.misread.Log, a.unlisted.Log = log, log, log
	for _, p := range c.TrustedProxies {
		prefix, err := netip.ParsePrefix(p)
		if err != nil {
			return nil, fmt.Errorf("--auth-trusted-proxies=%s: want a network such as 10.1.0.0/16", p)
		}
		a.proxies = append(a.proxies, prefix)
	}
	if err := errors.Join(a.openProvider(), a.addOtherClusters(c)); err != nil {
		return nil, err
	}
	return a, nil
}

// openProvider makes the OpenID provider, and reads the file of namespaces if there is one, for --auth=oidc. With other
// modes it refuses the settings that only --auth=oidc has.
func (a *Access) openProvider() (err error) {
	c := a.config
	if c.Auth != OIDC {
		if c.OIDC.Issuer != "" || c.OIDC.NamespacesFile != "" {
			return errors.New("--auth=oidc is needed by --oidc-issuer-url and --oidc-namespaces-file")
		}
		return nil
	}
	if c.OIDC.NamespacesFile != "" {
		if a.namespaces, err = openNamespaceFile(c.OIDC.NamespacesFile, c.CacheFor); err != nil {
			return err
		}
	}
	a.provider, err = newProvider(c.OIDC, a.log)
	return err
}

// Start looks the OpenID provider up, if there is one, until it answers. Nobody can sign in before.
func (a *Access) Start() {
	if a.provider != nil {
		a.provider.work.Start(a.provider.connect)
	}
}

// Close ends what Start began.
func (a *Access) Close() {
	if a.provider != nil {
		a.provider.work.Close()
	}
}

// Enabled reports whether there is anything that not everybody may see.
func (a *Access) Enabled() bool { return a.config.Auth != Off }

// Identity is a caller.
type Identity struct {
	User   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// SignedIn says that it is a browser that keeps a sign-in, which can be ended.
	SignedIn bool
	// Everything is set for callers who may see all namespaces without a permission of Kubernetes.
	Everything bool
}

type identityKey struct{}

// IdentityOf returns the caller of the request that a context belongs to.
func IdentityOf(ctx context.Context) (Identity, bool) {
	id, ok := ctx.Value(identityKey{}).(Identity)
	return id, ok
}

// CallerOf is a name for who sent a request, made of the identity or else of the address. It is a key, not for people:
// callers take turns at what all of them share.
func CallerOf(r *http.Request) string {
	if id, ok := IdentityOf(r.Context()); ok && id.User+id.UID != "" {
		return "user " + id.User + " " + id.UID
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host
}

// Errors that say why a request is refused.
var (
	// ErrUnauthenticated: the caller sent no credentials, or wrong ones.
	ErrUnauthenticated = errors.New("not signed in")
	// ErrForbidden: the caller may not see a namespace.
	ErrForbidden = errors.New("not allowed")
)

// authenticate finds out who sent a request: the user that a trusted proxy names, else the owner of the token in the
// headers, else of the cookie.
func (a *Access) authenticate(r *http.Request) (Identity, error) {
	if a.config.Auth == Off {
		return Identity{Everything: true}, nil
	}
	if id, ok, err := a.proxyIdentity(r); ok || err != nil {
		return id, err
	}
	token, err := headerToken(r)
	if err != nil {
		return Identity{}, err
	}
	if token != "" {
		return a.identify(r.Context(), token)
	}
	var id Identity
	if a.provider != nil {
		id, err = a.provider.sessionUser(r)
	} else if token, err = cookieToken(r); err == nil {
		id, err = a.identify(r.Context(), token)
	}
	id.SignedIn = err == nil // by a cookie, from which people can sign out
	return id, err
}

// identify finds out whose token it is: one of --auth-token, an ID token of the OpenID provider, or a token that
// Kubernetes knows.
func (a *Access) identify(ctx context.Context, token string) (Identity, error) {
	if a.config.Auth == Token {
		return a.identifyShared(token)
	}
	// With an OpenID provider, service accounts still send tokens of the API server, which name another issuer.
	if a.provider != nil && (a.client == nil || issuerOf(token) == a.config.OIDC.Issuer) {
		return a.provider.ownerOf(ctx, token)
	}
	sum := sha256.Sum256([]byte(token))
	id, err := a.users.get(ctx, string(sum[:]), func(ctx context.Context) (Identity, error) {
		return a.reviewUnlessFlooded(ctx, token, string(sum[:]))
	})
	if err == nil && id.User == "" {
		return Identity{}, fmt.Errorf("%w: Kubernetes does not know the token, or it has expired", ErrUnauthenticated)
	}
	return id, err
}

// identifyShared authenticates by one of the configured tokens, whose holders may see everything.
func (a *Access) identifyShared(token string) (Identity, error) {
	tokens, err := a.config.tokens()
	if errors.Is(err, errNoSecret) { // the file has changed since the start; the tokens of its other lines are valid
		a.misread.Warn(time.Now(), "a line is left out, which is no token", err)
	} else if err != nil {
		return Identity{}, err
	}
	given := sha256.Sum256([]byte(token))
	found := 0
	for _, t := range tokens { // all of them are compared, so that the time taken says nothing about them
		want := sha256.Sum256([]byte(t))
		found |= subtle.ConstantTimeCompare(given[:], want[:])
	}
	if found == 0 {
		return Identity{}, fmt.Errorf("%w: wrong token", ErrUnauthenticated)
	}
	return Identity{User: "token", Everything: true}, nil
}

// proxyIdentity returns the user that a trusted proxy names in a request's headers. ok is false if the request is not
// from such a proxy, or if that names nobody.
func (a *Access) proxyIdentity(r *http.Request) (id Identity, ok bool, err error) {
	if a.config.IdentityHeader == "" || !a.fromProxy(r) {
		return Identity{}, false, nil
	}
	for _, name := range []string{a.config.IdentityHeader, a.config.GroupsHeader} {
		if len(r.Header.Values(name)) > 1 { // the client may have sent one of them, and nothing says which
			return Identity{}, false, fmt.Errorf(
				"%w: the request has more than one header %s: configure the proxy to replace it, not to add to it",
				ErrUnauthenticated, name)
		}
	}
	user := r.Header.Get(a.config.IdentityHeader)
	if user == "" {
		return Identity{}, false, nil
	}
	id.User = user
	for g := range strings.SplitSeq(r.Header.Get(a.config.GroupsHeader), ",") { // no header has the name ""
		if g = strings.TrimSpace(g); g != "" {
			id.Groups = append(id.Groups, g)
		}
	}
	if ofKubernetes(user) || slices.ContainsFunc(id.Groups, ofKubernetes) {
		return Identity{}, false, fmt.Errorf("%w: the proxy names a user or group of Kubernetes' own (system:…)",
			ErrUnauthenticated)
	}
	return id.withAuthenticatedGroup(), true, nil
}

// ofKubernetes reports whether a name of a user or group is one of those that Kubernetes keeps for itself.
func ofKubernetes(name string) bool { return strings.HasPrefix(name, "system:") }

// fromProxy reports whether a request comes from a proxy that is trusted.
func (a *Access) fromProxy(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(a.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// headerToken reads the token out of the headers that Ray's clients send; "" if the request has none of them.
func headerToken(r *http.Request) (string, error) {
	for _, header := range []string{"Authorization", "X-Ray-Authorization"} {
		value := r.Header.Get(header)
		if value == "" {
			continue
		}
		scheme, token, _ := strings.Cut(value, " ")
		if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
			return "", fmt.Errorf("%w: want `%s: Bearer {token}`", ErrUnauthenticated, header)
		}
		return token, nil
	}
	return "", nil
}

// errNoCredentials says which credentials the server accepts, not what to do: commands add to it how to sign in with
// them.
var errNoCredentials = fmt.Errorf("%w: neither `Authorization: Bearer {token}` nor the cookie of /login was sent",
	ErrUnauthenticated)

// cookieToken returns the token that a browser keeps in a cookie since it signed in with it. It reads the cookie that
// only HTTPS sets first; by HTTPS it does not read the other one.
func cookieToken(r *http.Request) (string, error) {
	for _, secure := range []bool{true, false} {
		if !secure && browser.ByHTTPS(r) {
			break // another host of the same domain may have set it
		}
		if c, err := r.Cookie(hostCookie(tokenCookie, secure)); err == nil && c.Value != "" {
			return c.Value, nil
		}
	}
	return "", errNoCredentials
}
