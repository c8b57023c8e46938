package promapi

import (
	"errors"
	"fmt"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

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
	held float64 // bytes of the result

	series float64
	// stored are the bytes of labels that series had in storage, and written those of a series that the expression
	// wrote, by name; both are in the result.
	stored  float64
	written map[string]float64
	// from are the selectors whose labels the series may have.
	from []*selected
	// groups returns how many different values these labels have, or all but these, and how many series have the same
	// ones. nil: it is not known, except that there are not more than series.
	groups func(on bool, names []string) (different, same float64)
	// values returns how many different values the samples have; nil: not known.
	values func() float64
	// exact: all labels of stored series are looked at. shared: labels are those of an operand, not copies.
	exact, shared bool
}

// labels returns the bytes of all labels.
func (c *cost) labels() float64 {
	n := 0.0
	for name, bytes := range c.written {
		n += float64(len(name)+labelBytes) + bytes
	}
	return c.stored + c.series*n
}

// longest returns the longest value of a label.
func (c *cost) longest(name string) float64 {
	n := c.written[name]
	for _, s := range c.from {
		n = max(n, s.longest(name, c.exact))
	}
	return n
}

// largest returns the bytes of the largest series' labels.
func (c *cost) largest() float64 {
	n := 0.0
	for _, s := range c.from {
		n = max(n, s.largest)
	}
	for name, bytes := range c.written {
		n += float64(len(name)+labelBytes) + bytes
	}
	return n
}

// some is the result of an operator or a function that returns some of the series.
func (c *cost) some() *cost {
	result := c.relabeled()
	result.shared, result.values = true, c.values
	return result
}

func (c *cost) distinct(on bool, names []string) (different, same float64) {
	if c.groups == nil {
		return c.series, c.series
	}
	different, same = c.groups(on, names)
	return min(different, c.series), min(same, c.series)
}

// evaluation computes costs.
type evaluation struct {
	// exact: labels and values of all series are looked at. Otherwise only their number and size are, which takes less
	// time and may lead to a cost that is too high by far.
	exact      bool
	selected   map[*parser.VectorSelector]*selected
	maxSamples float64
	work       float64 // of the series that takes most
}

// moments are those for which a node is evaluated: from one to span milliseconds later, each step.
type moments struct{ span, step float64 }

func (m moments) count() float64 { return math.Floor(m.span/m.step) + 1 }

// of returns the moments of a subquery that is evaluated for each of these.
func (m moments) of(n *parser.SubqueryExpr) moments {
	step := noStep
	if n.Step > 0 {
		step = n.Step
	}
	return moments{m.span + float64(n.Range.Milliseconds()), float64(step.Milliseconds())}
}

// costOf returns the cost of a node. Operands are evaluated one after the other, and held until the last is.
func (e *evaluation) costOf(node parser.Node, at moments) *cost {
	switch n := node.(type) {
	case *parser.ParenExpr:
		return e.costOf(n.Expr, at)
	case *parser.StepInvariantExpr:
		return e.costOf(n.Expr, at)
	case *parser.VectorSelector:
		return e.selector(n)
	case *parser.MatrixSelector:
		return e.costOf(n.VectorSelector, at)
	case *parser.SubqueryExpr:
		return e.costOf(n.Expr, at.of(n))
	case *parser.UnaryExpr:
		operand := e.costOf(n.Expr, at)
		return e.result(operand.relabeled(), 0, 0, operand)
	case *parser.AggregateExpr:
		return e.aggregation(n, at)
	case *parser.Call:
		return e.call(n, at)
	case *parser.BinaryExpr:
		return e.binary(n, at)
	}
	return &cost{} // a number or a text
}

// selector returns the cost of a selector: that of the series that it found.
func (e *evaluation) selector(n *parser.VectorSelector) *cost {
	s := e.selected[n]
	if s == nil {
		return &cost{}
	}
	held := s.count * seriesBytes
	c := &cost{peak: held, held: held, series: s.count, stored: s.bytes, from: []*selected{s}, exact: e.exact}
	if e.exact {
		c.groups, c.values = s.groups, s.values
	}
	return c
}

