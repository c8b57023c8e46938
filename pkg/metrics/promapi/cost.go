package promapi

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// The engine limits the samples of a query, but neither what their series take nor work that it does between two looks
// at the context. So both are computed before it evaluates anything: at most how much memory an expression takes for
// series and their labels at one time, from the series that its selectors found.
const (
	// seriesBytes is what a series takes in an operand, nodeBytes in the evaluation of what has operands.
	seriesBytes, nodeBytes = 200, 300
	// The engine makes room for a value at each of the steps, up to maxPoints, in each series that an operator or a
	// function of vectors returns.
	pointBytes, maxRoom = 16, 5000
	// labelBytes is what a label takes besides its letters, numberBytes the longest number as count_values writes it.
	labelBytes, numberBytes = 8, 340
	// warningBytes is what a warning about a series takes besides its labels.
	warningBytes = 200
	// maxWork bounds the steps that the engine takes for one series without a look at the context: some seconds.
	maxWork = 2e9
	// sortWork is how many steps sorting takes for each value, and regexpWork a step of a regular expression.
	sortWork, regexpWork = 20, 10
)

var (
	errQueryLabels = fmt.Errorf("the series that the expression makes, or their labels, are too large: %w",
		metrics.ErrTooMuch)
	errQueryWork = errors.New("the expression needs too much time for each series: use a shorter range, a longer " +
		"step, or a smaller regular expression")
)

// cost is what evaluating a node takes at most, and what its result has at most. Numbers are floats, which do not
// overflow.
type cost struct {
	peak float64 // bytes while it is evaluated, besides what storage holds
	size float64 // bytes of the result

	series float64 // their number in the result
	// Labels of the result are as series had them in storage, stored bytes in all series together, or were written by
	// the expression: written has by a label's name the bytes of its longest value.
	stored  float64
	written map[string]float64
	// from are the selectors whose labels the series may have.
	from []*selected
	// groups returns the groups that a grouping makes. nil: nothing is known of them.
	groups func(by grouping) groups
	// values returns how many different values the samples have; nil: not known.
	values func() float64
	// exact: all labels of stored series are looked at. shared: labels are those of an operand, not copies.
	exact, shared bool
}

func (c *cost) allLabelBytes() float64 { return c.stored + c.series*c.writtenLabels() }

// writtenLabels returns the bytes of the labels in one series that the expression wrote.
func (c *cost) writtenLabels() (bytes float64) {
	for name, longest := range c.written {
		bytes += float64(len(name)+labelBytes) + longest
	}
	return bytes
}

// longestValue returns the bytes of the longest value of a label.
func (c *cost) longestValue(name string) float64 {
	n := c.written[name]
	for _, s := range c.from {
		n = max(n, s.longestValue(name, c.exact))
	}
	return n
}

// largestLabels returns the bytes of the largest series' labels.
func (c *cost) largestLabels() float64 {
	n := 0.0
	for _, s := range c.from {
		n = max(n, s.largest)
	}
	return n + c.writtenLabels()
}

// subsetCost is the result of an operator or a function that returns some of the series.
func (c *cost) subsetCost() *cost {
	result := c.relabeledCost()
	result.shared, result.values = true, c.values
	return result
}

// groupsAtMost returns the groups that a grouping makes at most: no more, and none larger, than there are series.
func (c *cost) groupsAtMost(by grouping) groups {
	if c.groups == nil {
		return groups{c.series, c.series}
	}
	g := c.groups(by)
	return groups{min(g.number, c.series), min(g.largest, c.series)}
}

// grouping says by which labels series are grouped: by these (on), or by all but these.
type grouping struct {
	on    bool
	names []string
}

// groupsBy reports whether series are grouped by a label.
func (g grouping) groupsBy(name string) bool { return slices.Contains(g.names, name) == g.on }

// hasAll reports whether series are grouped by all labels of another grouping.
func (g grouping) hasAll(other grouping) bool {
	switch {
	case other.on:
		return !slices.ContainsFunc(other.names, func(name string) bool { return !g.groupsBy(name) })
	case g.on:
		return false // the other one has all labels that are not named
	}
	return !slices.ContainsFunc(g.names, other.groupsBy)
}

// groups are those that a grouping puts series into: at most so many, with at most so many series in the largest.
type groups struct{ number, largest float64 }

// unknownGroups are groups of which nothing is known: as many and as large as there are series.
var unknownGroups = groups{math.Inf(1), math.Inf(1)}

// relabeledCost is the result of an operator or a function that makes the labels of its operand again, with or without
// the name.
func (c *cost) relabeledCost() *cost {
	return &cost{series: c.series, stored: c.stored, written: c.written, from: c.from, groups: c.groups, exact: c.exact}
}

// withLabel is the cost of the result of a function that writes a label, name, with a value of at most so many bytes.
// In series that the function's expression does not match, the label stays as it was. Groupings that do not look at the
// label make the same groups as before. A label that is new can only split groups; otherwise nothing is known of them.
func (c *cost) withLabel(name string, bytes float64) *cost {
	result := c.relabeledCost()
	result.values, result.written = c.values, make(map[string]float64, len(c.written)+1)
	maps.Copy(result.written, c.written)
	result.written[name] = max(bytes, c.written[name])
	added := c.longestValue(name) == 0 // the series did not have the label
	result.groups = func(by grouping) groups {
		switch {
		case !by.groupsBy(name):
			return c.groupsAtMost(by)
		case added:
			return groups{number: math.Inf(1), largest: c.groupsAtMost(by).largest}
		}
		return unknownGroups
	}
	return result
}

// writeLongest says that each series has these labels, with values of an operand.
func (c *cost) writeLongest(operand *cost, names []string) {
	for _, name := range names {
		c.written[name] = operand.longestValue(name)
	}
}

// signatureBytes returns the bytes that matching takes for the operand's series: of the labels they are matched by
// (with ignoring at most all), and of each series itself.
func (c *cost) signatureBytes(m *parser.VectorMatching) float64 {
	bytes := c.allLabelBytes()
	if m.On {
		labelsBytes := 0.0
		for _, name := range m.MatchingLabels {
			labelsBytes += float64(len(name)+labelBytes) + c.longestValue(name)
		}
		bytes = min(bytes, c.series*labelsBytes)
	}
	return bytes + c.series*nodeBytes
}

// unionCost is the cost of the result of the operator or: at most the series of both sides, with the labels of both.
func unionCost(left, right *cost) *cost {
	c := &cost{
		series: left.series + right.series, stored: left.stored + right.stored,
		from:    slices.Concat(left.from, right.from),
		written: make(map[string]float64, len(left.written)+len(right.written)),
		exact:   left.exact || right.exact, shared: true,
		groups: func(by grouping) groups {
			a, b := left.groupsAtMost(by), right.groupsAtMost(by)
			return groups{a.number + b.number, a.largest + b.largest}
		},
	}
	for _, side := range []*cost{left, right} {
		for name, bytes := range side.written {
			c.written[name] = max(c.written[name], bytes)
		}
	}
	return c
}
