package promapi

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// plan is a query that is about to run, with what its selectors found.
type plan struct {
	expression parser.Expr
	selectors  []*parser.VectorSelector // in the order in which the engine selects
	at         moments
	maxSamples float64
	selected   map[*parser.VectorSelector]*selected
	charged    float64 // of the memory that it takes
}

// newPlan checks a query that is to be evaluated from start to end at every step, or once if step is 0, and returns
// what is needed to tell its memory while its series are read.
func (a *API) newPlan(query string, start, end time.Time, step time.Duration) (*plan, error) {
	if err := checkExpressions(query); err != nil {
		return nil, err
	}
	expression, err := a.parser.ParseExpr(query)
	if err != nil {
		return nil, err
	}
	span := end.UnixMilli() - start.UnixMilli()
	if err = checkSubqueries(expression, span, int64(a.opts.MaxSamples)); err != nil {
		return nil, err
	}
	once := moments{step: 1}
	p := &plan{expression: expression, at: once, maxSamples: float64(a.opts.MaxSamples),
		selected: make(map[*parser.VectorSelector]*selected)}
	if step > 0 {
		p.at = moments{float64(span), float64(step.Milliseconds())}
	}
	// alone says that something large may be evaluated without a selector, or before one is read. Then the memory is
	// computed now, and a query that would take more than maxAlone is refused.
	alone := false
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			p.selectors = append(p.selectors, n)
			p.selected[n] = &selected{}
		case *parser.SubqueryExpr:
			alone = true
		case *parser.Call:
			alone = alone || strings.HasPrefix(n.Func.Name, "label_")
		}
		return nil
	})
	if !alone && len(p.selectors) > 0 {
		return p, nil
	}
	bytes, err := p.engineMemory(exactly) // as far as that can be told before series are read
	if err == nil && bytes > maxAlone {
		err = errQueryLabels
	}
	return p, err
}

// maxAlone is how much memory an expression may take apart from the series that its selectors find.
const maxAlone = 4 << 20

// precision is how a query's memory is computed: exactly by the labels of all series, or roughly by their number and
// sizes, which is faster and may be far too high.
type precision bool

const (
	roughly precision = false
	exactly precision = true
)

// engineMemory returns how many bytes the engine takes at most. The error says that this is too much for any query, or
// that the query takes too much time.
func (p *plan) engineMemory(how precision) (bytes float64, err error) {
	e := &evaluation{exact: how == exactly, selected: p.selected, maxSamples: p.maxSamples}
	c := e.costOf(p.expression, p.at)
	switch {
	case e.work > maxWork:
		return 0, errQueryWork
	case c.peak > overflowBytes:
		return 0, errQueryLabels
	}
	return c.peak, nil
}

// overflowBytes is more than any query may take, and small enough for an integer.
const overflowBytes = 1 << 60

// addFound adds what the selectors, in their order, found in one session, and calls charge with how many more bytes the
// engine then takes. First it does so with a rough figure, which may be far too high; if charge refuses that, with an
// exact one, for which all labels are counted.
func (p *plan) addFound(sets []*seriesSet, charge func(bytes int64) error) error {
	if len(sets) != len(p.selectors) {
		return fmt.Errorf("%d selections of %d selectors", len(sets), len(p.selectors))
	}
	for i, set := range sets {
		p.selected[p.selectors[i]].addSeries(set.series)
	}
	var err error
	for _, how := range []precision{roughly, exactly} {
		var bytes float64
		if bytes, err = p.engineMemory(how); err != nil {
			continue
		}
		more := max(0, bytes-p.charged)
		if err = charge(int64(more)); err == nil {
			p.charged += more
			return nil
		}
	}
	if errors.Is(err, metrics.ErrTooMuch) {
		return errQueryLabels
	}
	return err
}

// selected is what a selector found in all sessions.
type selected struct {
	count   float64
	bytes   float64 // of labels
	largest float64 // bytes of the labels of a series
	series  []series

	longestOf map[string]float64
	groupsOf  map[string]groups
}

// addSeries adds series, and measures their labels.
func (s *selected) addSeries(found []series) {
	s.count += float64(len(found))
	s.series = append(s.series, found...)
	s.longestOf, s.groupsOf = nil, nil
	for _, f := range found {
		bytes := float64(f.labels.ByteSize())
		s.bytes += bytes
		s.largest = max(s.largest, bytes)
	}
}

// mostReads returns how often the series was read that was read most often.
func (s *selected) mostReads() float64 {
	n := 0
	for _, f := range s.series {
		n = max(n, f.Reads())
	}
	return float64(n)
}

// longestValue returns how many bytes the longest value of a label has; if it need not be exact, a number that no value
// exceeds.
func (s *selected) longestValue(name string, exact bool) float64 {
	if !exact {
		return s.largest
	}
	if n, known := s.longestOf[name]; known {
		return n
	}
	n := 0
	for _, f := range s.series {
		n = max(n, len(f.labels.Get(name)))
	}
	if s.longestOf == nil {
		s.longestOf = make(map[string]float64)
	}
	s.longestOf[name] = float64(n)
	return float64(n)
}

// countGroups returns how many groups an aggregation or a match puts the series into, and how large the largest is. A
// metric's name does not tell groups apart. The result is kept, because a chain of operators asks for the same ones
// repeatedly.
func (s *selected) countGroups(by grouping) groups {
	names := slices.Sorted(slices.Values(by.names))
	key := fmt.Sprintf("%t %q", by.on, names)
	if g, known := s.groupsOf[key]; known {
		return g
	}
	counts, largest := make(map[uint64]int), 0
	var buf []byte
	for _, f := range s.series {
		var hash uint64
		if by.on {
			hash, buf = f.labels.HashForLabels(buf, names...)
		} else {
			hash, buf = f.labels.HashWithoutLabels(buf, names...)
		}
		counts[hash]++
		largest = max(largest, counts[hash])
	}
	if s.groupsOf == nil {
		s.groupsOf = make(map[string]groups)
	}
	s.groupsOf[key] = groups{float64(len(counts)), float64(largest)}
	return s.groupsOf[key]
}

// countValues returns how many different values the series have, infinity if they are maxValues or more.
func (s *selected) countValues() float64 {
	values := make(map[uint64]struct{})
	for _, f := range s.series {
		f.Values(func(v float64) bool {
			values[math.Float64bits(v)] = struct{}{}
			return len(values) < maxValues
		})
		if len(values) == maxValues {
			return math.Inf(1)
		}
	}
	return float64(len(values))
}

// maxValues is how many different values are counted.
const maxValues = 10_000
