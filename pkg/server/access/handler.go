package access

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// cookieName holds the token of a browser that signed in.
const cookieName = "history_token"

const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// Handler passes requests of known callers on to next, with the identity in the request's context. It answers /login
// and /logout itself, and where people sign in with an OpenID provider /oidc/start and /oidc/callback. Requests must
// have passed browser.Rules. The public paths need no caller.
func (a *Access) Handler(next http.Handler, public ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Enabled() {
			switch r.URL.Path {
			case loginPath:
				a.login(w, r)
				return
			case logoutPath:
				a.logout(w, r)
				return
			case startPath, callbackPath:
				if a.provider != nil {
					a.signIn(w, r)
					return
				}
			}
			if slices.Contains(public, r.URL.Path) {
				next.ServeHTTP(w, r)
				return
			}
		}
		id, err := a.authenticate(r)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, id)))
	})
}

// refuse answers a request whose caller is unknown: browsers are sent to sign in, programs get 401.
func (a *Access) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if !errors.Is(err, ErrUnauthenticated) {
		writeError(w, http.StatusServiceUnavailable, a.unavailable(w, err))
		return
	}
	if isNavigation(r) {
		next := strings.TrimLeft(r.URL.RequestURI(), "/")
		browser.Redirect(w, http.StatusSeeOther, browser.Root(r)+loginPath[1:]+"?next="+url.QueryEscape(next))
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="Ray history server"`)
	writeError(w, http.StatusUnauthorized, err)
}

// unavailable logs why it is not known who a caller is. It returns what the caller is shown of it.
func (a *Access) unavailable(w http.ResponseWriter, err error) error {
	w.Header().Set("Retry-After", "5")
	if errors.Is(err, errFlooded) { // a line for each request would fill the log
		a.flooded.Warn(time.Now(), "callers are refused because too many requests have unknown tokens: "+
			"find out who sends them", nil)
		return errFlooded
	}
	if errors.Is(err, errNoKeys) { // likewise
		a.flooded.Warn(time.Now(), "ID tokens cannot be checked", err)
		return errNoKeys
	}
	a.log.WithError(err).Error("a caller cannot be authenticated")
	if errors.Is(err, errNoProvider) {
		return err
	}
	return errNotAsked
}

// errNotAsked is shown to callers who are not signed in: what Kubernetes answered goes to the log only.
var errNotAsked = fmt.Errorf("%w: the server's log says why; try again in a few seconds", ErrUnavailable)

// writeError answers in the form of Ray's dashboard.
func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"result": false, "msg": err.Error(), "data": map[string]any{}})
}

// isNavigation reports whether a browser asks for a page to show.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxLogin bounds what is read of a sign-in, in bytes: tokens of Kubernetes' have a few thousand.
const maxLogin = 64 << 10

//go:embed login.html
var loginHTML string

//go:embed login.js
var loginScript string

var (
	loginTemplate = template.Must(template.New("login").Parse(loginHTML))
	loginPolicy   = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" + hashOf(loginScript) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

func hashOf(script string) string {
	sum := sha256.Sum256([]byte(script))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// loginPage is the page to sign in on, or out.
type loginPage struct {
	Next, Error string
	Mode        Mode
	Out         bool
	root        string // the server's, relative to the page; empty: the page's folder
}

// Script is the embedded file, which is ours.
func (loginPage) Script() template.JS { return template.JS(loginScript) }

// show answers with the page to sign in on, or out.
func (a *Access) show(w http.ResponseWriter, status int, page loginPage) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", loginPolicy)
	w.WriteHeader(status)
	if err := loginTemplate.Execute(w, page); err != nil {
		a.log.WithError(err).Debug("the page for signing in or out was not sent completely")
	}
}

// logout shows the page to sign out, and signs out on POST. A GET changes nothing: any page can make a browser send
// one.
func (a *Access) logout(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		a.show(w, http.StatusOK, loginPage{Out: true})
	case http.MethodPost:
		setCookie(w, r, "")
		if a.provider != nil {
			a.provider.endSession(w, r)
		}
		browser.Redirect(w, http.StatusSeeOther, browser.Relative(loginPath[1:]))
	default:
		refuseMethod(w)
	}
}

func refuseMethod(w http.ResponseWriter) {
	w.Header().Set("Allow", "GET, HEAD, POST")
	http.Error(w, "Only GET and POST.", http.StatusMethodNotAllowed)
}

// refuseChange answers what only GET and HEAD are for.
func refuseChange(w http.ResponseWriter) {
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "Only GET.", http.StatusMethodNotAllowed)
}

// login shows the page to sign in, and takes its token.
func (a *Access) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	page := loginPage{Next: browser.Within(r.FormValue("next")), Mode: a.config.Auth}
	if a.provider != nil && r.Method == http.MethodPost { // people sign in there, not with a token
		refuseChange(w)
		return
	}
	status := http.StatusOK
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		token := strings.TrimSpace(r.PostFormValue("token"))
		if !fitsCookie(token) {
			status, page.Error = http.StatusBadRequest,
				fmt.Sprintf("browsers keep no such token in a cookie: it must have at most %d letters of ASCII, "+
					"without quotes, semicolons and backslashes", cookieBytes)
			break
		}
		_, err := a.check(r.Context(), token)
		if err == nil {
			setCookie(w, r, token)
			browser.Redirect(w, http.StatusSeeOther, page.Next)
			return
		}
		status, page.Error = http.StatusUnauthorized, refused(err)
		if !errors.Is(err, ErrUnauthenticated) {
			status, page.Error = http.StatusServiceUnavailable, a.unavailable(w, err).Error()
		}
	default:
		refuseMethod(w)
		return
	}
	a.show(w, status, page)
}

// refused says to a person why a sign-in was refused, and what to do.
func refused(err error) string {
	why := strings.TrimPrefix(err.Error(), ErrUnauthenticated.Error()+": ")
	return "This does not sign you in: " + why + ". Copy the whole token again, or ask for a new one."
}

// fitsCookie says whether browsers keep a token as it is.
func fitsCookie(token string) bool {
	return len(token) <= cookieBytes && cookie(cookieName, token, false).Valid() == nil // whether by HTTPS or not
}

func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	http.SetCookie(w, cookie(cookieName, token, browser.ByHTTPS(r)))
}

// named is the name of a cookie. Browsers take one named __Host- from this host by HTTPS only: no neighbour, such as
// another name of the same domain, can plant one. By plain HTTP they take none of that name.
func named(name string, secure bool) string {
	if secure {
		return "__Host-" + name
	}
	return name
}

// cookie is one that pages cannot read and other sites' pages do not have sent along. An empty value removes it.
func cookie(name, value string, secure bool) *http.Cookie {
	c := &http.Cookie{Name: named(name, secure), Value: value, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: secure}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}
