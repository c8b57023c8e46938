package access

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// cookieName holds the token of a browser that signed in.
const cookieName = "history_token"

const (
	loginPath  = "/login"
	logoutPath = "/logout"
)

// public are the paths that need no caller: what Kubernetes and Prometheus ask, and what the sign-in page is made of.
var public = map[string]bool{"/healthz": true, "/livez": true, "/readyz": true, "/metrics": true}

// Handler lets those through to next who may use the server at all, with their identity in the request's context. It answers /login and
// /logout itself.
func (a *Access) Handler(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Enabled() {
			switch r.URL.Path {
			case loginPath:
				if err := crossOrigin.Check(r); err != nil {
					http.Error(w, "Sign in on the history server's own page.", http.StatusForbidden)
					return
				}
				a.login(w, r)
				return
			case logoutPath:
				setCookie(w, r, "")
				http.Redirect(w, r, loginPath, http.StatusSeeOther)
				return
			}
			if public[r.URL.Path] {
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

// refuse answers a request whose caller is not known: people are sent to sign in, programs are told.
func (a *Access) refuse(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if !errors.Is(err, ErrUnauthenticated) {
		a.log.WithError(err).Error("a caller cannot be authenticated")
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, err)
		return
	}
	if isNavigation(r) {
		http.Redirect(w, r, loginPath+"?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="Ray history server"`)
	writeError(w, http.StatusUnauthorized, err)
}

// writeError answers in the form of Ray's dashboard.
func writeError(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"result": false, "msg": err.Error(), "data": map[string]any{}})
}

// isNavigation reports whether a person in a browser waits for a page.
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

var loginPage = template.Must(template.New("login").Parse(loginHTML))

// login shows the page to sign in, and takes its token.
func (a *Access) login(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	page := struct {
		Next, Error string
		Kubernetes  bool
	}{Next: safeNext(r.FormValue("next")), Kubernetes: a.config.Auth == Kubernetes}
	status := http.StatusOK
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		token := strings.TrimSpace(r.PostFormValue("token"))
		_, err := a.check(r.Context(), token)
		if err == nil {
			setCookie(w, r, token)
			http.Redirect(w, r, page.Next, http.StatusSeeOther)
			return
		}
		status, page.Error = http.StatusUnauthorized, err.Error()
		if !errors.Is(err, ErrUnauthenticated) {
			status = http.StatusServiceUnavailable
		}
	default:
		h.Set("Allow", "GET, HEAD, POST")
		http.Error(w, "Only GET and POST.", http.StatusMethodNotAllowed)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	if err := loginPage.Execute(w, page); err != nil {
		a.log.WithError(err).Debug("the sign-in page was not taken whole")
	}
}

// safeNext keeps the way on after signing in on this server.
func safeNext(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.Contains(next, "\\") {
		return "/"
	}
	return next
}

func setCookie(w http.ResponseWriter, r *http.Request, token string) {
	c := &http.Cookie{
		Name: cookieName, Value: token, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https",
	}
	if token == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
