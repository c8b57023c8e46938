package list

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

const (
	// reportWait is how long a report may take; one of a million sessions takes about 10 s of 2 processors.
	reportWait = 50 * time.Second
	// reportTurn is how long a report may take while other callers wait for theirs.
	reportTurn = 20 * time.Second
	// maxReports is how many reports are made at a time.
	maxReports = 2
)

// FleetDataParams are the names of the parameters of FleetData.
var FleetDataParams = slices.Concat(fleet.Params, []string{"format", "table"})

// FleetData answers with the fleet's totals as JSON or, with format=csv, with the one of their tables that ?table=
// names, as long as tables may be unless ?top= says how many rows are wanted.
func (h *Handlers) FleetData(w http.ResponseWriter, r *http.Request) error {
	form := param.Form{Values: r.URL.Query()}
	table, format := form.Get("table"), form.OneOf("format", "json", "csv")
	if format == "csv" && !slices.Contains(fleet.Tables, table) {
		return &param.Error{Name: "table", Value: table, Want: "one of " + strings.Join(fleet.Tables, ", ")}
	}
	if form.Err != nil {
		return form.Err
	}
	if format == "csv" && form.Get("top") == "" { // a table to be saved has all rows that there can be
		form.Set("top", strconv.Itoa(fleet.MaxTop))
	}
	const whole = true // a program would take the totals of a part of the sessions for those of all
	report, l, err := h.fleetReport(r, form.Values, whole)
	if err != nil {
		return err
	}
	if warning := l.Warning("figures"); warning != "" {
		w.Header().Set("Warning", warning)
	}
	if format != "csv" {
		writer.Data(w, report)
		return nil
	}
	var body bytes.Buffer
	if err := report.WriteCSV(&body, table); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="fleet-%s-%s-%s.csv"`, table, report.From,
		report.To))
	_, _ = w.Write(body.Bytes())
	return nil
}

// FleetPage is the page with the fleet's totals.
func (h *Handlers) FleetPage(w http.ResponseWriter, r *http.Request) error {
	form := r.URL.Query()
	page := web.Fleet{Frame: visible.Frame(r), Form: form, Priced: h.opts.Fleet.Prices != nil,
		Watched: h.opts.Sessions.Live != nil}
	const whole = false // the page says if older sessions are still missing
	report, l, err := h.fleetReport(r, form, whole)
	var wrong *param.Error
	switch {
	case errors.As(err, &wrong):
		page.Wrong, page.Report = web.Wrong{Error: *wrong}, &fleet.Report{}
		web.Write(w, http.StatusBadRequest, page)
		return nil
	case err != nil:
		return err
	}
	page.Report, page.Beginning = report, l.Beginning
	if why := cmp.Or(l.Err, l.AccessErr); why != nil {
		page.Trouble = problem.Of(why, h.opts.Storage).Detail
	}
	web.Write(w, http.StatusOK, page)
	return nil
}

// fleetReport computes the totals that a form asks for over the sessions that the caller may see, and returns them with
// the list of these sessions. If whole is set, it refuses with errBeginning while the server still reads older
// sessions.
func (h *Handlers) fleetReport(r *http.Request, form url.Values, whole bool) (*fleet.Report, visible.Listing, error) {
	q, err := fleet.ParseQuery(form, time.Now())
	if err == nil {
		err = findings.CheckKind(q.Filter)
	}
	if err != nil {
		return nil, visible.Listing{}, err
	}
	soon, cancel := context.WithTimeoutCause(r.Context(), homepageWait, shared.ErrWaited)
	defer cancel()
	l := h.opts.Sessions.List(soon)
	if err := l.Unavailable(); err != nil {
		return nil, l, err
	}
	if whole && l.Beginning {
		return nil, l, errBeginning
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), reportWait, errSlowFleet)
	defer cancel()
	ctx, done, err := h.reports.Take(ctx, access.CallerOf(r), turns.NoLimit)
	if err != nil {
		return nil, l, err
	}
	defer done()
	report, err := h.opts.Fleet.Compute(ctx, q, l.Listing)
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	if _, ok := errors.AsType[*fleet.TooManyError](err); ok {
		err = &problem.Problem{Status: http.StatusBadRequest, Title: "Too many sessions", Detail: problem.Sentence(err),
			Advice: fewerDays}
	}
	return report, l, err
}

const fewerDays = "Select fewer days. For all of them, read the packs with DuckDB or Ray Data; see docs/analysis.md."

var errSlowFleet = &problem.Problem{
	Status: http.StatusServiceUnavailable, Title: "Too slow",
	Detail: "Reading the facts of these sessions took too long.", Advice: fewerDays,
}
