package promapi

import (
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

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

// result completes the cost c of a node that makes series from operands. points is for how many values each of them
// gets room, 0 if its values are an operand's; own are bytes beside the operands and the result.
func (e *evaluation) result(c *cost, points, own float64, operands ...*cost) *cost {
	held := 0.0
	for _, o := range operands {
		c.peak = max(c.peak, held+o.peak)
		held += o.held
	}
	c.held = c.series*(seriesBytes+min(points, maxRoom)*pointBytes) + c.labels()
	peak := held + c.held + own + c.series*nodeBytes
	if c.shared { // they are in the operand's
		peak -= c.labels()
	}
	c.peak = max(c.peak, peak)
	return c
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
		return e.result(operand.subset(), steps, 0, parameter, operand)
	case parser.COUNT_VALUES:
		return e.countValues(n, operand, steps)
	}
	by := grouping{!n.Without, n.Grouping}
	c := &cost{series: operand.grouped(by).number, written: make(map[string]float64), exact: e.exact}
	c.groups = func(other grouping) groups {
		if other.hasAll(by) {
			return groups{math.Inf(1), 1} // each series of the result has other labels
		}
		return unknownGroups
	}
	if n.Without {
		c.stored, c.written, c.from = min(operand.stored, c.series*operand.largest()), operand.written, operand.from
	} else {
		c.writeLongest(operand, n.Grouping)
	}
	return e.result(c, steps, operand.series*labelBytes, parameter, operand)
}

// countValues returns the cost of count_values, which makes a series of each value.
func (e *evaluation) countValues(n *parser.AggregateExpr, operand *cost, steps float64) *cost {
	series := min(operand.series*steps, e.maxSamples)
	if operand.values != nil {
		series = min(series, operand.grouped(grouping{!n.Without, n.Grouping}).number*operand.values())
	}
	name := text(n.Param)
	c := &cost{series: series, written: map[string]float64{name: numberBytes}, from: operand.from, exact: e.exact}
	if n.Without {
		c.stored = series * operand.largest()
	} else {
		c.writeLongest(operand, n.Grouping)
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
		e.addRange(n.Func.Name, arg, steps)
	}
	c := vector.relabeled()
	own, points := 0.0, steps // of the result
	if slices.ContainsFunc(n.Args, func(a parser.Expr) bool { return a.Type() == parser.ValueTypeMatrix }) {
		points = 0 // the engine counts their values
	}
	switch n.Func.Name {
	case "label_replace":
		if len(n.Args) == 5 {
			c, points = e.labelReplace(vector, n.Args), 0
		}
	case "label_join":
		if len(n.Args) >= 3 {
			c, points = labelJoin(vector, n.Args), 0
		}
	case "sort", "sort_desc", "last_over_time", "first_over_time":
		c = vector.subset()
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

// labelReplace is the result of label_replace(vector, label, replacement, source, expression).
func (e *evaluation) labelReplace(vector *cost, args parser.Expressions) *cost {
	label, replacement, source := text(args[1]), text(args[2]), vector.longest(text(args[3]))
	e.add(vector.series * (source + 1) * regexpWork * expressionSteps(text(args[4])))
	return vector.withLabel(label, float64(len(replacement))+float64(strings.Count(replacement, "$"))*source)
}

// labelJoin is the result of label_join(vector, label, separator, source…).
func labelJoin(vector *cost, args parser.Expressions) *cost {
	bytes := 0.0
	for _, source := range args[3:] {
		bytes += float64(len(text(args[2]))) + vector.longest(text(source))
	}
	return vector.withLabel(text(args[1]), bytes)
}

// addRange counts the work of a function for one series and all steps, each with the values of a range.
func (e *evaluation) addRange(function string, arg parser.Expr, steps float64) {
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

// add counts work for one series.
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
		return e.result(left.subset(), steps, signatures, left, right)
	case parser.LOR:
		return e.result(union(left, right), steps, signatures, left, right)
	}
	return e.match(n, left, right, steps, signatures)
}

// match is for operators that match series of both sides. The engine keeps, for each pair that matched at any step, the
// labels of both and those of the result. At one step a series matches at most one of the side that has one, so it is
// in no more pairs than there are steps, nor than the other side has series with the labels that match.
func (e *evaluation) match(n *parser.BinaryExpr, left, right *cost, steps, signatures float64) *cost {
	by := grouping{n.VectorMatching.On, n.VectorMatching.MatchingLabels}
	ofLeft, ofRight := min(left.grouped(by).largest, steps), min(right.grouped(by).largest, steps)
	if n.VectorMatching.Card == parser.CardOneToOne {
		c := left.relabeled()
		c.series = min(left.series, right.series*ofLeft)
		if by.on || len(by.names) > 0 {
			c.groups = nil
		}
		pairs := 2*left.labels()*ofRight + right.labels()*ofLeft + left.series*ofRight*nodeBytes
		return e.result(c, steps, signatures+pairs, left, right)
	}
	many, one, ofOne := left, right, ofRight
	if n.VectorMatching.Card == parser.CardOneToMany {
		many, one, ofOne = right, left, ofLeft
	}
	c := many.relabeled()
	c.groups = nil
	if include := n.VectorMatching.Include; len(include) > 0 { // labels that the one side gives to the many
		c.series, c.stored = many.series*ofOne, many.stored*ofOne
		c.written = make(map[string]float64, len(many.written)+len(include))
		maps.Copy(c.written, many.written)
		for _, name := range include {
			c.written[name] = max(c.written[name], one.longest(name))
		}
	}
	pairs := 2*many.labels()*ofOne + many.series*ofOne*(one.largest()+nodeBytes)
	return e.result(c, steps, signatures+pairs, left, right)
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
