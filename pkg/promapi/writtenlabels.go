package promapi

import (
	"errors"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// A query can write labels that copy others, again and again: two label_replace that each copy a label a thousand times make a label of a hundred
// megabytes for every series. The engine does not limit this.
const (
	// maxWritten limits the labels that a query writes, in bytes per series.
	maxWritten = 8 << 10
	// usualLabel is what a stored label counts as, and writtenLabel what a written one takes besides its value.
	usualLabel, writtenLabel = 100, 16
)

var errWritten = errors.New("label_replace and label_join write more than 8 KiB of labels: copy less")

// checkWritten refuses an expression that writes large labels.
func checkWritten(expression parser.Expr) error {
	_, err := written(expression)
	return err
}

// written returns the labels that an expression writes, in bytes.
func written(node parser.Node) (all map[string]int, err error) {
	for child := range parser.ChildrenIter(node) {
		of, err := written(child)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = of
		}
		for name, size := range of {
			all[name] = max(all[name], size)
		}
	}
	call, isCall := node.(*parser.Call)
	if !isCall {
		return all, nil
	}
	size := func(name string) int {
		if n, ok := all[name]; ok {
			return n
		}
		return usualLabel
	}
	n := writtenLabel
	switch {
	case call.Func.Name == "label_replace" && len(call.Args) == 5:
		replacement := text(call.Args[2])
		n += len(replacement) + strings.Count(replacement, "$")*size(text(call.Args[3]))
	case call.Func.Name == "label_join" && len(call.Args) >= 3:
		for _, source := range call.Args[3:] {
			n += len(text(call.Args[2])) + size(text(source))
		}
	default:
		return all, nil
	}
	if all == nil {
		all = map[string]int{}
	}
	all[text(call.Args[1])] = n
	total := 0
	for name, n := range all {
		total += len(name) + n
	}
	if total > maxWritten {
		return nil, errWritten
	}
	return all, nil
}

// text is the value of a string, which may be in parentheses.
func text(e parser.Expr) string {
	for {
		switch of := e.(type) {
		case *parser.ParenExpr:
			e = of.Expr
		case *parser.StepInvariantExpr:
			e = of.Expr
		case *parser.StringLiteral:
			return of.Val
		default:
			return ""
		}
	}
}
