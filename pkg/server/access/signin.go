package access

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/sirupsen/logrus"
	"golang.org/x/oauth2"

	"github.com/rayhistory/historyserver/pkg/web/browser"
)

const (
	sessionCookie = "history_session" // sealed; a text too long for one cookie continues in history_session_1, …
	browserCookie = "history_signin"  // a secret of the browser that began to sign in

	// Purposes of texts that are sealed: of sessionState and signInState.
	forSession = "session"
	forState   = "state"
)

const (
	// signInTime is how long a sign-in may take.
	signInTime = 15 * time.Minute
	// maxNext bounds the address to open after a sign-in, in bytes: it is a part of the address at the provider and
	// back.
	maxNext = 1024
	// cookieBytes is the size of a cookie's value that browsers keep, maxCookies how many of them a session may take.
	cookieBytes, maxCookies = 3800, 4
	// proxiedBytes is how large a session may be for proxies with their default settings: nginx takes 4 KiB of headers
	// from a server, and answers 502 instead of an answer with more.
	proxiedBytes = 3500
)

// serverRoot is the address of the server's root, relative to itself, which is opened after a sign-in that names no
// other address.
const serverRoot = "./"

// sessionState is the content of the cookies of a browser that has signed in.
type sessionState struct {
	User    string   `json:"u"`
	Groups  []string `json:"g,omitempty"`
	Expires int64    `json:"e"` // seconds since 1970
}

// signInState is a sign-in in progress. It is in the address that goes to the provider and back. Only the browser that
// began the sign-in can end it.
type signInState struct {
	Browser  string `json:"b"` // the secret in that browser's cookie
	Nonce    string `json:"n"`
	Verifier string `json:"v"` // of PKCE
	Next     string `json:"x"` // the relative address to open after it
	Expires  int64  `json:"e"` // seconds since 1970
}

// byHTTPS says whether browsers reach the server by HTTPS.
func (p *provider) byHTTPS() bool { return strings.HasPrefix(p.config.RedirectURL, "https:") }

// sessionUser returns who signed in with the browser that sent a request, by its cookies.
func (p *provider) sessionUser(r *http.Request) (Identity, error) {
	var sealed strings.Builder
	for i := range maxCookies {
		c, err := r.Cookie(hostCookie(sessionCookieName(i), p.byHTTPS()))
		if err != nil || c.Value == "" {
			break
		}
		sealed.WriteString(c.Value)
	}
	if sealed.Len() == 0 {
		return Identity{}, errNoCredentials
	}
	var s sessionState
	if err := p.seal.open(forSession, sealed.String(), &s); err != nil {
		return Identity{}, fmt.Errorf("%w: the browser's cookie is not accepted (%w): sign in again at /login",
			ErrUnauthenticated, err)
	}
	if time.Now().Unix() >= s.Expires {
		return Identity{}, fmt.Errorf("%w: the sign-in has expired: sign in again at /login", ErrUnauthenticated)
	}
	return Identity{User: s.User, Groups: s.Groups}.withAuthenticatedGroup(), nil
}

// sessionCookieName is the name of the cookie with part i of a session, counted from 0.
func sessionCookieName(i int) string {
	if i == 0 {
		return sessionCookie
	}
	return sessionCookie + "_" + strconv.Itoa(i)
}

// beginSession has a browser keep in cookies who has signed in, and removes cookies of an earlier session that was
// longer. It returns an error if the identity has too many groups for cookies.
func (p *provider) beginSession(w http.ResponseWriter, r *http.Request, id Identity) error {
	groups := id.Groups[:len(id.Groups)-1] // without that of withAuthenticatedGroup, which sessionUser adds again
	sealed := p.seal.seal(forSession, sessionState{id.User, groups, time.Now().Add(p.config.SessionFor).Unix()})
	if len(sealed) > maxCookies*cookieBytes {
		return fmt.Errorf("%w: the provider names %d groups, which do not fit into a cookie: configure it to name "+
			"only those that are needed here", ErrUnauthenticated, len(groups))
	}
	if len(sealed) > proxiedBytes {
		p.log.WithFields(logrus.Fields{"user": id.User, "groups": len(groups), "bytes": len(sealed)}).Warn(
			"the cookies of a sign-in are larger than what proxies pass on by default: behind nginx the user sees 502 " +
				"Bad Gateway until its proxy_buffer_size is 16k, or the provider names fewer groups")
	}
	for i := range maxCookies {
		part := sealed[:min(len(sealed), cookieBytes)]
		sealed = sealed[len(part):]
		if c := newCookie(sessionCookieName(i), part, p.byHTTPS()); part != "" {
			c.MaxAge = int(p.config.SessionFor.Seconds())
			http.SetCookie(w, c)
		} else if _, err := r.Cookie(c.Name); err == nil {
			http.SetCookie(w, c) // removes it
		}
	}
	return nil
}

// endSession removes the cookies with which a browser is signed in.
func (p *provider) endSession(w http.ResponseWriter, r *http.Request) {
	for i := range maxCookies {
		if _, err := r.Cookie(hostCookie(sessionCookieName(i), p.byHTTPS())); err == nil {
			http.SetCookie(w, newCookie(sessionCookieName(i), "", p.byHTTPS()))
		}
	}
}