// result completes the cost c of a node that makes series from operands. steps is for how many values each of them gets
// room, 0 if its values are an operand's; own are bytes beside the operands and the result.
func (e *evaluation) result(c *cost, steps, own float64, operands ...*cost) *cost {
	held := 0.0
	for _, o := range operands {
		c.peak = max(c.peak, held+o.peak)
		held += o.held
	}
	c.held = c.series*(seriesBytes+min(steps, maxRoom)*pointBytes) + c.labels()
	peak := held + c.held + own + c.series*nodeBytes
	if c.shared { // they are in the operand's
		peak -= c.labels()
	}
	c.peak = max(c.peak, peak)
	return c
}

// relabeled is the result of an operator or a function that makes the labels of its operand again, with or without the
// name.
func (c *cost) relabeled() *cost {
	return &cost{series: c.series, stored: c.stored, written: c.written, from: c.from, groups: c.groups, exact: c.exact}
}

// aggregation returns the cost of an aggregation, such as sum by (job).
func (e *evaluation) aggregation(n *parser.AggregateExpr, at moments) *cost {
	steps := at.count()
	operand := e.costOf(n.Expr, at)
	parameter := &cost{}
	if n.Param != nil {
		parameter = e.costOf(n.Param, at)
	}
	switch n.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return e.result(operand.some(), steps, 0, parameter, operand)
	case parser.COUNT_VALUES:
		return e.countValues(n, operand, steps)
	}
	series, _ := operand.distinct(!n.Without, n.Grouping)
	c := &cost{series: series, groups: grouped(n.Without, n.Grouping), written: make(map[string]float64),
		exact: e.exact}
	if n.Without {
		c.stored, c.written, c.from = min(operand.stored, series*operand.largest()), operand.written, operand.from
	}
	for _, name := range n.Grouping {
		if !n.Without {
			c.written[name] = operand.longest(name)
		}
	}
	return e.result(c, steps, operand.series*labelBytes, parameter, operand)
}

// grouped returns the groups of an aggregation's result, whose series differ in their labels.
func grouped(without bool, grouping []string) func(on bool, names []string) (float64, float64) {
	in := func(all, some []string) (n int) {
		for _, name := range some {
			if slices.Contains(all, name) {
				n++
			}
		}
		return n
	}
	return func(on bool, names []string) (different, same float64) {
		differ := false // in these labels
		switch {
		case without:
			differ = !on && in(grouping, names) == len(names)
		case on:
			differ = in(names, grouping) == len(grouping)
		default:
			differ = in(names, grouping) == 0
		}
		if differ {
			return math.Inf(1), 1
		}
		return math.Inf(1), math.Inf(1)
	}
}

// countValues returns the cost of count_values, which makes a series of each value.
func (e *evaluation) countValues(n *parser.AggregateExpr, operand *cost, steps float64) *cost {
	groups, _ := operand.distinct(!n.Without, n.Grouping)
	series := min(operand.series*steps, e.maxSamples)
	if operand.values != nil {
		series = min(series, groups*operand.values())
	}
	name := text(n.Param)
	c := &cost{series: series, written: map[string]float64{name: numberBytes}, from: operand.from, exact: e.exact}
	if n.Without {
		c.stored = series * operand.largest()
	}
	for _, grouping := range n.Grouping {
		if !n.Without {
			c.written[grouping] = operand.longest(grouping)
		}
	}
	return e.result(c, steps, 0, operand)
}

