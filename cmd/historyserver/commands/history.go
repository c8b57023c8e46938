package commands

import (
	"context"
	"net/url"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// history is what commands ask about sessions: the store, or a server over HTTP. Names are those of catalog.ParseName.
type history interface {
	// sessions returns the sessions that have one of the names, or all, if the filter passes them, newest first, with
	// how they ended where that is known.
	sessions(ctx context.Context, names []string, f catalog.Filter) ([]catalog.Entry, error)
	// stored says what is stored for a session.
	stored(ctx context.Context, name string) (catalog.Entry, inventory.Summary, error)
	// findings says why a session ended as it did, or a job of it: one with this ID, or the latest with this entrypoint
	// or name.
	findings(ctx context.Context, name, job string) (layout.Session, *findings.Report, error)
	// status is what `ray status` printed at a moment, as param.ParseAt reads it.
	status(ctx context.Context, name, at string) (layout.Session, string, error)
	compare(ctx context.Context, q comparison) (*compare.Report, error)
	fleet(ctx context.Context, q fleet.Query, prices string) (*fleet.Report, error)
	// search searches the logs of a session, or of all sessions of a cluster.
	search(ctx context.Context, name string, q *logQuery, emit func(logsearch.Record) error) error
	// notes returns the notes on the sessions that have one of the names, or on all, without empty ones.
	notes(ctx context.Context, names []string) ([]noted, error)
	// annotate changes the notes on sessions, and returns them, without empty ones.
	annotate(ctx context.Context, names []string, edit notes.Edit) ([]noted, error)
}

// logQuery is a search of logs. Its times are as they were typed: what they mean depends on the session.
type logQuery struct {
	logsearch.Query
	from, to string
}

// readTimes reads the times as those of a session, or of now.
func (q *logQuery) readTimes(times param.Times) error {
	form := param.Form{Values: url.Values{"--from": {q.from}, "--to": {q.to}}}
	if q.From, q.To = form.Time("--from", times), form.EndTime("--to", times); form.Err != nil {
		return form.Err
	}
	return q.Prepare()
}

// comparison says what to compare.
type comparison struct {
	session, with string // names; with may be "": the session before
	compare.Asked
}
