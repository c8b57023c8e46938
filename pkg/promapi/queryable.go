package promapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// sessionLabel is the label by which Ray tells its sessions apart. Series that have none, such as up, get it where several are asked.
const sessionLabel = "SessionName"

// querier implements storage.Querier over one session.
type querier struct {
	database   *metrics.Database
	mint, maxt int64
	// session is the value of sessionLabel for series without, "" to leave them as they are.
	session string
}

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	mint, maxt := q.mint, q.maxt
	if hints != nil {
		mint, maxt = max(mint, hints.Start), min(maxt, hints.End)
	}
	found, damaged, err := q.find(ctx, mint, maxt, matchers)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	set := &seriesSet{warnings: annotations.New().Merge(warningsOf(damaged))}
	for _, s := range found {
		set.series = append(set.series, series{s, q.labels(s), mint, maxt})
	}
	if sorted {
		slices.SortFunc(set.series, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	return set
}

// find asks the database. What matchers say of sessionLabel is looked at here, where series may get it.
func (q *querier) find(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) ([]*metrics.Series, []error, error) {
	if q.session == "" {
		return q.database.Series(ctx, mint, maxt, matchers...)
	}
	var session, others []*labels.Matcher
	for _, m := range matchers {
		if m.Name == sessionLabel {
			session = append(session, m)
		} else {
			others = append(others, m)
		}
	}
	found, damaged, err := q.database.Series(ctx, mint, maxt, others...)
	found = slices.DeleteFunc(found, func(s *metrics.Series) bool {
		of := q.labels(s).Get(sessionLabel)
		return slices.ContainsFunc(session, func(m *labels.Matcher) bool { return !m.Matches(of) })
	})
	return found, damaged, err
}

func (q *querier) labels(s *metrics.Series) labels.Labels {
	l := s.Labels()
	if q.session == "" || l.Has(sessionLabel) {
		return l
	}
	return labels.NewBuilder(l).Set(sessionLabel, q.session).Labels()
}

// LabelValues implements storage.LabelQuerier.
func (q *querier) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	values := make(map[string]struct{})
	damaged, err := q.each(ctx, matchers, func(l labels.Labels) {
		if v := l.Get(name); v != "" {
			values[v] = struct{}{}
		}
	})
	return sortedKeys(values), warningsOf(damaged), err
}

// LabelNames implements storage.LabelQuerier.
func (q *querier) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	names := make(map[string]struct{})
	damaged, err := q.each(ctx, matchers, func(l labels.Labels) {
		l.Range(func(l labels.Label) { names[l.Name] = struct{}{} })
	})
	return sortedKeys(names), warningsOf(damaged), err
}

func (q *querier) each(ctx context.Context, matchers []*labels.Matcher, do func(labels.Labels)) ([]error, error) {
	found, damaged, err := q.find(ctx, q.mint, q.maxt, matchers)
	for _, s := range found {
		do(q.labels(s))
	}
	return damaged, err
}

func sortedKeys(set map[string]struct{}) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

// maxWarnings bounds how many damaged objects an answer names.
const maxWarnings = 10

func warningsOf(damaged []error) annotations.Annotations {
	var warnings annotations.Annotations
	for i, err := range damaged {
		if i == maxWarnings {
			warnings.Add(errors.New("more of the stored metrics is damaged"))
			break
		}
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

// seriesSet implements storage.SeriesSet.
type seriesSet struct {
	series   []series
	at       int
	warnings annotations.Annotations
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	s.at++
	return s.at <= len(s.series)
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.series[s.at-1] }

// Err implements storage.SeriesSet.
func (*seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (s *seriesSet) Warnings() annotations.Annotations { return s.warnings }

// queryable gives queriers over the sessions that are asked, none of which sees what came after a moment.
type queryable struct {
	sessions []Session
	until    int64
}

// maxSessions bounds how many sessions one query reads.
const maxSessions = 100

// Querier implements storage.Queryable.
func (q queryable) Querier(mint, maxt int64) (storage.Querier, error) {
	maxt = min(maxt, q.until)
	var queriers []storage.Querier
	for _, s := range q.sessions {
		if !s.ran(mint, maxt) {
			continue
		}
		if len(queriers) == maxSessions {
			return nil, fmt.Errorf("more than %d sessions ran in that time: ask for a shorter one", maxSessions)
		}
		of := &querier{database: s.Open(), mint: mint, maxt: maxt}
		if len(q.sessions) > 1 {
			of.session = s.Name
		}
		queriers = append(queriers, of)
	}
	switch len(queriers) {
	case 0:
		return storage.NoopQuerier(), nil
	case 1:
		return queriers[0], nil
	}
	return storage.NewMergeQuerier(queriers, nil, storage.ChainedSeriesMerge), nil
}
