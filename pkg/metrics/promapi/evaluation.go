package promapi

import (
	"cmp"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// evaluation computes the cost of a query as the engine would evaluate it, from the series that its selectors found.
type evaluation struct {
	// exact: labels and values of all series are looked at. Otherwise only their number and size are, which takes less
	// time and may lead to a cost that is too high by far.
	exact      bool
	selected   map[*parser.VectorSelector]*selected
	maxSamples float64
	work       float64 // steps of the engine for one series, of the node that takes most
}

// moments are those for which a node is evaluated: from one to span milliseconds later, each step.
type moments struct{ span, step float64 }

func (m moments) count() float64 { return math.Floor(m.span/m.step) + 1 }

// ofSubquery returns the moments of a subquery that is evaluated for each of these.
func (m moments) ofSubquery(n *parser.SubqueryExpr) moments {
	return moments{m.span + float64(n.Range.Milliseconds()), float64(cmp.Or(n.Step, noStep).Milliseconds())}
}

// costOf returns the cost of evaluating a node at some moments. Operands are evaluated one after the other, and held
// until the last one is. The samples themselves are not in it: the engine limits these.
func (e *evaluation) costOf(node parser.Node, at moments) *cost {
	switch n := node.(type) {
	case *parser.ParenExpr:
		return e.costOf(n.Expr, at)
	case *parser.StepInvariantExpr:
		return e.costOf(n.Expr, at)
	case *parser.VectorSelector:
		return e.selectorCost(n)
	case *parser.MatrixSelector:
		return e.costOf(n.VectorSelector, at)
	case *parser.SubqueryExpr:
		return e.costOf(n.Expr, at.ofSubquery(n))
	case *parser.UnaryExpr:
		operand := e.costOf(n.Expr, at)
		return completeCost(operand.relabeledCost(), operandValues, nothingOwn, operand)
	case *parser.AggregateExpr:
		return e.aggregationCost(n, at)
	case *parser.Call:
		return e.callCost(n, at)
	case *parser.BinaryExpr:
		return e.binaryCost(n, at)
	}
	return &cost{} // a number or a text
}

// selectorCost returns the cost of a selector: that of the series that it has found so far.
func (e *evaluation) selectorCost(n *parser.VectorSelector) *cost {
	s := e.selected[n]
	if s == nil {
		return &cost{}
	}
	size := s.count * seriesBytes
	c := &cost{peak: size, size: size, series: s.count, stored: s.bytes, from: []*selected{s}, exact: e.exact}
	if e.exact {
		c.groups, c.values = s.countGroups, s.countValues
	}
	return c
}

// operandValues is for completeCost's points: the result has the values of an operand, and takes no memory for them.
// nothingOwn is for its own: the node takes no further memory.
const operandValues, nothingOwn = 0, 0

// completeCost completes the cost c of a node, of which series and labels are known: it sets peak and size, in bytes.
// points is how many values memory is allocated for in each series, or operandValues. own are the bytes that the node
// takes while it is evaluated, besides its operands and its result. operands are in the order in which they are
// evaluated.
func completeCost(c *cost, points, own float64, operands ...*cost) *cost {
	held := 0.0 // by the operands that are evaluated
	for _, o := range operands {
		c.peak = max(c.peak, held+o.peak)
		held += o.size
	}
	c.size = c.series*(seriesBytes+min(points, maxRoom)*pointBytes) + c.allLabelBytes()
	peak := held + c.size + own + c.series*nodeBytes
	if c.shared { // the labels are the operand's, which are counted already
		peak -= c.allLabelBytes()
	}
	c.peak = max(c.peak, peak)
	return c
}

// aggregationCost returns the cost of an aggregation, such as sum by (job), whose result has a series of each group.
// topk and the like have some of the operand's series.
func (e *evaluation) aggregationCost(n *parser.AggregateExpr, at moments) *cost {
	steps := at.count()
	operand := e.costOf(n.Expr, at)
	parameter := &cost{}
	if n.Param != nil {
		parameter = e.costOf(n.Param, at)
	}
	switch n.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return completeCost(operand.subsetCost(), steps, nothingOwn, parameter, operand)
	case parser.COUNT_VALUES:
		return e.countValues(n, operand, steps)
	}
	// The other ones, such as sum, make one series of each group.
	by := grouping{on: !n.Without, names: n.Grouping}
	c := &cost{series: operand.groupsAtMost(by).number, written: make(map[string]float64), exact: e.exact}
	c.groups = func(other grouping) groups {
		if other.hasAll(by) { // no two series of the result have the same values of these labels: a group each
			return groups{number: math.Inf(1), largest: 1}
		}
		return unknownGroups
	}
	if n.Without { // their labels are those of the operand that are not named, otherwise those that are named
		c.stored = min(operand.stored, c.series*operand.largestLabels())
		c.written, c.from = operand.written, operand.from
	} else {
		c.writeLongest(operand, n.Grouping)
	}
	return completeCost(c, steps, operand.series*labelBytes, parameter, operand)
}

