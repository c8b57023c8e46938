package promapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// sessionLabel is the label with which Ray distinguishes its sessions. Series without it, such as up, get it if several
// sessions are queried.
const sessionLabel = "SessionName"

// querier implements storage.Querier for one session. The engine selects all series of a query before it reads any of
// them, so all are read at once: from chunks, each further pass would take as long as the first.
type querier struct {
	// open returns the session's database. It is not kept, so that of many sessions only the one that is read has to be
	// in memory.
	open       func() *metrics.Database
	memory     *metrics.QueryMemory // of all sessions' queriers
	mint, maxt int64
	// nextBegan is when the next session of the cluster began (Unix milliseconds), which ends the series of this one;
	// 0: there is none.
	nextBegan int64
	// session is the value of sessionLabel for series without, "" to leave them as they are.
	session string
	// plan is charged for what the engine takes for the series; nil: they are not for the engine.
	plan *plan

	selected []*seriesSet // not read yet
}

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	set := &seriesSet{querier: q, ctx: ctx, sorted: sorted, mint: q.mint, maxt: q.maxt, matchers: matchers}
	if hints != nil {
		set.mint, set.maxt = max(q.mint, hints.Start), min(q.maxt, hints.End)
	}
	q.selected = append(q.selected, set)
	return set
}

// readSets reads the series of all sets that were selected so far, at once, and counts their memory, and what the
// engine will take for them if there is a plan. After an error all sets return it, and no series. The first set alone
// warns of what is damaged.
func (q *querier) readSets(ctx context.Context) {
	sets := q.selected
	q.selected = nil
	selections := make([]metrics.Selection, len(sets))
	for i, set := range sets {
		selections[i] = q.selectionOf(set.mint, set.maxt, set.matchers)
	}
	database := q.open()
	found, damaged, err := database.Select(ctx, q.memory, selections...)
	err = ofStore(ctx, err)
	for i, set := range sets {
		set.querier = nil // it is read
		if err == nil {
			err = q.setSeries(ctx, database, set, found[i])
		}
	}
	if err == nil && q.plan != nil {
		err = q.plan.addFound(sets, func(bytes int64) error { return q.memory.Add(database, bytes) })
	}
	for _, set := range sets {
		if set.err = err; err != nil {
			set.series = nil
		}
	}
	if len(sets) > 0 {
		sets[0].warnings = annotations.New().Merge(warningsOf(damaged))
	}
}

// setSeries gives a set the series that were found for it, with the labels that the engine sees. If a later session
// follows, the series end when that began. The memory for this, and for copied labels, counts in the query's memory of
// the database. The database made the found series for this query, so they may be changed.
func (q *querier) setSeries(ctx context.Context, database *metrics.Database, set *seriesSet,
	found []*metrics.Series) error {
	found, err := q.filterBySession(ctx, found, set.matchers)
	if err != nil {
		return err
	}
	set.series = make([]series, len(found))
	bytes := int64(0)
	for i, f := range found {
		shown, copied := q.shownLabels(f)
		set.series[i] = series{f, shown, set.mint, set.maxt}
		if copied {
			bytes += int64(shown.ByteSize())
		}
		if q.nextBegan > 0 {
			bytes += f.AddStaleMarker(q.nextBegan)
		}
	}
	if set.sorted {
		slices.SortFunc(set.series, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	return q.memory.Add(database, bytes)
}

// selectionOf returns what to request from the database. Matchers of sessionLabel are evaluated here, because series
// may get the label here.
func (q *querier) selectionOf(mint, maxt int64, matchers []*labels.Matcher) metrics.Selection {
	if q.session != "" {
		matchers = slices.DeleteFunc(slices.Clone(matchers),
			func(m *labels.Matcher) bool { return m.Name == sessionLabel })
	}
	return metrics.Selection{Mint: mint, Maxt: maxt, Matchers: matchers, MaxValue: maxValueOf(matchers)}
}

// maxValueOf is how long a label may be that matchers' regular expressions are compared with.
func maxValueOf(matchers []*labels.Matcher) int {
	steps := 1.0
	for _, m := range matchers {
		if m.Type == labels.MatchRegexp || m.Type == labels.MatchNotRegexp {
			steps = max(steps, expressionSteps(m.Value))
		}
	}
	return int(maxWork / regexpWork / steps)
}

// filterBySession returns those of the found series that the matchers of sessionLabel accept, in the memory of found.
// This label is not stored, so the database cannot select by it. A query of one session has no such label: all series
// are returned. Comparing one name with a large regular expression may take long, so it looks at ctx before each.
func (q *querier) filterBySession(ctx context.Context, found []*metrics.Series,
	matchers []*labels.Matcher) ([]*metrics.Series, error) {
	if q.session == "" {
		return found, nil
	}
	matchers = slices.DeleteFunc(slices.Clone(matchers),
		func(m *labels.Matcher) bool { return m.Name != sessionLabel })
	selection := metrics.Selection{MaxValue: maxValueOf(matchers)} // for Compare, which needs no other field
	var failed error
	found = slices.DeleteFunc(found, func(s *metrics.Series) bool {
		name := cmp.Or(s.Labels().Get(sessionLabel), q.session)
		return slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
			if failed = cmp.Or(failed, context.Cause(ctx)); failed != nil {
				return false
			}
			var ok bool
			ok, failed = selection.Compare(m, name)
			return !ok
		})
	})
	return found, cmp.Or(failed, context.Cause(ctx))
}

