package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/fleet"
	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

const (
	// fleetWait is how long a report may take; one of a million sessions takes some 10 s of 2 processors.
	fleetWait = 50 * time.Second
	// maxFleets is how many reports are made at a time.
	maxFleets = 2
)

// addFleet adds what tells of all sessions together.
func (s *Server) addFleet(ws *restful.WebService) {
	s.get(ws, "/fleet", s.fleetPage)
	s.get(ws, "/api/history/fleet", s.fleetData)
}

// fleetData answers as JSON or, with format=csv, with one table.
func (s *Server) fleetData(w http.ResponseWriter, r *request) error {
	form := r.URL.Query()
	table := form.Get("table")
	switch format := form.Get("format"); format {
	case "csv":
		if form.Get("top") == "" {
			form.Set("top", strconv.Itoa(fleet.MaxTop))
		}
	case "", "json":
	default:
		return problem.BadRequest(fmt.Errorf("format=%.40q: want json or csv", format))
	}
	report, l, err := s.fleetOf(r, form)
	if err != nil {
		return err
	}
	if l.Err != nil {
		w.Header().Set("Warning", `110 - "the figures may be old: the storage could not be listed"`)
	}
	w.Header().Set("Cache-Control", "no-store")
	if form.Get("format") != "csv" {
		writeJSON(w, http.StatusOK, map[string]any{"result": true, "msg": "", "data": report})
		return nil
	}
	var body bytes.Buffer
	if err := report.WriteCSV(&body, table); err != nil {
		return problem.BadRequest(err)
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="fleet-%s-%s-%s.csv"`, table, report.From, report.To))
	_, _ = w.Write(body.Bytes())
	return nil
}

func (s *Server) fleetPage(w http.ResponseWriter, r *request) error {
	if strings.HasSuffix(r.URL.Path, "/") { // the page's links are relative
		browser.Redirect(w, http.StatusFound, "../fleet")
		return nil
	}
	form := r.URL.Query()
	report, l, err := s.fleetOf(r, form)
	if err != nil {
		return err
	}
	page := web.Fleet{Base: base(r.Request), Form: form, Report: report}
	if l.Err != nil {
		page.Trouble = problem.Of(l.Err, s.opts.Storage).Detail
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, http.StatusOK, page)
	return nil
}

// fleetOf adds up the sessions that the caller may see.
func (s *Server) fleetOf(r *request, form url.Values) (*fleet.Report, listing, error) {
	q, err := fleet.ParseQuery(form, time.Now())
	if err != nil {
		return nil, listing{}, problem.BadRequest(err)
	}
	soon, cancel := context.WithTimeoutCause(r.Context(), homepageWait, problem.ErrWaited)
	defer cancel()
	l := s.sessions.list(soon)
	if l.Err != nil && l.At.IsZero() {
		return nil, l, l.Err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), fleetWait, errSlowFleet)
	defer cancel()
	select {
	case s.fleets <- struct{}{}:
		defer func() { <-s.fleets }()
	case <-ctx.Done():
		return nil, l, context.Cause(ctx)
	}
	report, err := s.opts.Fleet.Compute(ctx, q, l.Listing)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	var many *fleet.TooManyError
	if errors.As(err, &many) {
		err = &problem.Problem{Status: http.StatusBadRequest, Title: "Too many sessions", Detail: problem.Sentence(err), Advice: fewerDays}
	}
	return report, l, err
}

const fewerDays = "Ask for fewer days. For all of them DuckDB or Ray Data read the packs, as docs/analysis.md shows."

var errSlowFleet = &problem.Problem{
	Status: http.StatusServiceUnavailable, Title: "Too slow", Detail: "Reading what is known of these sessions took too long.", Advice: fewerDays,
}