// countValues returns the cost of count_values, which makes a series of each value in a group, at most as many as there
// are samples; a label, which its parameter names, has the value.
func (e *evaluation) countValues(n *parser.AggregateExpr, operand *cost, steps float64) *cost {
	series := min(operand.series*steps, e.maxSamples)
	if operand.values != nil {
		by := grouping{on: !n.Without, names: n.Grouping}
		series = min(series, operand.groupsAtMost(by).number*operand.values())
	}
	name := stringLiteral(n.Param)
	c := &cost{series: series, written: map[string]float64{name: numberBytes}, from: operand.from, exact: e.exact}
	if n.Without {
		c.stored = series * operand.largestLabels()
	} else {
		c.writeLongest(operand, n.Grouping)
	}
	return completeCost(c, steps, nothingOwn, operand)
}

// callCost returns the cost of a call of a function. Its result usually has the series of the first argument that is a
// vector, without their names; of a function without such an argument it is one series. The functions below are those
// that make other labels, keep them, or warn about each series.
func (e *evaluation) callCost(n *parser.Call, at moments) *cost {
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
		e.addRange(n.Func.Name, arg, steps)
	}
	c := vector.relabeledCost()
	own, points := float64(nothingOwn), steps // bytes that the function takes for itself, and points of each series
	if slices.ContainsFunc(n.Args, func(a parser.Expr) bool { return a.Type() == parser.ValueTypeMatrix }) {
		points = operandValues // the engine counts the values that it reads of ranges
	}
	switch n.Func.Name {
	case "label_replace":
		if len(n.Args) == 5 {
			c, points = e.labelReplace(vector, n.Args), operandValues
		}
	case "label_join":
		if len(n.Args) >= 3 {
			c, points = labelJoin(vector, n.Args), operandValues
		}
	case "sort", "sort_desc", "last_over_time", "first_over_time":
		c = vector.subsetCost()
	case "histogram_quantile", "histogram_fraction":
		own = 2*vector.allLabelBytes() + vector.series*warningBytes
	case "rate", "increase":
		own = vector.series * warningBytes
	case "absent", "absent_over_time", "scalar", "vector", "time":
		c = &cost{series: 1}
	}
	if vector.series == 0 {
		c.series = 1
	}
	return completeCost(c, points, own, operands...)
}

// labelReplace is the result of label_replace(vector, label, replacement, source, expression).
func (e *evaluation) labelReplace(vector *cost, args parser.Expressions) *cost {
	label, replacement := stringLiteral(args[1]), stringLiteral(args[2])
	source := vector.longestValue(stringLiteral(args[3]))
	e.addWork(vector.series * (source + 1) * regexpWork * expressionSteps(stringLiteral(args[4])))
	return vector.withLabel(label, float64(len(replacement))+float64(strings.Count(replacement, "$"))*source)
}

// labelJoin is the result of label_join(vector, label, separator, source…).
func labelJoin(vector *cost, args parser.Expressions) *cost {
	bytes := 0.0
	for _, source := range args[3:] {
		bytes += float64(len(stringLiteral(args[2]))) + vector.longestValue(stringLiteral(source))
	}
	return vector.withLabel(stringLiteral(args[1]), bytes)
}

// addRange adds the work of a function on one series: at each step it goes through the values of its range, if arg is
// one. How many a stored range has is known exactly only if all series are looked at; otherwise the most that a query
// may have counts.
func (e *evaluation) addRange(function string, arg parser.Expr, steps float64) {
	window := 0.0
	switch n := arg.(type) {
	case *parser.SubqueryExpr:
		window = moments{}.ofSubquery(n).count()
	case *parser.MatrixSelector:
		if s := e.selected[n.VectorSelector.(*parser.VectorSelector)]; s != nil {
			if window = e.maxSamples; e.exact {
				window = s.mostReads()
			}
		}
	}
	work := min(window, e.maxSamples) * steps
	if function == "quantile_over_time" {
		work *= sortWork
	}
	e.addWork(work)
}

