// Package fleet adds up many sessions: how they ended and why, and which resources they used.
//
// Ended sessions are read from the packs of the requested days, a few packs at a time, and from facts that are not
// packed yet. The report keeps sums, not sessions, and the number of a sum's rows is limited. Everything in packs is
// untrusted input.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Fleet computes reports. Safe for concurrent use.
type Fleet struct {
	// Packs are read for causes, jobs and hours; nil: these are not known.
	Packs *packs.Packs
	// Unpacked returns the facts that are not packed yet; nil: there are none.
	Unpacked func() map[layout.Session]*packs.Facts
	// Memory limits the memory for packs that are read; nil means no limit.
	Memory *budget.Budget
	// MaxSessions limits the sessions of one report, in a server to ServerMaxSessions; 0: no limit.
	MaxSessions int
	// Prices are nil where nothing has one.
	Prices *Prices

	once  sync.Once
	cache *cache.Cache[time.Time, cachedDay] // see rowsOfDays
}

// TooManyError says that the query selects more sessions than one report may have.
type TooManyError struct{ Sessions, Max int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d sessions began on these days and pass the filters, more than %d", e.Sessions, e.Max)
}

// ServerMaxSessions is the limit for a server, which makes reports for others: reading the packs of so many sessions
// takes about 10 s.
const ServerMaxSessions = 1_000_000

// concurrentDays is the number of days whose packs are read at a time.
const concurrentDays = 3

// Compute makes the report about the sessions of a list that a query selects. No other sessions count, whatever is in
// packs. Report.Before is nil if its sessions and the others are together too many for one report. The error is a
// *TooManyError if the sessions without those are too many, and a *param.Error if the query is by cost and nothing has
// a price.
func (f *Fleet) Compute(ctx context.Context, q Query, l catalog.Listing) (*Report, error) {
	if q.By == ByCost && f.Prices == nil {
		return nil, &param.Error{Name: "by", Value: q.By, Want: "another resource: the server has no --prices"}
	}
	before := q.Before()
	days, daysBefore := l.ByPackDay(q.Filter, q.Now), l.ByPackDay(before.Filter, q.Now)
	n := countSessions(days)
	if f.MaxSessions > 0 && n > f.MaxSessions {
		return nil, &TooManyError{n, f.MaxSessions}
	}
	// The unpacked facts are taken before the packs are listed. So facts that are packed meanwhile are in both, and
	// merged; in the other order they could be in neither.
	unpacked := f.unpackedFacts()
	var packed map[time.Time][]packs.Pack
	if f.Packs != nil && len(days)+len(daysBefore) > 0 {
		var err error
		if packed, err = f.packsByDay(ctx); err != nil {
			return nil, err
		}
	}
	sums := newSums(q, f.Prices)
	if err := f.addDays(ctx, sums, days, packed, unpacked); err != nil {
		return nil, err
	}
	report := sums.report()
	if f.MaxSessions > 0 && n+countSessions(daysBefore) > f.MaxSessions {
		return report, nil
	}
	earlier := newSums(before, f.Prices)
	earlier.totalOnly = true
	if err := f.addDays(ctx, earlier, daysBefore, packed, unpacked); err != nil {
		return nil, err
	}
	report.Before = earlier.totalBefore()
	return report, nil
}

// countSessions returns how many sessions the days have together.
func countSessions(days map[time.Time]catalog.Picked) (n int) {
	for _, sessions := range days {
		n += sessions.Len()
	}
	return n
}

// addDays adds the sessions of days with their facts, which are packed or unpacked, to the sums, a few days at a time.
func (f *Fleet) addDays(ctx context.Context, sums *sums, days map[time.Time]catalog.Picked,
	packed map[time.Time][]packs.Pack, unpacked unpackedFacts) error {
	var sumsMu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrentDays)
	for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		g.Go(func() error {
			rows, release, err := f.readDay(ctx, day, packed[day])
			if err != nil {
				return err
			}
			defer release()
			sumsMu.Lock()
			defer sumsMu.Unlock()
			// Facts are untrusted: a panic while they are added is an error of this day.
			return guard.CatchPanic("the sessions of "+day.Format(time.DateOnly), func() error {
				for e := range days[day].All() {
					if e.Running {
						sums.add(&e, nil) // a running session has no facts
					} else {
						sums.add(&e, unpacked.factsOf(rows, e.Ref))
					}
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// unpackedFacts are facts that are not packed yet.
type unpackedFacts struct {
	facts map[layout.Session]*packs.Facts
	texts texts
}

// unpackedFacts returns the facts that are not packed now.
func (f *Fleet) unpackedFacts() unpackedFacts {
	u := unpackedFacts{texts: make(texts)}
	if f.Unpacked != nil {
		u.facts = f.Unpacked()
	}
	return u
}

// factsOf returns the facts of a session, merged from rows, which come from packs, and the unpacked ones; nil if
// neither has any.
func (u *unpackedFacts) factsOf(rows dayRows, ref layout.Session) *packs.Facts {
	packed, isPacked := rows[ref]
	unpacked := u.facts[ref]
	switch {
	case unpacked == nil && !isPacked:
		return nil
	case unpacked == nil:
		return &packed
	}
	all := u.texts.reportedPart(unpacked)
	if isPacked {
		all = packs.Merge(packed, all)
	}
	return &all
}

// packsByDay lists all packs, by their day.
func (f *Fleet) packsByDay(ctx context.Context) (map[time.Time][]packs.Pack, error) {
	all, err := f.Packs.List(ctx)
	byDay := make(map[time.Time][]packs.Pack)
	for _, pack := range all {
		byDay[pack.Day] = append(byDay[pack.Day], pack)
	}
	return byDay, err
}
