package yamledit

import (
	"fmt"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
)

// text finds where nodes begin and end in a document; the YAML library only says where they begin.
type text struct {
	src   string
	lines []int // byte offset of each line's start
}

// newText finds where the lines of a document begin.
func newText(src string) *text {
	t := &text{src: src, lines: []int{0}}
	for i := range len(src) {
		if src[i] == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// startOf is the byte offset of a node. Columns count characters.
func (t *text) startOf(n *yaml.Node) int {
	if n.Line > len(t.lines) {
		return len(t.src)
	}
	at := t.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRuneInString(t.src[at:])
		at += size
	}
	return min(at, len(t.src))
}

// columnOf is how many bytes precede offset in its line.
func (t *text) columnOf(offset int) int {
	return offset - (strings.LastIndexByte(t.src[:offset], '\n') + 1)
}

// lineEnd is the offset of the line end at or after offset.
func (t *text) lineEnd(offset int) int {
	if i := strings.IndexByte(t.src[offset:], '\n'); i >= 0 {
		offset += i
		if offset > 0 && t.src[offset-1] == '\r' {
			offset--
		}
		return offset
	}
	return len(t.src)
}

// endOf returns the offset after the last character of a node. indent is the column of the key or dash that holds it,
// -1 for the document.
func (t *text) endOf(n *yaml.Node, indent int) (int, error) {
	at := t.contentStart(n)
	switch n.Kind {
	case yaml.AliasNode:
		return at + len("*") + len(n.Value), nil
	case yaml.MappingNode, yaml.SequenceNode:
		if n.Style&yaml.FlowStyle != 0 {
			return t.bracketEnd(at)
		}
		return t.blockEnd(n)
	}
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return t.literalEnd(at, indent), nil
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return t.quoteEnd(at)
	default:
		return t.plainEnd(at, n)
	}
}

// contentStart returns the offset at which the own text of a scalar or of a collection in brackets begins, behind its
// anchor and tag: in "&a !!str text" that of "text", which may also be on a later line. A scalar without text begins
// where its anchor and tag end. For a collection in block style the offset means nothing.
func (t *text) contentStart(n *yaml.Node) int {
	at := t.startOf(n)
	if n.Kind == yaml.AliasNode {
		return at
	}
	const quoted, block = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle, yaml.LiteralStyle | yaml.FoldedStyle
	hasText := n.Kind != yaml.ScalarNode || n.Value != "" || n.Style&(quoted|block) != 0
	next := at
	for next < len(t.src) && (t.src[next] == '&' || t.src[next] == '!') {
		for next < len(t.src) && !isSpace(t.src[next]) {
			next++
		}
		at = next
		next = t.skipBlanks(next, hasText)
	}
	if hasText {
		return next
	}
	return at
}

// skipBlanks returns the offset behind the spaces and tabs at an offset and, with lines, behind line ends and comments.
func (t *text) skipBlanks(at int, lines bool) int {
	for at < len(t.src) {
		switch c := t.src[at]; {
		case c == ' ', c == '\t', lines && isSpace(c):
			at++
		case lines && c == '#':
			at = t.lineEnd(at)
		default:
			return at
		}
	}
	return at
}

// blockEnd returns the offset at which a mapping or sequence in block style ends: where its last value does or, if that
// is left out, behind its key's colon.
func (t *text) blockEnd(n *yaml.Node) (int, error) {
	last := n.Content[len(n.Content)-1]
	if n.Kind == yaml.MappingNode {
		first := t.columnOf(t.startOf(n.Content[0]))
		if last.Kind == yaml.ScalarNode && last.Value == "" && last.Tag == "!!null" && last.Anchor == "" {
			return t.behindColon(n.Content[len(n.Content)-2])
		}
		return t.endOf(last, first)
	}
	dash, err := t.dashColumn(n)
	if err != nil {
		return 0, err
	}
	return t.endOf(last, dash)
}

// dashColumn is the column of a block sequence's dashes.
func (t *text) dashColumn(n *yaml.Node) (int, error) {
	at, err := t.dashBefore(n.Content[0])
	return t.columnOf(at), err
}

