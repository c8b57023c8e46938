package promapi

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// noStep is the step of a subquery that names none.
const noStep = time.Minute

// checkSubqueries refuses an expression whose subqueries have more than limit steps. The engine allocates two numbers
// for each step before it evaluates the first one, without a limit: for [100y:1ms] that is more than Go allows, and the
// process would end. The first and the last moment for which the expression is evaluated are span milliseconds apart.
func checkSubqueries(expression parser.Expr, span, limit int64) error {
	_, err := addSteps(expression, span, 0, limit)
	return err
}

// addSteps adds to sum the steps of the subqueries in a node, over the time span (ms) for which the node is evaluated.
// More than limit are refused.
func addSteps(node parser.Node, span, sum, limit int64) (int64, error) {
	if q, ok := node.(*parser.SubqueryExpr); ok {
		step := noStep.Milliseconds()
		if q.Step != 0 {
			step = q.Step.Milliseconds()
		}
		if step < 1 {
			return 0, errors.New("the step of a subquery has to be at least 1 ms")
		}
		span += q.Range.Milliseconds()
		if sum += span/step + 1; sum > limit {
			return 0, fmt.Errorf("the subqueries have more than %d steps: make the steps longer, or the ranges shorter",
				limit)
		}
	}
	for child := range parser.ChildrenIter(node) {
		var err error
		if sum, err = addSteps(child, span, sum, limit); err != nil {
			return 0, err
		}
	}
	return sum, nil
}
