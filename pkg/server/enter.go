package server

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// enter chooses a session for requests without a session's prefix, such as those of Ray's proxying dashboard: it sets
// the cookies, begins to load the session and waits a while for it. The answer is KubeRay's JSON; with ?open=dashboard
// it is a page that shows the load and then opens the session's own address. It is a page rather than a redirect,
// because Ray's proxying dashboard follows redirects itself, and the cookies would be lost.
//
// Forms: /enter_cluster/{namespace}/{name}/{session} and KubeRay's newer
// /enter_cluster/{namespace}/{kind}/{name}[/{session}].
func (s *Server) enter(w http.ResponseWriter, r *http.Request) error {
	selector := enteredSelector(r)
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	version := r.URL.Query().Get("dashboard")
	if version != "" && !s.frontends.Has(version) {
		return s.missingFrontend(version)
	}
	cluster, live, err := s.sessions.Running(ctx, selector)
	if err != nil {
		return err
	}
	var e catalog.Entry
	if live {
		e = s.sessions.LiveEntry(cluster)
	} else if e, err = s.sessions.Find(ctx, selector); err != nil {
		return err
	}
	if s.rules.CheckOwnPage(r) != nil { // another site's page must not change which session the cookies choose
		browser.Redirect(w, http.StatusSeeOther, browser.Root(r)+e.Ref.Path())
		return nil
	}
	setCookies(w, r, e, version)
	if !live {
		s.opts.Sessions.Begin(e.Ref)
	}
	if r.URL.Query().Get("open") == "dashboard" {
		st := sessioncache.Status{State: sessioncache.Ready}
		if !live { // of a running cluster nothing is loaded
			st = s.opts.Sessions.Status(e.Ref)
		}
		page := loadingPage(e.Ref, st)
		page.Frame, page.Target = visible.Frame(r), browser.Root(r)+e.Ref.Path()
		web.Write(w, http.StatusOK, page)
		return nil
	}
	// KubeRay's answer.
	answer := map[string]any{"result": "success", "name": e.Ref.Cluster, "namespace": e.Ref.Namespace,
		"session": e.Ref.Name}
	if !live {
		switch _, release, err := s.opts.Sessions.Get(ctx, e.Ref); {
		case err == nil:
			release()
		case errors.Is(err, shared.ErrWaited):
			answer["loading"] = loadStatusOf(s.opts.Sessions.Status(e.Ref))
		default:
			return err
		}
	}
	writer.JSON(w, http.StatusOK, answer)
	return nil
}

// enteredSelector returns which session the path parameters of /enter_cluster name; without a session's name, the
// cluster's newest. The path {kind}/{name} has the same form as {name}/{session}, and is parsed as that: it counts as
// the former if its first part is one of the three kinds and its second is no session's name.
func enteredSelector(r *http.Request) catalog.Selector {
	sel := catalog.Selector{Namespace: r.PathValue(paramNamespace), Kind: r.PathValue(paramKind),
		Name: r.PathValue(paramCluster), Session: r.PathValue(paramSession)}
	if sel.Kind == "" && catalog.Kind(sel.Name) != "" && !isSessionName(sel.Session) {
		sel.Kind, sel.Name, sel.Session = sel.Name, sel.Session, ""
	}
	sel.Session = cmp.Or(sel.Session, catalog.Latest)
	return sel
}

// isSessionName says whether a name is that of a session, or an alias such as latest.
func isSessionName(name string) bool {
	return catalog.IsAlias(name) || strings.HasPrefix(name, "session_")
}

// setCookies makes a session, and the version of the dashboard's frontend ("" for the nearest), the choice of a browser
// until it is closed.
func setCookies(w http.ResponseWriter, r *http.Request, e catalog.Entry, dashboard string) {
	set := func(name, value string) {
		c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
			Secure: browser.ByHTTPS(r)}
		if value == "" {
			c.MaxAge = -1 // removes a cookie of an earlier choice
		}
		http.SetCookie(w, c)
	}
	set(cookieCluster, e.Ref.Cluster)
	set(cookieNamespace, e.Ref.Namespace)
	set(cookieSession, e.Ref.Name)
	set(cookieDashboard, dashboard)
}
