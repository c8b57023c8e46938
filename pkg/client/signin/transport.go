package signin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/rayhistory/historyserver/internal/settings"
)

// Transport sends requests to a server with the user's token: Token, else that in TokenFile, else that of the sign-in
// in Store.
type Transport struct {
	Server           *url.URL
	Token, TokenFile string // the file is read for each request
	Store            Store
	Next             http.RoundTripper

	mu sync.Mutex
}

// renewBefore is how long before its end a token is replaced: clocks differ, and requests take time.
const renewBefore = time.Minute

// RoundTrip sends a request. The token goes to the server only.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != t.Server.Scheme || r.URL.Host != t.Server.Host {
		return nil, errors.New("the server redirects to another one, which does not get the token: name that one " +
			"in --server, if you trust it")
	}
	token, err := t.token(r.Context())
	if err != nil {
		return nil, err
	}
	if token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return t.Next.RoundTrip(r)
}

// token returns the token to send; "" if there is none. It renews the token of a stored sign-in shortly before it
// expires.
func (t *Transport) token(ctx context.Context) (string, error) {
	switch {
	case t.Token != "":
		return t.Token, nil
	case t.TokenFile != "":
		token, err := settings.ReadFile(t.TokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		return strings.TrimSpace(string(token)), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	server := NameOf(t.Server)
	credentials, err := t.Store.Read(server)
	if credentials == nil || err != nil || credentials.isFresh() {
		return credentials.token(), err // "" of nil: nobody has signed in
	}
	err = t.Store.withLock(server, func() error {
		if credentials, err = t.Store.Read(server); err != nil || credentials.isFresh() {
			return err // another process has just renewed it
		}
		if err := credentials.refresh(oidc.ClientContext(ctx, ProviderClient(t.Next, providerTimeout))); err != nil {
			return err
		}
		return t.Store.Write(credentials)
	})
	return credentials.token(), err
}

// ProviderClient makes a client for requests to an OpenID provider. It bounds the size of answers, which libraries read
// into memory, and follows no redirect of a POST, whose body may have a client's secret.
func ProviderClient(next http.RoundTripper, timeout time.Duration) *http.Client {
	return &http.Client{Transport: boundedTransport{next}, Timeout: timeout,
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if via[0].Method != http.MethodGet || len(via) == maxRedirects {
				return http.ErrUseLastResponse
			}
			return nil
		}}
}

// maxProviderAnswer bounds an answer of a provider, in bytes: keys and tokens have a few thousand. maxRedirects is how
// many redirects are followed.
const maxProviderAnswer, maxRedirects = 1 << 20, 10

// boundedTransport cuts the bodies of answers off after maxProviderAnswer bytes.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxProviderAnswer), answer.Body}
	}
	return answer, err
}

// NameOf is the name of a server in a Store: its address without user, password and the slash at the end.
func NameOf(server *url.URL) string {
	address := *server
	address.User = nil
	return strings.TrimSuffix(address.String(), "/")
}

// token is the token; "" of nil credentials.
func (c *Credentials) token() string {
	if c == nil {
		return ""
	}
	return c.Token
}

// isFresh says that the token needs no renewal, or that there is none.
func (c *Credentials) isFresh() bool {
	return c == nil || c.Expires.IsZero() || time.Now().Add(renewBefore).Before(c.Expires)
}

// refresh gets a new ID token from the OpenID provider with the refresh token.
func (c *Credentials) refresh(ctx context.Context) error {
	login := "`historyserver login --server " + c.Server + "`"
	if c.Refresh == "" {
		return fmt.Errorf("your sign-in at %s has expired: sign in again with %s", c.Server, login)
	}
	provider, err := oidc.NewProvider(ctx, c.Issuer)
	if err != nil {
		return fmt.Errorf("your sign-in at %s cannot be renewed: %w", c.Server, err)
	}
	token, err := publicClient(provider, c.ClientID).TokenSource(ctx, &oauth2.Token{RefreshToken: c.Refresh}).Token()
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.Response.StatusCode < http.StatusInternalServerError:
		return fmt.Errorf("your sign-in at %s has ended (%s): sign in again with %s", c.Server, providerSays(refused),
			login)
	case err != nil:
		return fmt.Errorf("your sign-in at %s cannot be renewed: %w", c.Server, err)
	}
	const noNonce = "" // only the first token of a sign-in has one
	if err := c.readToken(ctx, provider, token, noNonce); err != nil {
		return fmt.Errorf("your sign-in at %s cannot be renewed: %w: sign in again with %s", c.Server, err, login)
	}
	return nil
}

// readToken takes the ID token out of an answer of the provider's. The token must have the nonce, unless that is "".
func (c *Credentials) readToken(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, nonce string) error {
	raw, _ := token.Extra("id_token").(string)
	if raw == "" {
		return errors.New("the OpenID provider sent no ID token")
	}
	verified, err := provider.Verifier(&oidc.Config{ClientID: c.ClientID}).Verify(ctx, raw)
	switch {
	case err != nil:
		return err
	case nonce != "" && verified.Nonce != nonce:
		return errors.New("the ID token is not of this sign-in (wrong nonce): sign in again")
	}
	var claims struct {
		Email string `json:"email"`
		Name  string `json:"preferred_username"`
	}
	if verified.Claims(&claims) == nil {
		c.User = cmp.Or(claims.Email, claims.Name)
	}
	c.Token, c.Expires = raw, verified.Expiry
	c.Refresh = cmp.Or(token.RefreshToken, c.Refresh) // a provider need not send another one
	return nil
}

// providerSays is the provider's own error, shortened.
func providerSays(e *oauth2.RetrieveError) string {
	if e.ErrorCode == "" {
		return e.Response.Status
	}
	return fmt.Sprintf("%.100s %.300s", e.ErrorCode, e.ErrorDescription)
}
