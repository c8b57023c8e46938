// Package fleet adds up many sessions: how they ended and why, and which resources they used.
//
// Ended sessions are read from the packs of the requested days, a few packs at a time, and from facts that are not packed yet. The report
// keeps sums, not sessions, and the number of a sum's rows is limited. Everything in packs is untrusted input.
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
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Fleet computes reports. Safe for concurrent use.
type Fleet struct {
	// Packs are read for causes, jobs and hours; nil: these are not known.
	Packs *packs.Packs
	// Waiting returns the facts that are not packed yet; nil: there are none.
	Waiting func() map[layout.Session]*packs.Facts
	// Memory limits the memory for packs that are read; nil means no limit.
	Memory *budget.Budget
	// Most limits the sessions of one report, in a server to MaxSessions; 0: no limit.
	Most int

	once  sync.Once
	cache *cache.Cache[time.Time, cachedDay] // see rowsOfDays
}

// TooManyError says that the query selects more sessions than one report may have.
type TooManyError struct{ Sessions, Most int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d sessions began on these days and pass the filters, more than %d", e.Sessions, e.Most)
}

// MaxSessions is the limit for a server, which makes reports for others: reading the packs of so many sessions takes about 10 s.
const MaxSessions = 1_000_000

// reads is the number of days whose packs are read at a time.
const reads = 3

// Compute makes the report about the sessions of a list that a query selects. No other sessions count, whatever is in packs.
func (f *Fleet) Compute(ctx context.Context, q Query, l catalog.Listing) (*Report, error) {
	days := l.ByPackDay(q.Filter, q.Now)
	n := 0
	for _, sessions := range days {
		n += sessions.Len()
	}
	if f.Most > 0 && n > f.Most {
		return nil, &TooManyError{n, f.Most}
	}
	packed, err := f.packsOf(ctx, days)
	if err != nil {
		return nil, err
	}
	unpacked := waiting{texts: make(texts)}
	if f.Waiting != nil {
		unpacked.facts = f.Waiting()
	}
	sums := newSums(q)
	var adding sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(reads)
	for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		g.Go(func() error {
			rows, release, err := f.readDay(ctx, day, packed[day])
			if err != nil {
				return err
			}
			defer release()
			adding.Lock()
			defer adding.Unlock()
			return guard.Do("the sessions of "+day.Format(time.DateOnly), func() error {
				for e := range days[day].All() {
					if e.Running {
						sums.add(&e, nil)
					} else {
						sums.add(&e, unpacked.with(rows, e.Ref))
					}
				}
				return nil
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return sums.report(), nil
}

// waiting are facts that are not packed yet.
type waiting struct {
	facts map[layout.Session]*packs.Facts
	texts texts
}

// with returns the merged facts of a session from packs and waiting facts; nil: there are none.
func (w *waiting) with(rows dayRows, ref layout.Session) *packs.Facts {
	packed, isPacked := rows[ref]
	facts := w.facts[ref]
	switch {
	case facts == nil && !isPacked:
		return nil
	case facts == nil:
		return &packed
	}
	all := w.texts.keep(facts)
	if isPacked {
		all = packs.Merge(packed, all)
	}
	return &all
}

// packsOf returns the packs of days.
func (f *Fleet) packsOf(ctx context.Context, days map[time.Time]catalog.Picked) (map[time.Time][]packs.Pack, error) {
	of := make(map[time.Time][]packs.Pack)
	if f.Packs == nil || len(days) == 0 {
		return of, nil
	}
	all, err := f.Packs.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, pack := range all {
		of[pack.Day] = append(of[pack.Day], pack)
	}
	return of, nil
}
