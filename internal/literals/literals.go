// Package literals finds texts of which every match of a regular expression contains one. Looking for such texts is
// some fifty times as fast as Go's regexp, which then only reads the lines that have one.
package literals

import (
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// maxClass bounds the characters of a class that are tried one by one.
const maxClass = 8

// Of returns at most limit literals of which every match of an expression contains one; nil if no good ones are
// known. With fold, ASCII letters are in lower case, and matches may have them in either. The expression must be
// simplified.
func Of(re *syntax.Regexp, limit int, fold bool) []string {
	best := analyser{limit, fold}.analyse(re).best()
	if Shortest(best) == 0 {
		return nil
	}
	slices.Sort(best)
	return slices.Compact(best)
}

// Shortest returns the length of the shortest text, 0 if there is none: the longer it is, the fewer lines have one by
// chance.
func Shortest(texts []string) int {
	least := 0
	for i, text := range texts {
		if i == 0 || len(text) < least {
			least = len(text)
		}
	}
	return least
}

// language is what is known about the texts that an expression matches.
type language struct {
	exact    []string // all of them; nil: not known, or too many
	required []string // each contains one of these; nil: not known
}

// best returns the better of both.
func (l language) best() []string { return better(l.exact, l.required) }

// better returns the one of two lists of literals that is better to search for: whose shortest literal is longer, or
// which has fewer literals.
func better(a, b []string) []string {
	if x, y := Shortest(a), Shortest(b); x > y || (x == y && len(a) < len(b)) {
		return a
	}
	return b
}

// analyser has the settings of Of.
type analyser struct {
	max  int // of literals
	fold bool
}

// analyse returns what is known of the texts that an expression matches. Nothing is known of an optional expression
// whose texts are not all known, because a match may have none of them, and of kinds of expressions without a case
// here.
func (a analyser) analyse(re *syntax.Regexp) language {
	switch re.Op {
	case syntax.OpLiteral:
		return a.literal(re)
	case syntax.OpCharClass:
		return a.class(re)
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return language{exact: []string{""}}
	case syntax.OpCapture:
		return a.analyse(re.Sub[0])
	case syntax.OpQuest:
		if l := a.analyse(re.Sub[0]); l.exact != nil && len(l.exact) < a.max {
			return language{exact: append([]string{""}, l.exact...)}
		}
	case syntax.OpPlus:
		return language{required: a.analyse(re.Sub[0]).best()}
	case syntax.OpConcat:
		return a.concat(a.each(re.Sub))
	case syntax.OpAlternate:
		return a.alternate(a.each(re.Sub))
	}
	return language{}
}

func (a analyser) each(subs []*syntax.Regexp) (list []language) {
	for _, sub := range subs {
		list = append(list, a.analyse(sub))
	}
	return list
}

// literal returns the language of a literal. If it ignores case, each character stands for all that differ from it in
// case only. For k and s these have one beyond ASCII: the Kelvin sign and the long s.
func (a analyser) literal(re *syntax.Regexp) language {
	var characters []language
	for _, c := range re.Rune {
		same := []rune{c}
		if re.Flags&syntax.FoldCase != 0 {
			for other := unicode.SimpleFold(c); other != c; other = unicode.SimpleFold(other) {
				same = append(same, other)
			}
		}
		characters = append(characters, a.oneOf(same))
	}
	return a.concat(characters)
}

// class returns the language of a class of characters: each of the characters. If there are more than maxClass, it is
// not known.
func (a analyser) class(re *syntax.Regexp) language {
	var characters []rune
	for i := 0; i < len(re.Rune); i += 2 {
		for c := re.Rune[i]; c <= re.Rune[i+1]; c++ {
			if len(characters) == maxClass {
				return language{}
			}
			characters = append(characters, c)
		}
	}
	return a.oneOf(characters)
}

// oneOf returns the language whose texts are one of these characters each, in lower case if a.fold is set.
func (a analyser) oneOf(characters []rune) (l language) {
	for _, c := range characters {
		if c == utf8.RuneError {
			return language{} // for expressions any byte that is not UTF-8 is this character
		}
		if a.fold && c < utf8.RuneSelf {
			c = unicode.ToLower(c)
		}
		if !slices.Contains(l.exact, string(c)) {
			l.exact = append(l.exact, string(c))
		}
	}
	return l
}

// concat returns the language of expressions one after the other. Neighbours whose texts are all known are joined to
// longer texts, the run. A run ends at a part that is not known, or with which it would be too many texts; then the
// best list so far of what each match must contain is kept.
func (a analyser) concat(parts []language) language {
	var required []string
	run, whole := []string{""}, true // whole says that no run has ended
	for _, next := range parts {
		if joined := a.product(run, next.exact); joined != nil {
			run = joined
			continue
		}
		whole = false
		required = better(better(required, run), next.best())
		if run = next.exact; run == nil {
			run = []string{""}
		}
	}
	if whole {
		return language{exact: run}
	}
	return language{required: better(required, run)}
}

// alternate is the language of alternatives, of which a text matches one.
func (a analyser) alternate(parts []language) language {
	l := language{exact: []string{}, required: []string{}}
	for _, next := range parts {
		l.exact, l.required = a.union(l.exact, next.exact), a.union(l.required, next.best())
	}
	return l
}

// union is nil if either is, or if there are too many.
func (a analyser) union(x, y []string) []string {
	if x == nil || y == nil || len(x)+len(y) > a.max {
		return nil
	}
	return append(x[:len(x):len(x)], y...)
}

// product returns each text of x followed by each text of y; nil if one of them is not known (nil), or if there would
// be too many.
func (a analyser) product(x, y []string) []string {
	if x == nil || y == nil || len(x)*len(y) > a.max {
		return nil
	}
	var texts []string
	for _, before := range x {
		for _, after := range y {
			texts = append(texts, before+after)
		}
	}
	return texts
}
