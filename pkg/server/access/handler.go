package access

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// tokenCookie is the name of the cookie that holds the token of a browser that signed in.
const tokenCookie = "history_token"

const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// Handler passes requests of callers whom it could authenticate on to next, with the identity in the request's context;
// those for the public paths without one. It answers /login and /logout itself, and /oidc/start and /oidc/callback if
// people sign in with an OpenID provider. Requests must have passed browser.Rules.
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

// refuse answers a request whose caller is unknown: browsers are sent to sign in, programs get 401. While it cannot be
// found out who the caller is, browsers get a page that is asked for again, programs 503.
func (a *Access) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	navigates := isNavigation(r)
	if !errors.Is(err, ErrUnauthenticated) {
		shown := a.noteUnavailable(w, err)
		if !navigates {
			writeError(w, http.StatusServiceUnavailable, shown)
			return
		}
		if r.Method == http.MethodGet { // what was sent by a form is sent again only by whoever wrote it
			w.Header().Set("Refresh", w.Header().Get("Retry-After"))
		}
		a.writeLoginPage(w, http.StatusServiceUnavailable, loginPage{Error: shown.Error(), Unavailable: true})
		return
	}
	if navigates {
		next := strings.TrimLeft(r.URL.RequestURI(), "/")
		browser.Redirect(w, http.StatusSeeOther, browser.Root(r)+loginPath[1:]+"?next="+url.QueryEscape(next))
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="Ray history server"`)
	writeError(w, http.StatusUnauthorized, err)
}

// noteUnavailable logs the error that kept a caller from being authenticated, and sets the header that tells the client
// when to try again; the caller writes the answer. It returns the error to show, which has no more than strangers may
// see.
func (a *Access) noteUnavailable(w http.ResponseWriter, err error) error {
	w.Header().Set("Retry-After", "5") // seconds
	if errors.Is(err, errFlooded) {    // the log is throttled: a line for each request would fill it
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
	return errTryAgain
}

// errTryAgain is shown to callers who are not signed in instead of what Kubernetes answered, which is only in the log.
var errTryAgain = fmt.Errorf("%w: the server's log says why; try again in a few seconds", ErrUnavailable)

// writeError answers in the form of Ray's dashboard.
func writeError(w http.ResponseWriter, status int, err error) {
	writer.JSON(w, status, map[string]any{"result": false, "msg": err.Error(), "data": map[string]any{}})
}

// isNavigation reports whether a browser asks for a page to show.
func isNavigation(r *http.Request) bool {
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// maxLogin bounds the body of a request to sign in, in bytes: tokens of Kubernetes have a few thousand.
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

// loginPage is the page on which people sign in or, with Out, sign out. With Unavailable it stands for another page and
// only says that nobody can be let in now.
type loginPage struct {
	Next        string // the relative address to open after signing in
	Error       string // why signing in failed; "" if it was not tried
	Mode        Mode
	Out         bool
	Unavailable bool
	root        string // the server's root, relative to the page; "" is the page's folder
}

// Script is the embedded file, which is ours.
func (loginPage) Script() template.JS { return template.JS(loginScript) }

// writeLoginPage answers with the page to sign in or out on.
func (a *Access) writeLoginPage(w http.ResponseWriter, status int, page loginPage) {
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
		a.writeLoginPage(w, http.StatusOK, loginPage{Out: true})
	case http.MethodPost:
		setCookie(w, r, "")
		if a.provider != nil {
			a.provider.endSession(w, r)
		}
		browser.Redirect(w, http.StatusSeeOther, browser.Relative(loginPath[1:]))
	default:
		answerOnly(w, http.MethodGet, http.MethodPost)
	}
}

// answerOnly answers a request of another method than those that its page is for, such as GET, and HEAD with it.
func answerOnly(w http.ResponseWriter, methods ...string) {
	w.Header().Set("Allow", strings.Replace(strings.Join(methods, ", "), "GET", "GET, HEAD", 1))
	http.Error(w, "Only "+strings.Join(methods, " and ")+".", http.StatusMethodNotAllowed)
}

// login shows the page to sign in on, and signs in on POST: a valid token goes into a cookie. With an OpenID provider
// the page only leads to the provider.
func (a *Access) login(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	page := loginPage{Next: browser.BelowRoot(r.FormValue("next")), Mode: a.config.Auth}
	if a.provider != nil && r.Method == http.MethodPost { // people sign in at the provider, not with a token
		answerOnly(w, http.MethodGet)
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
		_, err := a.identify(r.Context(), token)
		if err == nil {
			setCookie(w, r, token)
			browser.Redirect(w, http.StatusSeeOther, page.Next)
			return
		}
		status, page.Error = http.StatusUnauthorized, signInRefusal(err)
		if !errors.Is(err, ErrUnauthenticated) {
			status, page.Error = http.StatusServiceUnavailable, a.noteUnavailable(w, err).Error()
		}
	default:
		answerOnly(w, http.MethodGet, http.MethodPost)
		return
	}
	a.writeLoginPage(w, status, page)
}

// signInRefusal says to a person why a sign-in was refused, and what to do.
func signInRefusal(err error) string {
	why := strings.TrimPrefix(err.Error(), ErrUnauthenticated.Error()+": ")
	return "This does not sign you in: " + why + ". Copy the whole token again, or ask for a new one."
}

// fitsCookie says whether browsers keep a token in a cookie, unchanged. Whether they are reached by HTTPS makes no
// difference to that.
func fitsCookie(token string) bool {
	return len(token) <= cookieBytes && newCookie(tokenCookie, token, false).Valid() == nil
}

// setCookie puts a token into a browser's cookie; "" removes the cookie.
func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	http.SetCookie(w, newCookie(tokenCookie, token, browser.ByHTTPS(r)))
}

// hostCookie returns the name of a cookie, with __Host- before it if browsers reach the server by HTTPS (secure). They
// accept a cookie of that name from this host alone, and not from another host of the same domain. By plain HTTP they
// accept none of that name.
func hostCookie(name string, secure bool) string {
	if secure {
		return "__Host-" + name
	}
	return name
}

// newCookie returns a cookie that scripts cannot read and that browsers do not send with requests of other sites'
// pages. With the value "" it removes the cookie of this name.
func newCookie(name, value string, secure bool) *http.Cookie {
	c := &http.Cookie{Name: hostCookie(name, secure), Value: value, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: secure}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}
