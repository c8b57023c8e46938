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

// history answers what commands ask about sessions: from the store, or from a server over HTTP. Names of sessions are
// those of catalog.ParseName.
type history interface {
	// sessions returns the sessions that have one of the names (all if there are no names) and pass the filter, newest
	// first, with their outcomes if these are known.
	sessions(ctx context.Context, names []string, f catalog.Filter) ([]catalog.Entry, error)
	// stored says what is stored for a session.
	stored(ctx context.Context, name string) (catalog.Entry, inventory.Summary, error)
	// findings says why a session ended as it did or, if job is not "", why a job of it did: the one with this ID, else
	// the latest with this entrypoint or name.
	findings(ctx context.Context, name, job string) (layout.Session, *findings.Report, error)
	// status returns the text that `ray status` printed at a moment (see param.ParseAt; "" is the session's end).
	status(ctx context.Context, name, at string) (ref layout.Session, text string, err error)
	// compare compares two sessions, or two runs of a job.
	compare(ctx context.Context, q comparison) (*compare.Report, error)
	// fleet computes totals over many sessions. prices is a file with prices, "" for none; a server refuses it.
	fleet(ctx context.Context, q fleet.Query, prices string) (*fleet.Report, error)
	// search searches the logs of a session, or of all sessions of a cluster, and calls emit with each record.
	search(ctx context.Context, name string, q *logQuery, emit func(logsearch.Record) error) error
	// notes returns the notes that are not empty on the sessions that have one of the names, or on all sessions if
	// there are no names.
	notes(ctx context.Context, names []string) ([]noted, error)
	// annotate changes the notes on sessions, and returns those that are not empty then.
	annotate(ctx context.Context, names []string, edit notes.Edit) ([]noted, error)
}

// logQuery is a search of logs. from and to are times as they were typed, because what they mean depends on the
// session.
type logQuery struct {
	logsearch.Query
	from, to string
}

// readTimes sets the query's times to what from and to mean by times.
func (q *logQuery) readTimes(times param.Times) error {
	form := param.Form{Values: url.Values{"--from": {q.from}, "--to": {q.to}}}
	q.From, q.To = form.Time("--from", times), form.EndTime("--to", times)
	if form.Err != nil {
		return form.Err
	}
	return q.Prepare()
}

// comparison says what to compare: the sessions with two names. with may be "", which is the session before the first.
type comparison struct {
	session, with string
	compare.Asked
}
