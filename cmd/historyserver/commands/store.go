package commands

import (
	"context"
	"fmt"
	"os/user"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/findings/outcomes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/session"
)

// storeHistory is the history in the store. history.go says what its methods return.
type storeHistory struct{ *operator }

// newDashboard makes what moments of sessions, and answers about them, come from.
func (o storeHistory) newDashboard() *dashboard.Dashboard {
	return dashboard.New(dashboard.Options{Log: o.log,
		Findings: findings.Reader{Kept: o.indexes().KeptFindings, Metrics: o.metrics()}})
}

// sessions implements history.
func (o storeHistory) sessions(ctx context.Context, names []string, f catalog.Filter) ([]catalog.Entry, error) {
	entries, err := o.matchingSessions(ctx, names, f, time.Now())
	found := make([]*catalog.Entry, len(entries))
	for i := range entries {
		found[i] = &entries[i]
	}
	o.readOutcomes(ctx, found...)
	return entries, err
}

// readOutcomes fills in the outcomes and causes of entries that have none, if they are kept with the sessions' indexes.
func (o storeHistory) readOutcomes(ctx context.Context, entries ...*catalog.Entry) {
	const concurrency = 8
	indexes := o.indexes()
	var g errgroup.Group
	g.SetLimit(concurrency)
	for _, e := range entries {
		g.Go(func() error {
			if e.Outcome != "" {
				return nil
			}
			if head, ok := outcomes.Read(ctx, indexes.KeptFindings, *e); ok {
				e.Outcome, e.Cause = head.Outcome, head.Cause
			}
			return nil
		})
	}
	_ = g.Wait() // they return no errors
}

// stored implements history.
func (o storeHistory) stored(ctx context.Context, name string) (e catalog.Entry, s inventory.Summary, err error) {
	if e, err = o.describedOne(ctx, name); err == nil {
		o.readOutcomes(ctx, &e)
		s, err = inventory.Summarize(ctx, o.store, o.storage.Root, e.Ref, o.storage.BucketKey)
	}
	return e, s, err
}

// loadMoment loads a session, and returns it as it was at its end.
func (o storeHistory) loadMoment(ctx context.Context, from *dashboard.Dashboard,
	e catalog.Entry) (*moment.Moment, error) {
	s, err := session.Load(ctx, o.store, o.storage.Root, e.Ref, session.Options{Log: o.log, Index: o.indexes()})
	if err != nil {
		return nil, err
	}
	m := from.MomentAt(s, moment.AtEnd)
	m.Running = func(context.Context) bool { return e.Running }
	return m, nil
}

// findings implements history. It loads the session; findings that are kept with its index are not computed again.
func (o storeHistory) findings(ctx context.Context, name, job string) (layout.Session, *findings.Report, error) {
	e, err := o.describedOne(ctx, name)
	if err != nil {
		return e.Ref, nil, err
	}
	answers := o.newDashboard()
	m, err := o.loadMoment(ctx, answers, e)
	if err != nil {
		return e.Ref, nil, err
	}
	report, err := answers.Findings(ctx, m)
	if err != nil || job == "" {
		return e.Ref, report, err
	}
	jobs, err := compare.JobsOf(ctx, m)
	if err != nil {
		return e.Ref, nil, err
	}
	found, err := compare.FindJob(jobs, job)
	if err == nil {
		report, err = report.OfJob(found.ID, found.SubmissionID)
	}
	return e.Ref, report, err
}

// status implements history: it loads the session, and looks at it at the moment.
func (o storeHistory) status(ctx context.Context, name, at string) (layout.Session, string, error) {
	e, err := o.describedOne(ctx, name)
	if err != nil {
		return e.Ref, "", err
	}
	m, err := o.loadMoment(ctx, o.newDashboard(), e)
	if err != nil {
		return e.Ref, "", err
	}
	if m.At, err = param.ParseAt(at); err != nil {
		return e.Ref, "", err
	}
	text, err := dashboard.Status(ctx, m)
	return e.Ref, text, err
}

// compare implements history: it loads both sessions, one after the other. All sessions are listed, to find the one
// before if c.with is "".
func (o storeHistory) compare(ctx context.Context, c comparison) (*compare.Report, error) {
	q := compare.Question{Asked: c.Asked}
	entries, err := o.describedSessions(ctx, nil)
	if err != nil {
		return nil, err
	}
	if q.Session, err = findOne(catalog.LookupIn(entries), c.session); err != nil {
		return nil, err
	}
	if c.with != "" {
		with, err := findOne(catalog.LookupIn(entries), c.with)
		if err != nil {
			return nil, err
		}
		q.With = &with
	} else {
		q.Earlier = catalog.Earlier(slices.Values(entries), q.Session)
	}
	answers := o.newDashboard()
	const fromBrowser, unlimited = false, 0 // the wait for findings is not limited
	return answers.Compare(ctx, func(ctx context.Context, e catalog.Entry) (*moment.Moment, func(), error) {
		m, err := o.loadMoment(ctx, answers, e)
		return m, func() {}, err
	}, q, fromBrowser, unlimited)
}

