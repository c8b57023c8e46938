package literals

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestOf: every match has one of the literals, which are as long and as few as can be known.
func TestOf(t *testing.T) {
	for expression, want := range map[string][2]string{ // as they are spelled, and in lower case
		`Needle`: {"Needle", "needle"}, `a.*Needle`: {"Needle", "needle"},
		`(error|timeout)+ x`: {"error|timeout", "error|timeout"}, `[Ee]rror`: {"Error|error", "error"},
		`(?i)Ab`:    {"AB|Ab|aB|ab", "ab"},
		`(?i)task`:  {"TA|Ta|tA|ta", "task|tas\u212a|ta\u017fk|ta\u017f\u212a"},
		`(?:ab){3}`: {"ababab", "ababab"}, `x?abc`: {"abc|xabc", "abc|xabc"}, `\d+ms`: {"ms", "ms"},
		`[^x]yz`: {"yz", "yz"}, `a|b*`: {}, `x*`: {}, `^$`: {}, `\d`: {}, `\x{fffd}`: {}, `a\x{fffd}bc`: {"bc", "bc"},
	} {
		re := must.Get(syntax.Parse(expression, syntax.Perl))(t).Simplify()
		for i, fold := range []bool{false, true} {
			says.Equal(t, strings.Join(Of(re, 4, fold), "|"), want[i], "%s, fold %t", expression, fold)
		}
	}
}
