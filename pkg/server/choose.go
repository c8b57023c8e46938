package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// Cookies that choose a session; KubeRay's names.
const (
	cookieCluster   = "cluster_name"
	cookieNamespace = "cluster_namespace"
	cookieSession   = "session_name"
	// cookieDashboard is the version of the frontend that the user chose, if not the nearest.
	cookieDashboard = "dashboard_version"
)

// choice is the session that a request is about, and the moment of it.
type choice struct {
	selector catalog.Selector
	at       int64 // Unix ns; 0 is the session's end
	byPath   bool  // the request's own path names the session
}

// selectorOf selects the session with this very name: no alias, no newest one.
func selectorOf(ref layout.Session) catalog.Selector {
	return catalog.Selector{Namespace: ref.Namespace, Name: ref.Cluster, Session: ref.Name}
}

// errNoChoice says that a request names no session.
var errNoChoice = &problem.Problem{
	Status: http.StatusBadRequest,
	Title:  "No session is chosen",
	Detail: "This address is about one session of a cluster, and none is chosen.",
	Advice: "Open a session in the list of clusters.",
	Programs: "Open a session in the list of clusters, at /homepage. In a program, put " +
		"/namespaces/{namespace}/clusters/{name}/sessions/{session or latest} before the path.",
}

// readChoice reads which session a request is about: from the request's path, else from the path of the page whose
// script sent the request, else from the cookies; errNoChoice if none of them names one. The moment is that of ?at=,
// else the one in the path that named the session.
func readChoice(r *http.Request) (choice, error) {
	moment := r.PathValue(paramAt)
	var c choice
	if strings.HasPrefix(r.Pattern, sessionPrefix) {
		c.byPath = true
		c.selector = catalog.Selector{Namespace: r.PathValue(paramNamespace), Name: r.PathValue(paramCluster),
			Session: r.PathValue(paramSession)}
	} else if selector, at, ok := sessionOfPage(r); ok {
		c.selector, moment = selector, at
	} else {
		c.selector = catalog.Selector{Namespace: cookieValue(r, cookieNamespace), Name: cookieValue(r, cookieCluster),
			Session: cookieValue(r, cookieSession)}
		if c.selector.Namespace == "" || c.selector.Name == "" || c.selector.Session == "" {
			return choice{}, errNoChoice
		}
	}
	given := r.URL.Query().Get("at")
	at, err := param.ParseAt(cmp.Or(given, moment))
	switch {
	case err != nil && given == "":
		return choice{}, &problem.Problem{
			Status: http.StatusBadRequest, Title: "This is not a time",
			Detail: fmt.Sprintf("The address asks for the moment %.40q, which is not a time.", moment),
			Advice: "After /at/ it needs a time such as 2026-11-20T23:20:00Z, or Unix milliseconds. Without /at/… it " +
				"shows the end of the session.",
		}
	case err != nil:
		return choice{}, problem.BadRequest(err)
	}
	c.at = at
	return c, nil
}

// sessionPage is the path of a session's page: its namespace, cluster, name and, if the page shows a moment, which.
var sessionPage = regexp.MustCompile(`/namespaces/([^/]+)/clusters/([^/]+)/sessions/([^/]+)(?:/at/([^/]+))?(?:/|$)`)

// sessionOfPage returns the session and the moment of the page whose script sent a request, if it is a session's page.
// A script may leave out the page's prefix: that of Ray 2.56 requests /api/profiling_enabled wherever the dashboard is.
func sessionOfPage(r *http.Request) (selector catalog.Selector, at string, ok bool) {
	if browser.WantsPage(r) || browser.FromOtherSite(r) {
		return selector, "", false
	}
	page, err := url.Parse(r.Referer())
	if err != nil {
		return selector, "", false
	}
	return sessionInPath(page.Path)
}

// sessionInPath returns the session that a page's path names, and the moment in it, "" if there is none.
func sessionInPath(path string) (selector catalog.Selector, at string, ok bool) {
	parts := sessionPage.FindStringSubmatch(path)
	if parts == nil {
		return selector, "", false
	}
	namespace, cluster, session, moment := parts[1], parts[2], parts[3], parts[4]
	return catalog.Selector{Namespace: namespace, Name: cluster, Session: session}, moment, true
}

// momentAddress is the relative address of a page of the chosen session, with the moment of ?at= in its path instead of
// its query. page is the page's path below the session, from its slash on.
func momentAddress(r *http.Request, c choice, page string) string {
	query := r.URL.Query()
	at := query.Get("at")
	query.Del("at")
	session := layout.Session{Namespace: c.selector.Namespace, Cluster: c.selector.Name, Name: c.selector.Session}
	return strings.TrimSuffix(browser.Root(r)+session.Path()+"at/"+url.PathEscape(at)+page+"?"+query.Encode(), "?")
}

// findContext is a context that ends after LoadWait, for finding a request's sessions: the server's first listing of
// the store may take longer than a client waits.
func (s *Server) findContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.opts.LoadWait, shared.ErrWaited)
}

// storedSessions returns the stored sessions of the cluster in a request's path, the newest first. If there are none it
// returns an error.
func (s *Server) storedSessions(r *http.Request) ([]catalog.Entry, error) {
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	listing := s.sessions.List(ctx)
	if err := listing.Unavailable(); err != nil {
		return nil, err
	}
	var entries []catalog.Entry
	cluster := catalog.Filter{Namespace: r.PathValue(paramNamespace), Cluster: r.PathValue(paramCluster)}
	for e := range listing.Matching(cluster, time.Now()) {
		if e.Ref.Name != catalog.Live {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return nil, s.sessions.NotStored(ctx, catalog.Selector{Namespace: cluster.Namespace, Name: cluster.Cluster})
	}
	return entries, nil
}

// withoutSession answers an address that ends before its session's name. It redirects browsers to the list of sessions,
// of the namespace and cluster that the address names; programs get 404.
func (s *Server) withoutSession(w http.ResponseWriter, r *http.Request) error {
	named := url.Values{}
	if namespace := r.PathValue(paramNamespace); namespace != "" {
		named.Set("namespace", namespace)
	}
	if cluster := r.PathValue(paramCluster); cluster != "" {
		named.Set("cluster", cluster)
	}
	query := strings.TrimSuffix("?"+named.Encode(), "?")
	if browser.WantsPage(r) {
		browser.Redirect(w, http.StatusFound, browser.Root(r)+"homepage"+query)
		return nil
	}
	p := &problem.Problem{Status: http.StatusNotFound, Title: "No session is named"}
	switch {
	case named.Has("cluster"):
		p.Detail = "This is the address of a cluster, not of one of its sessions."
		p.Advice = "Put /sessions/latest, or a session's name, after the cluster's name. /clusters lists all sessions."
	case named.Has("namespace"):
		p.Detail = "This is the address of a namespace, not of a session."
		p.Advice = "/clusters" + query + " lists its sessions."
	default:
		p.Detail = "This address names no session."
		p.Advice = "/clusters lists all sessions."
	}
	return p
}

// cookieValue returns the value of a request's cookie; "" if the request has none of this name.
func cookieValue(r *http.Request, name string) string {
	c, err := r.Cookie(name)
	if err != nil {
		return ""
	}
	return c.Value
}