// fleet implements history: it reads the packs of the query's days, and of as many days before, with prices of a file.
func (o storeHistory) fleet(ctx context.Context, q fleet.Query, file string) (*fleet.Report, error) {
	prices, err := fleet.ReadPrices(file)
	if err != nil {
		return nil, settings.UsageError(fmt.Errorf("--prices: %w", err))
	}
	l, err := o.catalog().Packed(ctx, q.Before().From, q.To)
	if err != nil {
		return nil, err
	}
	all := &fleet.Fleet{Packs: &packs.Packs{Store: o.store, Root: o.storage.Root}, Prices: prices}
	return all.Compute(ctx, q, l)
}

// search implements history: it reads the logs from the store itself.
func (o storeHistory) search(ctx context.Context, name string, q *logQuery, emit func(logsearch.Record) error) error {
	n, err := catalog.ParseName(name)
	if err != nil {
		return err
	}
	entries, err := n.All(o.lookup(ctx))
	if err != nil {
		return err
	}
	moments := o.newDashboard()
	// A search needs the logs of sessions, not their tables, so sessions are listed, not loaded.
	opts := logs.Options{List: func(ctx context.Context, ref layout.Session) (*moment.Moment, error) {
		s, err := session.List(ctx, o.store, o.storage.Root, ref)
		if err != nil {
			return nil, err
		}
		return moments.MomentAt(s, moment.AtEnd), nil
	}}
	// Times that were typed are in the time zone of the session's logs, and "1h ago" is before the session's end. The
	// sessions of a cluster have no common zone and end: for them it is UTC, and now.
	times := param.Times{Zone: time.UTC, End: time.Now()}
	if len(entries) == 1 && q.from+q.to != "" {
		m, err := opts.List(ctx, entries[0].Ref)
		if err != nil {
			return err
		}
		if times, err = logs.TimesOf(ctx, m); err != nil {
			return err
		}
	}
	if err := q.readTimes(times); err != nil {
		return err
	}
	return logsearch.Run(ctx, &q.Query, opts.Sources(ctx, entries, &q.Query), emit)
}

// maxNotes is how many notes a command reads. It is more than the server keeps, because commands need the notes on all
// sessions.
const maxNotes = 100_000

func (o *operator) readNotes(ctx context.Context) (*notes.Book, error) {
	book := notes.NewBook(notes.BookOptions{Store: o.store, Root: o.storage.Root, Max: maxNotes, Log: o.log})
	return book, book.Refresh(ctx)
}

// notes implements history.
func (o storeHistory) notes(ctx context.Context, names []string) ([]noted, error) {
	entries, err := catalog.Select(o.lookup(ctx), names)
	if err != nil {
		return nil, err
	}
	return o.notesOn(ctx, entries)
}

// notesOn returns the notes on sessions that are not empty.
func (o storeHistory) notesOn(ctx context.Context, entries []catalog.Entry) (all []noted, err error) {
	book, err := o.readNotes(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if n := book.Of(e.Ref); !n.Empty() {
			all = append(all, noted{nameOf(e.Ref), n})
		}
	}
	return all, nil
}

// annotate implements history. The author is the user of this machine. After an error the notes on earlier sessions are
// changed already.
func (o storeHistory) annotate(ctx context.Context, names []string, edit notes.Edit) ([]noted, error) {
	entries, err := o.namedSessions(ctx, names)
	if err != nil {
		return nil, err
	}
	by := ""
	if me, err := user.Current(); err == nil {
		by = me.Username
	}
	for _, e := range entries {
		if _, err := notes.Change(ctx, o.store, o.storage.Root, e.Ref, func(n *notes.Note) error {
			edit.Apply(n, by)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return o.notesOn(ctx, entries)
}

// findOne looks up the session that a name selects, of a cluster the latest.
func findOne(lookup catalog.Lookup, name string) (catalog.Entry, error) {
	n, err := catalog.ParseName(name)
	if err != nil {
		return catalog.Entry{}, err
	}
	return n.One(lookup)
}