// addWork counts work for one series.
func (e *evaluation) addWork(work float64) { e.work = max(e.work, work) }

// expressionSteps returns about how many steps a regular expression takes for each letter.
func expressionSteps(expression string) float64 {
	tree, err := syntax.Parse(expression, syntax.Perl|syntax.DotNL)
	if err != nil {
		return 1 // the engine refuses it
	}
	return float64(programSize(tree, maxProgram))
}

// binaryCost returns the cost of an operator with two operands. If only one is a vector, the result has its series; of
// two, series are matched by their labels, which takes memory for their signatures and for the pairs.
func (e *evaluation) binaryCost(n *parser.BinaryExpr, at moments) *cost {
	steps := at.count()
	left, right := e.costOf(n.LHS, at), e.costOf(n.RHS, at)
	vectors := n.LHS.Type() == parser.ValueTypeVector && n.RHS.Type() == parser.ValueTypeVector
	switch {
	case !vectors && n.LHS.Type() == parser.ValueTypeVector:
		return completeCost(left.relabeledCost(), steps, nothingOwn, left, right)
	case !vectors && n.RHS.Type() == parser.ValueTypeVector:
		return completeCost(right.relabeledCost(), steps, nothingOwn, left, right)
	case !vectors:
		return completeCost(&cost{series: 1}, steps, nothingOwn, left, right)
	}
	var c *cost
	pairs := 0.0 // bytes for matching pairs of series
	switch m := n.VectorMatching; {
	case n.Op == parser.LAND, n.Op == parser.LUNLESS:
		c = left.subsetCost()
	case n.Op == parser.LOR:
		c = unionCost(left, right)
	case m.Card == parser.CardOneToOne:
		c, pairs = oneToOne(m, left, right, steps)
	case m.Card == parser.CardOneToMany:
		c, pairs = manyToOne(m, right, left, steps)
	default:
		c, pairs = manyToOne(m, left, right, steps)
	}
	own := left.signatureBytes(n.VectorMatching) + right.signatureBytes(n.VectorMatching) + pairs
	return completeCost(c, steps, own, left, right)
}

// oneToOne is the result of an operator, such as +, that matches each series with at most one of the other side at each
// step. pairs are the bytes that the engine keeps for the pairs that matched at any step: the labels of both series,
// and those of the result, which are the left one's.
func oneToOne(m *parser.VectorMatching, left, right *cost, steps float64) (c *cost, pairs float64) {
	lefts, rights := left.partners(m, steps), right.partners(m, steps)
	c = left.relabeledCost()
	c.series = min(left.series, right.series*lefts)
	if m.On || len(m.MatchingLabels) > 0 { // the result lacks labels that may have told groups apart
		c.groups = nil
	}
	pairs = 2*left.allLabelBytes()*rights + right.allLabelBytes()*lefts + left.series*rights*nodeBytes
	return c, pairs
}

// manyToOne is the result of an operator with group_left or group_right, which matches each series of the side one with
// any number of the side many: over all steps, of one at most as many as partners says. The result has the labels of
// many, and of one those that the operator names. pairs is as for oneToOne.
func manyToOne(m *parser.VectorMatching, many, one *cost, steps float64) (c *cost, pairs float64) {
	ones := one.partners(m, steps)
	c = many.relabeledCost()
	c.groups = nil
	if len(m.Include) > 0 { // each pair may have a result of its own
		c.series, c.stored = many.series*ones, many.stored*ones
		c.written = make(map[string]float64, len(many.written)+len(m.Include))
		maps.Copy(c.written, many.written)
		for _, name := range m.Include {
			c.written[name] = max(c.written[name], one.longestValue(name))
		}
	}
	return c, 2*many.allLabelBytes()*ones + many.series*ones*(one.largestLabels()+nodeBytes)
}

// partners returns how many series of this side one of the other side may match at all steps together. At one step it
// matches at most one: more with the same labels are an error.
func (c *cost) partners(m *parser.VectorMatching, steps float64) float64 {
	return min(c.groupsAtMost(grouping{m.On, m.MatchingLabels}).largest, steps)
}

// stringLiteral is the value of a string literal, which may be in parentheses; "" if e is none.
func stringLiteral(e parser.Expr) string {
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