// dashBefore returns the offset of an item's dash. There may be comments between the dash and the item.
func (t *text) dashBefore(item *yaml.Node) (int, error) {
	for at := t.startOf(item); ; {
		before := strings.TrimRight(t.src[:at], " \t\r\n")
		begin := strings.LastIndexByte(before, '\n') + 1
		if i := strings.IndexByte(before[begin:], '#'); i >= 0 && strings.Trim(before[begin:begin+i], " \t-") == "" {
			at = begin + i
			continue
		}
		if !strings.HasSuffix(before, "-") {
			return 0, fmt.Errorf("line %d: this item of a list has no dash", item.Line)
		}
		return len(before) - 1, nil
	}
}

// behindColon returns the offset after the colon that follows a key in block style, as in "key: value". A key in
// another form, such as "? key", is an error.
func (t *text) behindColon(key *yaml.Node) (int, error) {
	at, err := t.endOf(key, 0)
	if err != nil {
		return 0, err
	}
	const withinLine = false
	at = t.skipBlanks(at, withinLine)
	if at == len(t.src) || t.src[at] != ':' {
		return 0, fmt.Errorf("line %d: write key %q as `%s:`", key.Line, key.Value, key.Value)
	}
	return at + 1, nil
}

// literalEnd returns the offset at which a block scalar (| or >) ends. Its header is at the offset at, and its parent
// has this indent. Lines that are indented more belong to it. Empty lines belong to it only if such a line follows, or
// if a + in the header keeps them.
func (t *text) literalEnd(at, indent int) int {
	end := t.lineEnd(at)
	header, _, _ := strings.Cut(t.src[at:end], "#")
	keeps := strings.Contains(header, "+")
	for next := end; next < len(t.src); {
		start := next + strings.IndexByte(t.src[next:], '\n') + 1
		if start <= next || start == len(t.src) { // no line follows
			break
		}
		stop := t.lineEnd(start)
		line := t.src[start:stop]
		trimmed := strings.TrimLeft(line, " ")
		if trimmed != "" && len(line)-len(trimmed) <= indent {
			break
		}
		if trimmed != "" || keeps {
			end = stop
		}
		if next = stop; next < len(t.src) && t.src[next] == '\r' {
			next++
		}
	}
	return end
}

// quoteEnd returns the offset after the quoted text that begins at the offset at. In single quotes a quote is written
// twice, in double quotes behind a backslash.
func (t *text) quoteEnd(at int) (int, error) {
	if at >= len(t.src) {
		return 0, fmt.Errorf("a quoted text has no end")
	}
	quote := t.src[at]
	for i := at + 1; i < len(t.src); i++ {
		switch {
		case t.src[i] == '\\' && quote == '"':
			i++
		case t.src[i] == quote:
			if quote == '\'' && i+1 < len(t.src) && t.src[i+1] == '\'' {
				i++
				continue
			}
			return i + 1, nil
		}
	}
	return 0, fmt.Errorf("a quoted text has no end")
}

// plainEnd returns the offset at which a plain scalar ends that begins at the offset at. It follows the node's value
// through the text, where a space or line end of the value may be any run of white space.
func (t *text) plainEnd(at int, n *yaml.Node) (int, error) {
	for i := 0; i < len(n.Value); {
		if at >= len(t.src) {
			return 0, fmt.Errorf("line %d: cannot find the end of %q", n.Line, n.Value)
		}
		if isSpace(n.Value[i]) {
			for i < len(n.Value) && isSpace(n.Value[i]) {
				i++
			}
			for at < len(t.src) && isSpace(t.src[at]) {
				at++
			}
			continue
		}
		if t.src[at] != n.Value[i] {
			return 0, fmt.Errorf("line %d: cannot find the end of %q", n.Line, n.Value)
		}
		at++
		i++
	}
	return at, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// bracketEnd returns the offset after the bracket that closes the collection whose opening bracket is at the offset at.
func (t *text) bracketEnd(at int) (int, error) {
	depth := 0
	for i := at; i < len(t.src); i++ {
		switch c := t.src[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		case '"', '\'':
			// A quote inside a plain text (it's) is not one: it opens only where a value may begin.
			if before := strings.TrimRight(t.src[at:i], " \t\r\n"); before == "" ||
				!strings.ContainsRune("[{,:", rune(before[len(before)-1])) {
				continue
			}
			end, err := t.quoteEnd(i)
			if err != nil {
				return 0, err
			}
			i = end - 1
		case '#':
			if isSpace(t.src[i-1]) {
				i = t.lineEnd(i) - 1
			}
		}
	}
	return 0, fmt.Errorf("a bracket is not closed")
}
