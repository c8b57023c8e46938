package server

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/list"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/browser"
)

// rootPage answers with the Ray Dashboard's page for the session of the path. Without a session in the path it answers
// with the list of sessions, because the choice of a cookie in one tab must not change what another tab shows. Only
// pages of Ray's proxying dashboard use the cookie, since they have no other way to their session. While the session is
// still being loaded, the page shows how far the load is.
func (s *Server) rootPage(w http.ResponseWriter, r *http.Request) error {
	c, err := readChoice(r)
	switch {
	case errors.Is(err, errNoChoice):
		return s.homepage()(w, r)
	case err != nil:
		return err
	case !c.byPath && !proxiedByRay(r):
		return s.homepage()(w, r)
	}
	if target := tidyAddress(r, c); target != "" {
		browser.Redirect(w, http.StatusFound, target)
		return nil
	}
	cluster, live, err := s.sessions.Running(r.Context(), c.selector)
	if err != nil {
		return err
	}
	if live && c.at == 0 {
		// This server serves the page; its script's requests are forwarded to the running cluster.
		return s.frontendPage(w, r, c.byPath, s.sessions.LiveEntry(cluster), session.Unfinished{})
	}
	e, loaded, release, err := s.load(r.Context(), c, s.opts.PageWait)
	if err != nil {
		return err
	}
	var unfinished session.Unfinished
	if !e.Running {
		unfinished = loaded.Unfinished()
	}
	release()
	return s.frontendPage(w, r, c.byPath, e, unfinished)
}

// homepage answers with the list of sessions.
func (s *Server) homepage() handler {
	return onlyParams(list.HomepageParams, s.lists.Homepage)
}

// tidyAddress is the relative address to which the request for a dashboard's page is to be redirected; "" if the
// request's own address is right.
func tidyAddress(r *http.Request, c choice) string {
	query := r.URL.Query()
	switch {
	case c.byPath && query.Get("at") != "":
		return momentAddress(r, c, "/")
	case c.byPath && !strings.HasSuffix(r.URL.Path, "/"):
		// The page's requests are relative to it. The target is relative too: a proxy may have cut a prefix off.
		return withQuery(browser.Relative(path.Base(r.URL.EscapedPath()))+"/", r)
	case query.Has("dashboard") && query.Get("dashboard") == "":
		// The list's form sends it where the version is left to the server: addresses are shared, and better short.
		query.Del("dashboard")
		return strings.TrimSuffix("./?"+query.Encode(), "?")
	}
	return ""
}

// withQuery returns the target of a redirect with the query of the request.
func withQuery(target string, r *http.Request) string {
	if r.URL.RawQuery == "" {
		return target
	}
	// In a request's line a # is part of the query; in a redirect's target it would end the query.
	return target + "?" + strings.ReplaceAll(r.URL.RawQuery, "#", "%23")
}

// frontendPage serves the index.html of a frontend, with our bar in it. The frontend's version is the one that
// ?dashboard= names, else, for a session chosen by cookies, that of the cookie, else the nearest to the session's. u
// says what had not ended when the session did.
func (s *Server) frontendPage(w http.ResponseWriter, r *http.Request, byPath bool, e catalog.Entry,
	u session.Unfinished) error {
	version := r.URL.Query().Get("dashboard")
	if chosen := cookieValue(r, cookieDashboard); version == "" && !byPath && s.frontends.Has(chosen) {
		version = chosen
	}
	if version == "" {
		version = s.frontends.Nearest(e.RayVersion)
	}
	f, _, err := s.frontends.Open(version, "index.html")
	if version == "" || err != nil {
		return s.missingFrontend(cmp.Or(version, e.RayVersion))
	}
	defer func() { _ = f.Close() }()
	w.Header().Set("Content-Security-Policy", frontendPolicy)
	return s.writeWithBar(w, r, f, e, u)
}