// call returns the cost of a function.
func (e *evaluation) call(n *parser.Call, at moments) *cost {
	steps := at.count()
	operands := make([]*cost, 0, len(n.Args))
	vector := &cost{} // the first vector
	for _, arg := range n.Args {
		operand := e.costOf(arg, at)
		operands = append(operands, operand)
		kind := arg.Type()
		if vector.series == 0 && (kind == parser.ValueTypeVector || kind == parser.ValueTypeMatrix) {
			vector = operand
		}
		e.ranged(n.Func.Name, arg, steps)
	}
	c := vector.relabeled()
	own, points := 0.0, steps
	if slices.ContainsFunc(n.Args, func(a parser.Expr) bool { return a.Type() == parser.ValueTypeMatrix }) {
		points = 0 // the engine counts their values
	}
	switch n.Func.Name {
	case "label_replace":
		if len(n.Args) == 5 {
			replacement, source := text(n.Args[2]), vector.longest(text(n.Args[3]))
			bytes := float64(len(replacement)) + float64(strings.Count(replacement, "$"))*source
			c = e.write(vector, text(n.Args[1]), bytes)
			e.add(vector.series * (source + 1) * regexpWork * expressionSteps(text(n.Args[4])))
			points = 0
		}
	case "label_join":
		if len(n.Args) >= 3 {
			bytes := 0.0
			for _, source := range n.Args[3:] {
				bytes += float64(len(text(n.Args[2]))) + vector.longest(text(source))
			}
			c = e.write(vector, text(n.Args[1]), bytes)
			points = 0
		}
	case "sort", "sort_desc", "last_over_time", "first_over_time":
		c = vector.some()
	case "histogram_quantile", "histogram_fraction":
		own = 2*vector.labels() + vector.series*warningBytes
	case "rate", "increase":
		own = vector.series * warningBytes
	case "absent", "absent_over_time", "scalar", "vector", "time":
		c = &cost{series: 1}
	}
	if vector.series == 0 {
		c.series = 1
	}
	return e.result(c, points, own, operands...)
}

// write is for functions that write a label. Where an expression does not match, the label stays as it was.
func (e *evaluation) write(operand *cost, name string, bytes float64) *cost {
	c := operand.relabeled()
	c.values, c.written = operand.values, make(map[string]float64, len(operand.written)+1)
	for other, n := range operand.written {
		c.written[other] = n
	}
	c.written[name] = max(bytes, operand.written[name])
	c.groups = func(on bool, names []string) (float64, float64) {
		if on && !slices.Contains(names, name) || !on && slices.Contains(names, name) {
			return operand.distinct(on, names)
		}
		return math.Inf(1), math.Inf(1)
	}
	if operand.longest(name) == 0 { // it has the label in addition
		c.groups = func(on bool, names []string) (float64, float64) {
			if on && !slices.Contains(names, name) {
				return operand.distinct(on, names)
			}
			_, same := operand.distinct(on, names)
			return math.Inf(1), same
		}
	}
	return c
}

// ranged counts the work of a function for one series and all steps, each with the values of a range.
func (e *evaluation) ranged(function string, arg parser.Expr, steps float64) {
	window := 0.0
	switch n := arg.(type) {
	case *parser.SubqueryExpr:
		window = moments{}.of(n).count()
	case *parser.MatrixSelector:
		if s := e.selected[n.VectorSelector.(*parser.VectorSelector)]; s != nil {
			if window = e.maxSamples; e.exact {
				window = s.reads()
			}
		}
	}
	work := min(window, e.maxSamples) * steps
	if function == "quantile_over_time" {
		work *= sortWork
	}
	e.add(work)
}

func (e *evaluation) add(work float64) { e.work = max(e.work, work) }

// expressionSteps returns about how many steps a regular expression takes for each letter.
func expressionSteps(expression string) float64 {
	tree, err := syntax.Parse(expression, syntax.Perl|syntax.DotNL)
	if err != nil {
		return 1 // the engine refuses it
	}
	return float64(size(tree, maxProgram))
}

