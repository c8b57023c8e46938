package logsearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/literals"
)

const (
	// maxPattern bounds a pattern, in bytes.
	maxPattern = 1024
	// maxProgram bounds the instructions of a regular expression: each byte of a log may cost a step for each of them.
	maxProgram = 500
	// maxPiece is how much a regular expression reads, in bytes, before it is asked whether the search was cancelled:
	// the most complex one takes about 50 ms for it.
	maxPiece = 8 << 10
	// maxLiterals bounds the alternatives of which each is looked for by itself.
	maxLiterals = 8
)

// pattern says which lines match. It is safe for concurrent use.
type pattern struct {
	// literals are texts of which every match contains one, in small letters if fold is set; none if no such texts are
	// known.
	literals [][]byte
	fold     bool           // literals are found in any case
	re       *regexp.Regexp // nil: a literal is a match
	// first, middle and last are the expression for a part of a line, as their first group. Where the line goes on, a
	// character of the part must be beside a match: the end of a part is not for the expression to see, which may take
	// it for that of a line.
	first, middle, last *regexp.Regexp
	// perLine says that the expression must not be run over several lines: it would find less.
	perLine bool
}

// compile makes the pattern of a text or of a regular expression (RE2). An empty text matches every line. The error
// says what to change.
//
// An expression is compiled four times: re for whole lines, the others for the first, a middle and the last part of a
// line that is read in parts. There a character stands for the rest of the line, so that "^" and "$" do not match where
// the part is cut.
func compile(text string, isRegexp, ignoreCase bool) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the pattern has %d bytes: want at most %d", len(text), maxPattern)
	}
	if strings.ContainsAny(text, "\n\x00") {
		return nil, errors.New("the pattern contains a line break or a zero byte: want text of one line")
	}
	if !isRegexp {
		if text != "" && !ignoreCase {
			return &pattern{literals: [][]byte{[]byte(text)}}, nil
		}
		if text != "" && isASCII(text) {
			return &pattern{literals: [][]byte{lower([]byte(text))}, fold: true}, nil
		}
		text = regexp.QuoteMeta(text) // folding of other letters is left to the regular expression
	}
	flags := syntax.Perl &^ syntax.OneLine // as "(?m)"; an error names only what the user wrote
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not an RE2 regular expression: %s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	tree = beforeCR(tree)
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern is not an RE2 regular expression: %w", err)
	}
	if len(program.Inst) > maxProgram {
		return nil, fmt.Errorf("the pattern is too complex: %d steps, want at most %d; make repetitions shorter",
			len(program.Inst), maxProgram)
	}
	p := &pattern{}
	const character = "(?s:.)"
	group := "(" + tree.String() + ")" // as the tree writes it, nothing is left open, such as a \Q
	for _, form := range []struct {
		re   **regexp.Regexp
		text string
	}{
		{&p.re, tree.String()}, {&p.first, group + character}, {&p.middle, character + group + character},
		{&p.last, character + group},
	} {
		if *form.re, err = regexp.Compile(form.text); err != nil {
			return nil, fmt.Errorf("the pattern is not an RE2 regular expression: %w", err)
		}
	}
	p.setLiterals(tree.Simplify())
	for _, inst := range program.Inst { // \A and \z would be those of a block, so lines are searched one by one
		p.perLine = p.perLine || inst.Op == syntax.InstEmptyWidth &&
			syntax.EmptyOp(inst.Arg)&(syntax.EmptyBeginText|syntax.EmptyEndText) != 0
	}
	return p, nil
}

// beforeCR lets "$" match also before a "\r" that ends the line, as in logs with the line ends of Windows.
func beforeCR(re *syntax.Regexp) *syntax.Regexp {
	if re.Op == syntax.OpEndLine {
		cr := &syntax.Regexp{Op: syntax.OpQuest, Sub: []*syntax.Regexp{{Op: syntax.OpLiteral, Rune: []rune{'\r'}}}}
		return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{cr, re}}
	}
	for i, sub := range re.Sub {
		re.Sub[i] = beforeCR(sub)
	}
	return re
}

// setLiterals finds literals that every match of an expression contains one of: in any case if longer ones are known
// then.
func (p *pattern) setLiterals(re *syntax.Regexp) {
	required, folded := literals.Of(re, maxLiterals, false), literals.Of(re, maxLiterals, true)
	if literals.Shortest(folded) > literals.Shortest(required) {
		required, p.fold = folded, true
	}
	for _, text := range required {
		p.literals = append(p.literals, []byte(text))
	}
}

// find returns the first match, line[from:to], in a line or in a part of one: without hasStart the line begins before
// the part, without hasEnd it ends behind it. ok is false if there is none, or if ctx has ended.
func (p *pattern) find(ctx context.Context, line []byte, hasStart, hasEnd bool) (from, to int, ok bool) {
	var at []int
	switch {
	case !hasStart && !hasEnd:
		at = p.middle.FindReaderSubmatchIndex(newRuneReader(ctx, line))
	case !hasStart:
		at = p.last.FindReaderSubmatchIndex(newRuneReader(ctx, line))
	case !hasEnd:
		at = p.first.FindReaderSubmatchIndex(newRuneReader(ctx, line))
	case len(line) > maxPiece:
		at = p.re.FindReaderIndex(newRuneReader(ctx, line))
	default:
		at = p.re.FindIndex(line)
	}
	if at == nil || ctx.Err() != nil {
		return 0, 0, false
	}
	if len(at) > 2 {
		at = at[2:] // the group: the match without the characters that stand for the rest of the line
	}
	return at[0], at[1], true
}

// runeReader are those of a line, which ends early if its search is cancelled.
type runeReader struct {
	*bytes.Reader
	ctx context.Context
}

func newRuneReader(ctx context.Context, line []byte) runeReader {
	return runeReader{bytes.NewReader(line), ctx}
}

func (r runeReader) ReadRune() (c rune, size int, err error) {
	if r.Len()%maxPiece < utf8.UTFMax && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	return r.Reader.ReadRune()
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// lower returns b with the capital letters of ASCII made small.
func lower(b []byte) []byte {
	out := bytes.Clone(b)
	lowerInto(out, b)
	return out
}
