package signin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	// providerTimeout bounds a request to the OpenID provider.
	providerTimeout = 30 * time.Second
	// signInTime is how long a user has to sign in with the browser.
	signInTime = 10 * time.Minute
)

// OIDC signs a user in with an OpenID provider.
type OIDC struct {
	Server, Issuer, ClientID string
	Scopes                   []string
	// Device has the user type a code into a browser on any device (RFC 8628). Otherwise a browser on this machine is
	// opened.
	Device bool
	// Port is the port of this machine to which the browser is redirected; 0: any free one.
	Port int
	// Open opens a browser on this machine; nil: there is none, and Device is implied.
	Open func(address string) error
	// HTTP sends the requests to the provider.
	HTTP *http.Client
	// Out is where the user is told what to do.
	Out io.Writer
}

// SignIn signs the user in, and returns the credentials to be stored.
func (o OIDC) SignIn(ctx context.Context) (*Credentials, error) {
	if err := checkIssuer(o.Issuer); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(oidc.ClientContext(ctx, o.HTTP), signInTime,
		errors.New("nobody signed in within 10 minutes: try again"))
	defer cancel()
	provider, err := oidc.NewProvider(ctx, o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask the OpenID provider %s: %w", o.Issuer, err)
	}
	config := publicClient(provider, o.ClientID)
	config.Scopes = o.scopes(provider)
	credentials := &Credentials{Server: o.Server, Issuer: o.Issuer, ClientID: o.ClientID}
	var token *oauth2.Token
	nonce := "" // a sign-in by a device's code has none
	if o.Device || o.Open == nil {
		token, err = o.byDevice(ctx, config)
	} else {
		nonce = rand.Text()
		token, err = o.byBrowser(ctx, config, nonce)
	}
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == "access_denied":
		return nil, errors.New("the sign-in was refused in the browser, or by the OpenID provider")
	case errors.As(err, &refused) && refused.ErrorCode == "expired_token":
		return nil, errExpired
	case errors.As(err, &refused):
		return nil, fmt.Errorf("the OpenID provider refused the sign-in (%s): %s must be a public client there, "+
			"which may sign in like this", providerSays(refused), o.ClientID)
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	if err := credentials.readToken(ctx, provider, token, nonce); err != nil {
		return nil, err
	}
	return credentials, nil
}

// publicClient is a client without a secret. It sends its ID in the body of requests: to try out whether the provider
// wants a header instead would use up a code.
func publicClient(provider *oidc.Provider, id string) *oauth2.Config {
	config := &oauth2.Config{ClientID: id, Endpoint: provider.Endpoint()}
	config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	return config
}

// checkIssuer refuses a provider that is reached without TLS, unless it is on this machine, because the user types a
// password there.
func checkIssuer(issuer string) error {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return fmt.Errorf("the server names the OpenID provider %.200q: want an https address", issuer)
	}
	return nil
}

// isLoopback says whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// scopes are the scopes to request: those that the server names and, if the provider has it, offline_access, for which
// many providers send refresh tokens.
func (o OIDC) scopes(provider *oidc.Provider) []string {
	var claims struct {
		Scopes []string `json:"scopes_supported"`
	}
	_ = provider.Claims(&claims) // a provider that does not list its scopes counts as one without offline_access
	scopes := slices.Clone(o.Scopes)
	if slices.Contains(claims.Scopes, oidc.ScopeOfflineAccess) && !slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		scopes = append(scopes, oidc.ScopeOfflineAccess)
	}
	return scopes
}

var errExpired = errors.New("nobody has entered the code in time: sign in again")

// byDevice signs in with a code that the user types into a browser on any device (RFC 8628).
func (o OIDC) byDevice(ctx context.Context, config *oauth2.Config) (*oauth2.Token, error) {
	if config.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the OpenID provider gives no codes for other devices: sign in on a machine with a " +
			"browser, without --device; or set --token-file")
	}
	device, err := config.DeviceAuth(ctx)
	if err != nil {
		return nil, err
	}
	// The library asks every Interval seconds; 0 is its default. With a negative one, or a huge one that overflows, it
	// would panic.
	const longestInterval = 300
	device.Interval = min(max(device.Interval, 0), longestInterval)
	fmt.Fprintf(o.Out, "Open %s in a browser and enter the code %s\n", forTerminal(device.VerificationURI),
		forTerminal(device.UserCode))
	token, err := config.DeviceAccessToken(ctx, device)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // the deadline was that of the code, not ctx's
		err = errExpired
	}
	return token, err
}

// byBrowser signs in with a browser on this machine (RFC 8252): the provider redirects it to a server of this process,
// with a code that is valid only together with the verifier of PKCE.
func (o OIDC) byBrowser(ctx context.Context, config *oauth2.Config, nonce string) (*oauth2.Token, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, fmt.Errorf("wait for the browser: %w; choose another --callback-port", err)
	}
	config.RedirectURL = "http://" + listener.Addr().String() + "/callback"
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	callback := make(chan url.Values, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/callback" || r.URL.Query().Get("state") != state {
				http.Error(w, "No sign-in that was begun here belongs to this address.", http.StatusNotFound)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			_, _ = io.WriteString(w, "Go back to the terminal; you can close this page.\n")
			select {
			case callback <- r.URL.Query():
			default: // the browser has come back before
			}
		})}
	go func() { _ = server.Serve(listener) }()
	defer server.Shutdown(context.WithoutCancel(ctx)) //nolint:errcheck // the page is sent; nothing else matters
	address := config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	fmt.Fprintf(o.Out, "Sign in with the browser that opens, or open this address in one on this machine:\n%s\n",
		forTerminal(address))
	_ = o.Open(address) // the address is also printed
	var answer url.Values
	select {
	case answer = <-callback:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if answer.Get("error") != "" {
		return nil, fmt.Errorf("the OpenID provider refused the sign-in: %.100q %.500q", answer.Get("error"),
			answer.Get("error_description"))
	}
	return config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
}

// forTerminal returns a text of the provider in which nothing can act on a terminal.
func forTerminal(text string) string {
	q := strconv.QuoteToASCII(fmt.Sprintf("%.2000s", text))
	return q[1 : len(q)-1]
}
