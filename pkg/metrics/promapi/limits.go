package promapi

import (
	"cmp"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// maxItems limits the names, numbers, texts and signs of a request's queries: parsing nested ones takes time that grows
// with the square of their depth, and no timeout ends it. Those of Ray's own panels have some hundred.
const maxItems = 10_000

var errItems = fmt.Errorf("it has more than %d names, numbers and signs: make it shorter", maxItems)

// The parser compiles a query's regular expressions before any limit applies, and Go lets each of them take 128 MiB.
const (
	// maxProgram limits the compiled size of all of a request's expressions, in steps; each step may run for each
	// letter of a label. In plain texts four letters count as one step, so they may nearly fill a form, but repetitions
	// multiply.
	maxProgram = 64 << 10
	// maxClasses bounds Unicode's classes in them, such as \pL, each of which takes 5 KB as soon as it is read.
	maxClasses = 200
)

var errExpressions = errors.New(
	"the regular expressions are too large: use fewer character classes, or shorter repetitions")

// checkExpressions refuses queries that would take long to parse, or whose regular expressions would take much memory.
// Each string in a query counts as a regular expression, whatever it is for.
func checkExpressions(queries ...string) error {
	left, classes, items := maxProgram, maxClasses, maxItems
	for _, query := range queries {
		lexer := parser.Lex(query)
		for item := (parser.Item{}); ; {
			lexer.NextItem(&item)
			if item.Typ == parser.EOF || item.Typ == parser.ERROR {
				break
			}
			if items--; items < 0 {
				return errItems
			}
			if item.Typ != parser.STRING {
				continue
			}
			text, err := strutil.Unquote(item.Val)
			if err != nil {
				continue // the parser says so
			}
			if classes -= strings.Count(text, `\p`) + strings.Count(text, `\P`); classes < 0 {
				return errExpressions
			}
			tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
			if err != nil {
				continue // not an expression, or the parser says so
			}
			if left -= programSize(tree, left); left <= 0 {
				return errExpressions
			}
		}
	}
	return nil
}

// programSize returns about how many steps the program of a regular expression has, at most limit: a quarter of one for
// each letter, and for a repetition those of what it repeats, as often as it does at most.
func programSize(re *syntax.Regexp, limit int) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune) / 4
	}
	for _, sub := range re.Sub {
		if n += programSize(sub, limit); n >= limit {
			return limit
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min+1, re.Max)
	}
	return min(n, limit)
}

// noStep is the step of a subquery that names none.
const noStep = time.Minute

// checkSubqueries refuses an expression whose subqueries have more than limit steps. The engine allocates two numbers
// for each step before it evaluates the first one, without a limit: for [100y:1ms] that is more than Go allows, and the
// process would end. The first and the last moment for which the expression is evaluated are span milliseconds apart.
func checkSubqueries(expression parser.Expr, span, limit int64) error {
	_, err := addSteps(expression, span, 0, limit)
	return err
}

// addSteps returns sum and the steps of all subqueries in a node, which is evaluated over a time span (milliseconds).
// More than limit are refused.
func addSteps(node parser.Node, span, sum, limit int64) (int64, error) {
	if q, ok := node.(*parser.SubqueryExpr); ok {
		step := cmp.Or(q.Step, noStep).Milliseconds()
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
