package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/web"
	"github.com/rayhistory/historyserver/pkg/sessioncache"
)

// homepageWait is how long the homepage waits for the first listing of a store.
const homepageWait = 10 * time.Second

// homepage is the list of clusters and sessions.
func (s *Server) homepage(req *restful.Request, resp *restful.Response) {
	r := req.Request
	q := parseListQuery(r.URL.Query())
	ctx, cancel := context.WithTimeoutCause(r.Context(), homepageWait, errWaited)
	defer cancel()
	l := s.sessions.list(ctx)
	page := web.Home{Base: base(r), Storage: s.opts.Storage, Query: q.view(), At: l.At}
	status := http.StatusOK
	switch {
	case l.Err == nil:
	case l.At.IsZero() && errors.Is(l.Err, errWaited):
		status, page.Waiting = http.StatusServiceUnavailable, true
	case l.At.IsZero():
		status = http.StatusBadGateway
		fallthrough
	default:
		page.Trouble, page.Advice = sentence(l.Err), storageAdvice(s.opts.Storage)
	}
	if l.LiveErr != nil {
		page.LiveTrouble = sentence(l.LiveErr)
	}
	now := time.Now()
	page.Count(l.Entries)
	found := q.filter(l.Entries)
	q.order(found, now)
	page.Found = len(found)
	page.Versions = s.builds.all()
	page.DashboardDir = s.opts.DashboardDir
	loads := s.opts.Sessions.Loads()
	rows, pager := q.page(found)
	page.Pager = pager
	for _, e := range rows {
		page.Rows = append(page.Rows, s.row(e, now, loads))
	}
	resp.Header().Set("Cache-Control", "no-store")
	s.page(resp, status, page)
}

func (s *Server) row(e catalog.Entry, now time.Time, loads map[layout.Session]sessioncache.Status) web.Row {
	row := web.Row{Entry: e, Duration: e.Duration(now), Path: sessionPath(e), LivePath: s.livePath(e), Nearest: s.builds.nearest(e.RayVersion)}
	if st, ok := loads[e.Ref]; ok {
		row.Load = &web.Load{Queued: st.State == sessioncache.Queued, Done: st.Progress.BytesDone, Total: st.Progress.BytesTotal}
	}
	if loaded, ok := s.opts.Sessions.Peek(e.Ref); ok {
		row.Warnings = loaded.Warnings
	}
	return row
}

// filter gives the entries that the query looks for, in a slice of its own.
func (q listQuery) filter(entries []catalog.Entry) []catalog.Entry {
	words := strings.Fields(strings.ToLower(q.Search))
	found := make([]catalog.Entry, 0, len(entries))
	for _, e := range entries {
		if (q.State == "running" && !e.Running) || (q.State == "ended" && e.Running) || (q.Kind != "" && e.OwnerKind != q.Kind) {
			continue
		}
		text := strings.ToLower(strings.Join([]string{e.Ref.Namespace, e.Ref.Cluster, e.Ref.Name, e.OwnerKind, e.OwnerName, e.RayVersion}, " "))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, e)
		}
	}
	return found
}

// columns are the orders of the list by name of the sort parameter, each ascending.
var columns = map[string]func(a, b catalog.Entry, now time.Time) int{
	"cluster":   func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Cluster, b.Ref.Cluster) },
	"namespace": func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Ref.Namespace, b.Ref.Namespace) },
	"kind":      func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.OwnerKind, b.OwnerKind) },
	"state": func(a, b catalog.Entry, _ time.Time) int {
		return boolToInt(b.Running) - boolToInt(a.Running)
	},
	"start": func(a, b catalog.Entry, _ time.Time) int { return a.Start.Compare(b.Start) },
	"duration": func(a, b catalog.Entry, now time.Time) int {
		return cmp.Compare(a.Duration(now), b.Duration(now))
	},
	"version": func(a, b catalog.Entry, _ time.Time) int {
		return slices.Compare(numbers(a.RayVersion), numbers(b.RayVersion))
	},
	"size": func(a, b catalog.Entry, _ time.Time) int { return cmp.Compare(a.Bytes, b.Bytes) },
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// order sorts entries, which are newest first: equal ones stay so.
func (q listQuery) order(entries []catalog.Entry, now time.Time) {
	compare := columns[q.Sort]
	slices.SortStableFunc(entries, func(a, b catalog.Entry) int {
		if q.Descending {
			a, b = b, a
		}
		return compare(a, b, now)
	})
}

// page writes one of the server's own pages.
func (s *Server) page(w http.ResponseWriter, status int, p web.Page) {
	var body bytes.Buffer
	if err := p.Render(&body); err != nil {
		panic(err) // a template that does not fit its data: the recovery logs it
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// asset serves what the server's own pages consist of.
func (s *Server) asset(req *restful.Request, resp *restful.Response) {
	resp.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(resp.ResponseWriter, req.Request, web.Assets(), req.PathParameter(paramPath))
}
