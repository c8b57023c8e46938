package logview

import (
	"bytes"
	"strconv"
	"strings"
)

// Span is a part of a line in one style. Class holds names of CSS classes: "bold", "fg0" to "fg15", or none.
type Span struct{ Class, Text string }

// spansOf splits a line into spans of one style each, at the sequences by which terminals choose colours (ECMA-48,
// SGR). These and all other control sequences are left out.
func spansOf(line []byte) []Span {
	var spans []Span
	var s style
	for len(line) > 0 {
		n := bytes.IndexByte(line, 0x1b)
		if n < 0 {
			n = len(line)
		}
		if n > 0 {
			spans = append(spans, Span{s.class(), printable(line[:n])})
		}
		if line = line[n:]; len(line) > 0 {
			var params string
			var final byte
			params, final, line = cutSequence(line)
			if final == 'm' {
				s.applySGR(params)
			}
		}
	}
	return spans
}

// cutSequence reads the control sequence that b starts with: ESC [ params final. rest is what follows. Of an escape of
// another kind only the ESC is taken, and final is 0; so it is for a sequence that ends within the line.
func cutSequence(b []byte) (params string, final byte, rest []byte) {
	if len(b) < 2 || b[1] != '[' {
		return "", 0, b[1:]
	}
	n := 2
	for n < len(b) && b[n] >= 0x20 && b[n] <= 0x3f { // bytes of parameters
		n++
	}
	if n == len(b) {
		return "", 0, nil
	}
	return string(b[2:n]), b[n], b[n+1:]
}

// style is what a terminal would write in.
type style struct {
	bold   bool
	colour int // 1 to 16; 0 is the page's own
}

// applySGR changes the style by the parameters of an SGR sequence, such as "1;31" (ECMA-48, 8.3.117): boldness, and the
// text's colour: 1 to 16, or 0 for the page's own. Other parameters have no effect.
func (s *style) applySGR(params string) {
	for param := range strings.SplitSeq(params, ";") {
		n, err := strconv.Atoi(param)
		switch {
		case param == "", err == nil && n == 0:
			*s = style{}
		case err != nil:
		case n == 1:
			s.bold = true
		case n == 22: // neither bold nor faint
			s.bold = false
		case n >= 30 && n <= 37: // colours 1 to 8
			s.colour = n - 30 + 1
		case n >= 90 && n <= 97: // the bright ones, 9 to 16
			s.colour = n - 90 + 9
		case n == 39: // the page's own colour
			s.colour = 0
		case n == 38 || n == 48:
			return // colours by number take parameters of their own
		}
	}
}

// class returns the CSS classes of the style.
func (s style) class() string {
	var names []string
	if s.bold {
		names = append(names, "bold")
	}
	if s.colour > 0 {
		names = append(names, "fg"+strconv.Itoa(s.colour-1))
	}
	return strings.Join(names, " ")
}

// printable replaces what is no text, and leaves out control characters other than tabs.
func printable(b []byte) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' || c >= 0x7f && c < 0xa0 {
			return -1
		}
		return c
	}, string(bytes.ToValidUTF8(b, []byte("\uFFFD"))))
}
