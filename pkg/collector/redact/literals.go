package redact

import (
	"regexp/syntax"
	"strings"

	"github.com/rayhistory/historyserver/internal/literals"
)

const (
	// maxLiterals bounds the literals of one expression.
	maxLiterals = 64
	// leastLiteral is the shortest literal that is looked for: shorter ones are everywhere.
	leastLiteral = 2
)

// requiredLiterals returns literals of which every match of the expression contains at least one, with ASCII letters in
// lower case; nil if there are none that are long enough. They have no characters that JSON must escape, so they stand
// in JSON as they are, but for escapes that hasEscapes finds. The expression must be simplified.
func requiredLiterals(re *syntax.Regexp) (required []string) {
	const fold = true
	for _, literal := range literals.Of(re, maxLiterals, fold) {
		longest := ""
		for piece := range strings.FieldsFuncSeq(literal, isEscaped) {
			if len(piece) > len(longest) {
				longest = piece
			}
		}
		if len(longest) < leastLiteral {
			return nil
		}
		required = append(required, longest)
	}
	return required
}

// isEscaped says whether JSON has an escape of its own for a character.
func isEscaped(c rune) bool { return c < ' ' || c == '"' || c == '\\' }
