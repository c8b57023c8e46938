package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// addCompare adds what puts the chosen session, or a job of it, beside another one.
func (s *Server) addCompare(ws *restful.WebService) {
	s.addSessionPage(ws, "/compare", compare.Params, withChoice(s.comparePage))
	s.addGet(ws, "/api/history/compare", onlyParams(sessionParams(compare.Params...), withChoice(s.compareJSON)))
}

// compareJSON answers with a comparison as JSON.
func (s *Server) compareJSON(w http.ResponseWriter, r *http.Request, chosen choice) error {
	report, err := s.compare(r, chosen)
	if nothing, ok := errors.AsType[*compare.NothingError](err); ok {
		return &problem.Problem{Status: http.StatusNotFound, Title: "Nothing to compare", Detail: nothing.Detail,
			Advice: nothing.Advice}
	}
	if err != nil {
		return err
	}
	writer.Data(w, report)
	return nil
}

// comparePage answers with a comparison as a page, which is also the form for another one. If there is nothing to
// compare with, the page says so.
func (s *Server) comparePage(w http.ResponseWriter, r *http.Request, chosen choice) error {
	page, status := web.Compare{Form: r.URL.Query()}, http.StatusOK
	var err error
	page.Report, err = s.compare(r, chosen)
	var wrong *param.Error
	switch {
	case errors.As(err, &wrong) && wrong.Name != "with":
		return err
	case errors.As(err, &page.Nothing): // the page says why there is no comparison
		if len(page.Form) > 0 {
			status = http.StatusNotFound // the request asked for a comparison, not only for the form
		}
	case err != nil: // that it is about this session, and not about the form, is returned below
		p := problem.Of(err, s.opts.Storage)
		if p.Status != http.StatusBadRequest && p.Status != http.StatusGone {
			return err
		}
		page.Nothing, status = &compare.NothingError{Detail: p.Detail, Advice: p.Advice}, p.Status
	}
	e, err := s.sessions.Find(r.Context(), chosen.selector)
	if err != nil {
		return err
	}
	page.Frame = visible.SessionFrame(r, e, "compare")
	page.Runs = s.lists.RunsOf(r.Context(), e)
	if page.Report != nil {
		if err := s.addCosts(r.Context(), &page); err != nil {
			return err
		}
	}
	web.Write(w, status, page)
	return nil
}

// compare compares the chosen session, or a job of it, with another one, as ?with=, ?job=, ?with_job= and ?top= say.
// Both sessions are found, loaded and limited like that of any other request.
func (s *Server) compare(r *http.Request, chosen choice) (*compare.Report, error) {
	ctx, cancel := s.findContext(r.Context())
	defer cancel()
	form := r.URL.Query()
	var q compare.Question
	var err error
	if q.Asked, err = compare.ParseAsked(form); err != nil {
		return nil, err
	}
	if q.Session, err = s.sessions.Find(ctx, chosen.selector); err != nil {
		return nil, err
	}
	if q.With, q.Earlier, err = s.comparedWith(ctx, q.Session, form.Get("with")); err != nil {
		return nil, err
	}
	// The comparison opens one session after the other. Their loads begin now, so that they run at the same time.
	s.opts.Sessions.Begin(q.Session.Ref)
	if q.With != nil {
		s.opts.Sessions.Begin(q.With.Ref)
	} else if q.Job == "" && len(q.Earlier) > 0 { // the other one of a whole session is the one before it
		s.opts.Sessions.Begin(q.Earlier[0].Ref)
	}
	wait := s.waitFor(r)
	waitEach := wait / 2 // for the findings of each of the two
	report, err := s.opts.Dashboard.Compare(r.Context(),
		func(_ context.Context, e catalog.Entry) (*moment.Moment, func(), error) {
			side := choice{selector: selectorOf(e.Ref)}
			if e.Ref == q.Session.Ref { // the other one is compared as it was at its end
				side.at = chosen.at
			}
			found, loaded, release, err := s.load(ctx, side, wait)
			if err != nil {
				return nil, nil, err
			}
			return s.momentOf(found, loaded, side.at), release, nil
		}, q, dashboard.FromBrowser(r), waitEach)
	if errors.Is(err, shared.ErrWaited) {
		err = findingsProblem(q.Session.Ref, chosen.at, "api/history/compare?"+r.URL.RawQuery)
	}
	return report, err
}

func (s *Server) addCosts(ctx context.Context, page *web.Compare) (err error) {
	page.Prices = s.opts.Fleet.Prices
	refs := make([]layout.Session, len(page.Runs))
	for i, run := range page.Runs {
		refs[i] = run.Ref
	}
	page.CostOf, err = s.opts.Fleet.Costs(ctx, refs)
	return err
}

// comparedWith returns the session that with names: the name of one of the same cluster, namespace/cluster/session,
// namespace/cluster for its latest one, or the address of a page about it. If with is "", it returns instead the
// earlier sessions, the newest first: of the same cluster, and of other clusters that the same RayJob or RayService
// made. After an error neither counts.
func (s *Server) comparedWith(ctx context.Context, session catalog.Entry, with string) (named *catalog.Entry,
	earlier []catalog.Entry, err error) {
	if with == "" {
		l := s.sessions.List(ctx)
		before := catalog.Filter{Namespace: session.Ref.Namespace, To: session.Start}
		return nil, catalog.Earlier(l.Matching(before, time.Now()), session), l.Unavailable()
	}
	selector := catalog.Selector{Namespace: session.Ref.Namespace, Name: session.Ref.Cluster, Session: with}
	switch parts := strings.Split(catalog.NameIn(with), "/"); len(parts) {
	case 1:
	case 2, 3:
		selector = catalog.Selector{Namespace: parts[0], Name: parts[1], Session: append(parts, catalog.Latest)[2]}
	default:
		return nil, nil, &param.Error{Name: "with", Value: with,
			Want: "a session of the same cluster, or namespace/cluster or namespace/cluster/session"}
	}
	e, err := s.sessions.Find(ctx, selector)
	return &e, nil, err
}