// shownLabels returns a series' labels as the engine sees them: with the session's name, if there is one and the series
// has none. copied says that it was added, so that the labels are a copy of the stored ones.
func (q *querier) shownLabels(s *metrics.Series) (shown labels.Labels, copied bool) {
	stored := s.Labels()
	if q.session == "" || stored.Has(sessionLabel) {
		return stored, false
	}
	return labels.NewBuilder(stored).Set(sessionLabel, q.session).Labels(), true
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints,
	matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return q.gatherTexts(ctx, matchers, func(l labels.Labels, see func(string)) {
		if v := l.Get(name); v != "" {
			see(v)
		}
	})
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string,
	annotations.Annotations, error) {
	return q.gatherTexts(ctx, matchers, func(l labels.Labels, see func(string)) {
		l.Range(func(l labels.Label) { see(l.Name) })
	})
}

// gatherTexts returns, sorted, the different texts that eachText calls see with for the labels of the series that
// match. Only these texts are held in memory, not the series.
func (q *querier) gatherTexts(
	ctx context.Context, matchers []*labels.Matcher, eachText func(l labels.Labels, see func(string)),
) ([]string, annotations.Annotations, error) {
	database, reading := q.open(), *q.memory
	reading.Copies = false // the series are not held beside those of other sessions
	found, damaged, err := database.Select(ctx, &reading, q.selectionOf(q.mint, q.maxt, matchers))
	if err != nil {
		return nil, warningsOf(damaged), ofStore(ctx, err)
	}
	series, err := q.filterBySession(ctx, found[0], matchers)
	if err != nil {
		return nil, warningsOf(damaged), err
	}
	texts := make(map[string]struct{})
	for _, s := range series {
		shown, _ := q.shownLabels(s)
		eachText(shown, func(text string) {
			if _, known := texts[text]; !known && err == nil {
				texts[strings.Clone(text)] = struct{}{} // the text of all labels need not stay in memory
				err = q.memory.Add(database, int64(len(text))+textBytes)
			}
		})
		if err != nil {
			return nil, warningsOf(damaged), err
		}
	}
	return slices.Sorted(maps.Keys(texts)), warningsOf(damaged), nil
}

// textBytes is about what a text takes besides its letters while lists of texts are merged.
const textBytes = 64

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

// warningsOf makes warnings of what was damaged; an answer has a few of them.
func warningsOf(damaged []error) (warnings annotations.Annotations) {
	for _, err := range damaged {
		warnings.Add(err)
	}
	return warnings
}

// series implements storage.Series.
type series struct {
	*metrics.Series
	labels     labels.Labels
	mint, maxt int64
}

// Labels implements storage.Series.
func (s series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return s.Series.Iterator(s.mint, s.maxt)
}

// seriesSet implements storage.SeriesSet. It is read when it is first looked at.
type seriesSet struct {
	querier    *querier // nil after it was read
	ctx        context.Context
	sorted     bool
	mint, maxt int64
	matchers   []*labels.Matcher

	series   []series
	at       int
	err      error
	warnings annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	if s.querier != nil {
		s.querier.readSets(s.ctx)
	}
	s.at++
	return s.at <= len(s.series)
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.series[s.at-1] }

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error { return s.err }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return s.warnings }

// queryable returns queriers for the requested sessions; they return no samples after a moment.
type queryable struct {
	sessions []Session
	until    int64
	plan     *plan // of the query; nil: there is none
}

// maxSessions bounds how many sessions one query reads.
const maxSessions = 100

// Querier implements storage.Queryable: a querier for the time from mint to maxt (Unix milliseconds), of the sessions
// that ran in it. Several sessions are merged, and their series get the label of their session. A session's series end
// when the next one of the cluster began, so that the old values do not count beside the new ones.
func (q queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	maxt = min(maxt, q.until)
	var queriers []storage.Querier
	memory := &metrics.QueryMemory{}
	for i, s := range q.sessions {
		if len(q.sessions) > 1 && !s.mayHaveSamples(mint, maxt) { // a single one has the hours that it has
			continue
		}
		if len(queriers) == maxSessions {
			return nil, fmt.Errorf("more than %d sessions ran in that time: select a shorter time", maxSessions)
		}
		one := &querier{open: s.Open, memory: memory, mint: mint, maxt: maxt, plan: q.plan}
		if len(q.sessions) > 1 {
			one.session = s.Name
		}
		if i+1 < len(q.sessions) && q.sessions[i+1].Start.After(s.Start) {
			one.nextBegan = q.sessions[i+1].Start.UnixMilli()
		}
		queriers = append(queriers, one)
	}
	switch len(queriers) {
	case 0:
		return storage.NoopQuerier(), nil
	case 1:
		return queriers[0], nil
	}
	memory.Copies = true // each session's blocks go before the next one is read
	return storage.NewMergeQuerier(queriers, nil, storage.ChainedSeriesMerge), nil
}