// binary returns the cost of an operator with two operands.
func (e *evaluation) binary(n *parser.BinaryExpr, at moments) *cost {
	steps := at.count()
	left, right := e.costOf(n.LHS, at), e.costOf(n.RHS, at)
	vectors := n.LHS.Type() == parser.ValueTypeVector && n.RHS.Type() == parser.ValueTypeVector
	switch {
	case !vectors && n.LHS.Type() == parser.ValueTypeVector:
		return e.result(left.relabeled(), steps, 0, left, right)
	case !vectors && n.RHS.Type() == parser.ValueTypeVector:
		return e.result(right.relabeled(), steps, 0, left, right)
	case !vectors:
		return e.result(&cost{series: 1}, steps, 0, left, right)
	}
	signatures := left.signatures(n.VectorMatching) + right.signatures(n.VectorMatching)
	switch n.Op {
	case parser.LAND, parser.LUNLESS:
		return e.result(left.some(), steps, signatures, left, right)
	case parser.LOR:
		return e.result(union(left, right), steps, signatures, left, right)
	}
	return e.match(n, left, right, steps, signatures)
}

// signatures returns the bytes that matching takes for the operand's series: of the labels they are matched by (with
// ignoring at most all), and of each series itself.
func (c *cost) signatures(m *parser.VectorMatching) float64 {
	bytes := c.labels()
	if m.On {
		labelsBytes := 0.0
		for _, name := range m.MatchingLabels {
			labelsBytes += float64(len(name)+labelBytes) + c.longest(name)
		}
		bytes = min(bytes, c.series*labelsBytes)
	}
	return bytes + c.series*nodeBytes
}

// union is the result of the operator or.
func union(left, right *cost) *cost {
	c := &cost{
		series: left.series + right.series, stored: left.stored + right.stored,
		from:    slices.Concat(left.from, right.from),
		written: make(map[string]float64, len(left.written)+len(right.written)), exact: left.exact ||
			right.exact, shared: true,
		groups: func(on bool, names []string) (different, same float64) {
			a, b := left.distinctPair(on, names), right.distinctPair(on, names)
			return a[0] + b[0], a[1] + b[1]
		},
	}
	for _, side := range []*cost{left, right} {
		for name, bytes := range side.written {
			c.written[name] = max(c.written[name], bytes)
		}
	}
	return c
}

func (c *cost) distinctPair(on bool, names []string) [2]float64 {
	different, same := c.distinct(on, names)
	return [2]float64{different, same}
}

// match is for operators that match series of both sides. The engine keeps, for each pair that matched at any step, the
// labels of both and those of the result.
func (e *evaluation) match(n *parser.BinaryExpr, left, right *cost, steps, signatures float64) *cost {
	m := n.VectorMatching
	_, leftSame := left.distinct(m.On, m.MatchingLabels)
	_, rightSame := right.distinct(m.On, m.MatchingLabels)
	leftSame, rightSame = min(leftSame, steps), min(rightSame, steps)
	if m.Card == parser.CardOneToOne {
		c := left.relabeled()
		c.series, c.groups = min(left.series, right.series*leftSame), nil
		if !m.On && len(m.MatchingLabels) == 0 {
			c.groups = left.groups
		}
		pairs := left.labels()*rightSame + right.labels()*leftSame + left.labels()*rightSame +
			left.series*rightSame*nodeBytes
		return e.result(c, steps, signatures+pairs, left, right)
	}
	many, one, oneSame := left, right, rightSame
	if m.Card == parser.CardOneToMany {
		many, one, oneSame = right, left, leftSame
	}
	c := many.relabeled()
	c.groups = nil
	if len(m.Include) > 0 {
		c.series, c.stored = many.series*oneSame, many.stored*oneSame
		c.written = make(map[string]float64, len(many.written)+len(m.Include))
		for name, bytes := range many.written {
			c.written[name] = bytes
		}
		for _, name := range m.Include {
			c.written[name] = max(c.written[name], one.longest(name))
		}
	}
	pairs := many.series * oneSame
	return e.result(c, steps, signatures+2*many.labels()*oneSame+pairs*(one.largest()+nodeBytes), left, right)
}

// text is the value of a string, which may be in parentheses.
func text(e parser.Expr) string {
	for {
		switch expr := e.(type) {
		case *parser.ParenExpr:
			e = expr.Expr
		case *parser.StepInvariantExpr:
			e = expr.Expr
		case *parser.StringLiteral:
			return expr.Val
		default:
			return ""
		}
	}
}
