// Package lazyregexp compiles regular expressions when they are first used. Those of the findings take 700 KB of
// memory, and most processes make no report.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles an expression when it is first called. It panics then if the expression is
// wrong.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