// frontendPolicy has browsers run no scripts in Ray's frontend but those of its own files: it puts the address that a
// running cluster's head gives for its Grafana into frames and links unchecked, and that may be a javascript: address.
// A Grafana may be on any host, so frames may be, too. The frontend's scripts add style sheets to its page.
const frontendPolicy = "script-src 'self'; object-src 'none'; base-uri 'none'; " + browser.FrameAncestors +
	"; frame-src 'self' http: https:; style-src 'self' 'unsafe-inline'"

// missingFrontend is the answer if there is no frontend of the wanted version of Ray, "" for any. It is 404, so that
// the proxying dashboard of Ray shows its own.
func (s *Server) missingFrontend(version string) *problem.Problem {
	const example = "2.60.0"
	version = cmp.Or(version, example)
	p := &problem.Problem{
		Status: http.StatusNotFound, Title: "The Ray Dashboard's pages are missing",
		Detail: "No folder with builds of the Ray Dashboard's frontend is configured.",
		Advice: fmt.Sprintf("Run `make dashboard RAY_VERSION=%s` and point --dashboard-dir to the folder that holds "+
			"v%s. The APIs work without it.", version, version),
	}
	if s.opts.DashboardDir != "" {
		p.Detail = fmt.Sprintf("The folder %s holds no build of the Ray Dashboard's frontend for Ray %s.",
			s.opts.DashboardDir, version)
	}
	return p
}

// frontendFile serves a file of the frontend other than its first page. Of a running cluster, paths that are no such
// file are forwarded to its dashboard.
func (s *Server) frontendFile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue(paramPath)
	const newest = "" // of the builds that have the file
	f, info, err := s.frontends.Open(newest, name)
	if err != nil || name == "index.html" { // the first page is only at the session's own address
		if err == nil {
			_ = f.Close()
		}
		if answered, err := s.forwardUnrouted(w, r); answered || err != nil {
			return err
		}
		return problem.NoRoute(r, http.StatusNotFound)
	}
	defer func() { _ = f.Close() }()
	if strings.HasPrefix(name, "static/") {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "public, max-age=3600")
	}
	http.ServeContent(w, r, info.Name(), info.ModTime(), f)
	return nil
}

// maxFirstPage is how many bytes of a frontend's first page are read; Ray's has less than 1 KB.
const maxFirstPage = 1 << 20

// writeWithBar serves a frontend's first page with two elements added. At the beginning of its head is a script that
// stops the page's clock at the session's end: it must run before the frontend's own scripts. At the end of its body is
// the bar: which stored session this is, a link to the list, a link to share, and the slider that moves the dashboard
// through the session's life. The frontend's files stay as they are.
func (s *Server) writeWithBar(w http.ResponseWriter, r *http.Request, page io.Reader, e catalog.Entry,
	u session.Unfinished) error {
	html, err := io.ReadAll(io.LimitReader(page, maxFirstPage))
	if err != nil {
		return fmt.Errorf("read the dashboard's first page: %w", err)
	}
	var clock, bar bytes.Buffer
	frame := visible.SessionFrame(r, e, web.DashboardTab)
	frame.Head.Moment = "" // the bar's script adds the moment that its slider chooses to the session's address
	data := web.Bar{Base: frame.Base, Head: *frame.Head, Unfinished: web.UnfinishedText(u)}
	data.Kept, data.Note = s.notes.BarTexts(e)
	if err := errors.Join(data.RenderClock(&clock), data.Render(&bar)); err != nil {
		return err
	}
	headBegin := 0
	if tag := headTag.FindIndex(html); tag != nil {
		headBegin = tag[1]
	}
	bodyEnd := bytes.LastIndex(html, []byte("</body>"))
	if bodyEnd < headBegin {
		bodyEnd = len(html)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(slices.Concat(html[:headBegin], clock.Bytes(), html[headBegin:bodyEnd], bar.Bytes(), html[bodyEnd:]))
	return nil
}

// headTag is the tag with which a page's head begins.
var headTag = regexp.MustCompile(`(?i)<head(?:\s[^>]*)?>`)