// signIn answers /oidc/start, which redirects a browser to the provider, and /oidc/callback, to which the provider
// redirects it after the sign-in.
func (a *Access) signIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		answerOnly(w, http.MethodGet)
		return
	}
	found := a.provider.found.Load()
	if found == nil {
		w.Header().Set("Retry-After", "5")
		a.showSignInError(w, r, http.StatusServiceUnavailable, serverRoot, errNoProvider)
		return
	}
	if r.URL.Path == startPath {
		a.provider.redirectToProvider(w, r, found)
		return
	}
	next, status, err := a.provider.completeSignIn(w, r, found)
	if err != nil {
		a.log.WithError(err).Warn("a sign-in failed")
		a.showSignInError(w, r, status, next, err)
		return
	}
	browser.Redirect(w, http.StatusSeeOther, browser.Root(r)+strings.TrimPrefix(next, "./"))
}

// showSignInError answers a request below /oidc with the page to sign in on and what went wrong. next is the address to
// open after the next attempt.
func (a *Access) showSignInError(w http.ResponseWriter, r *http.Request, status int, next string, err error) {
	why := strings.TrimPrefix(err.Error(), ErrUnauthenticated.Error()+": ")
	a.writeLoginPage(w, status, loginPage{Next: next, Mode: OIDC, Error: why, root: browser.Root(r)})
}

// Start is the address that leads to the provider.
func (p loginPage) Start() string {
	return p.root + startPath[1:] + "?next=" + url.QueryEscape(p.Next)
}

// oauthClient returns this server's client at the provider, without its secret.
func (p *provider) oauthClient(found *discovered) *oauth2.Config {
	return &oauth2.Config{ClientID: p.config.ClientID, Endpoint: found.endpoint, RedirectURL: p.config.RedirectURL,
		Scopes: p.config.Scopes}
}

// redirectToProvider begins a sign-in: it gives the browser a secret in a cookie and redirects it to the provider. As
// it changes nothing else, any page may link to it.
func (p *provider) redirectToProvider(w http.ResponseWriter, r *http.Request, found *discovered) {
	secret := randomText()
	if c, err := r.Cookie(hostCookie(browserCookie, p.byHTTPS())); err == nil && len(c.Value) == len(secret) {
		secret = c.Value // another tab may be signing in with it
	}
	c := newCookie(browserCookie, secret, p.byHTTPS())
	c.MaxAge = int(signInTime.Seconds())
	http.SetCookie(w, c)
	next := browser.BelowRoot(r.FormValue("next"))
	if len(next) > maxNext {
		next = serverRoot
	}
	state := signInState{
		Browser: secret, Nonce: randomText(), Verifier: oauth2.GenerateVerifier(), Next: next,
		Expires: time.Now().Add(signInTime).Unix(),
	}
	to := p.oauthClient(found).AuthCodeURL(p.seal.seal(forState, state), oidc.Nonce(state.Nonce),
		oauth2.S256ChallengeOption(state.Verifier))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// completeSignIn ends a sign-in when the provider has redirected the browser back. next is the relative address to open
// now or, after an error, after the next attempt; status is the status to answer with after an error, else 0.
func (p *provider) completeSignIn(w http.ResponseWriter, r *http.Request, found *discovered) (next string, status int,
	err error) {
	query := r.URL.Query()
	var state signInState
	if err := p.seal.open(forState, query.Get("state"), &state); err != nil {
		return serverRoot, http.StatusBadRequest,
			fmt.Errorf("no sign-in that began here belongs to this request (%w): sign in again", err)
	}
	c, err := r.Cookie(hostCookie(browserCookie, p.byHTTPS()))
	switch {
	case err != nil || subtle.ConstantTimeCompare([]byte(c.Value), []byte(state.Browser)) != 1:
		return serverRoot, http.StatusBadRequest,
			fmt.Errorf("the sign-in began in another browser, or under another host name than that of "+
				"--oidc-redirect-url: open %s and sign in again",
				strings.TrimSuffix(p.config.RedirectURL, callbackPath))
	case time.Now().Unix() >= state.Expires:
		return state.Next, http.StatusBadRequest, errors.New("the sign-in took too long: sign in again")
	case query.Get("error") != "":
		return state.Next, http.StatusUnauthorized, fmt.Errorf("the OpenID provider refused the sign-in: %.100s %.500s",
			query.Get("error"), query.Get("error_description"))
	}
	ctx, cancel := context.WithTimeout(r.Context(), providerTimeout)
	defer cancel()
	token, err := p.exchange(ctx, found, query.Get("code"), state)
	if err != nil {
		p.log.WithError(err).Error("the OpenID provider did not give an ID token")
		return state.Next, http.StatusBadGateway,
			errors.New("the OpenID provider did not confirm the sign-in; the server's log says why. Sign in again")
	}
	id, err := p.identity(token)
	if err == nil {
		err = p.beginSession(w, r, id)
	}
	if err != nil {
		return state.Next, http.StatusForbidden, err
	}
	p.log.WithField("user", id.User).Info("a user signed in")
	return state.Next, 0, nil
}

// exchange requests the ID token of a sign-in from the provider for the code that the browser brought, and verifies it.
func (p *provider) exchange(ctx context.Context, found *discovered, code string, state signInState) (*oidc.IDToken,
	error) {
	client := p.oauthClient(found)
	var err error
	if client.ClientSecret, err = p.config.clientSecret(); err != nil {
		return nil, err
	}
	answer, err := client.Exchange(oidc.ClientContext(ctx, p.http), code, oauth2.VerifierOption(state.Verifier))
	if err != nil {
		return nil, err
	}
	raw, _ := answer.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("its answer has no id_token")
	}
	token, err := p.verify(ctx, raw, []string{p.config.ClientID})
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(state.Nonce)) != 1 {
		return nil, errors.New("the ID token does not have the nonce of the sign-in")
	}
	return token, nil
}
