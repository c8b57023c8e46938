package redact

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

const (
	// maxNested bounds how deep strings of JSON hold JSON that is read as such.
	maxNested = 4
	// maxString is the maximum length of a string of JSON that expressions read, because that takes many times its
	// memory. Longer ones that may match are overwritten as a whole.
	maxString = 4 << 20
)

var errNotJSON = errors.New("it is not JSON, so it cannot be redacted")

// JSON overwrites what matches in the strings of b, one value of JSON. If it is no JSON, it is redacted as text.
func (r *Redactor) JSON(b []byte) {
	if r == nil || !r.mayMatch(b) {
		return
	}
	w := walker{r: r}
	const last = true
	if _, err := w.redactTokens(b, last); err != nil { // it is no JSON
		w.matches += r.redactLines(b, maxNested, noRules) // maxNested: none of its lines is taken for JSON
	}
	r.countMatches(w.matches)
}

// walker goes through the tokens of JSON.
type walker struct {
	r       *Redactor
	nested  int  // strings that the JSON is in
	loose   bool // what is outside of strings may be anything, and stays
	matches int

	depth int
	named bool   // the next value's name is redacted
	below int    // the depth of a list or object with such a name; 0: it is in none
	name  []byte // the last one
	rules uint64 // those with a literal in name: they read a value together with it
}

// noRules is the empty set of rules.
const noRules = 0

// mayMatch says whether anything in JSON can match: it has a literal, or may hide one.
func (r *rules) mayMatch(b []byte) bool {
	return r.always != 0 || r.finder.nextLiteral(b, 0) < len(b) || hasEscapes(b)
}

// hasEscapes says whether b has an escape (\u or \/) that may stand for a part of a literal, in b itself or in a string
// of JSON inside. Other escapes stand for quotes, backslashes and control characters, which no literal has.
func hasEscapes(b []byte) bool {
	for i := 0; i < len(b)-1; i++ {
		slash := bytes.IndexByte(b[i:len(b)-1], '\\')
		if slash < 0 {
			return false
		}
		if i += slash; b[i+1] == 'u' || b[i+1] == '/' {
			return true
		}
	}
	return false
}

// redactTokens redacts the complete tokens in b, in place, and returns where they end: the caller passes the rest
// again, with more data. last says that no more data follows. The error is errNotJSON if b cannot be JSON.
func (w *walker) redactTokens(b []byte, last bool) (done int, err error) {
	found := w.r.finder.nextLiteral(b, 0) // where the next text is that may match
	for i := 0; i < len(b); {
		t := nextToken(b, i)
		if t.open && !last { // it may go on in the data that follows
			return i, nil
		}
		switch {
		case t.end == 0 && w.loose:
			return len(b), nil
		case t.end == 0:
			return i, errNotJSON
		case t.kind == '"':
			if found < i {
				found = w.r.finder.nextLiteral(b, i)
			}
			content := b[i+1 : t.end-1] // without the quotes
			w.redactString(content, t.name, w.r.always != 0 || found < t.end || hasEscapes(content))
		case t.kind == '{' || t.kind == '[':
			w.depth++
			if w.named && w.below == 0 { // all values in this list or object are redacted
				w.below = w.depth
			}
		case t.kind == '}' || t.kind == ']':
			if w.below == w.depth {
				w.below = 0
			}
			w.depth--
			w.named = false
		case t.kind == aWord && !w.loose:
			word := b[i:t.end]
			if !pythonWord().Match(word) {
				return i, errNotJSON
			}
			if w.named || w.below > 0 {
				w.matches++
				writeOnes(word)
			}
		}
		i = t.end
	}
	return len(b), nil
}

// token is one of JSON's.
type token struct {
	kind byte // " of a string, aWord of a number or word, else its character; a space stands for several
	end  int  // 0: a string that has none
	name bool // the string names a member
	open bool // more data may make it another token, or a name
}

// nextToken returns the token of b that begins at i: a string, a bracket, comma or colon, or a run of space or of other
// characters. Its end is 0 if it is a string without an end. It is open if it reaches to the end of b, so that more
// data could change it; a string is open also if the colon that makes it a name could follow.
func nextToken(b []byte, i int) token {
	switch c := b[i]; c {
	case '"':
		end := jsontext.StringEnd(b, i+1) + 1 // behind the closing quote
		if end > len(b) {
			return token{kind: '"', open: true}
		}
		next := end
		for next < len(b) && isSpace(b[next]) {
			next++
		}
		open := next == len(b)
		return token{kind: '"', end: end, name: !open && b[next] == ':', open: open}
	case '{', '}', '[', ']', ',', ':':
		return token{kind: c, end: i + 1}
	}
	for end := i; ; end++ {
		switch {
		case end == len(b):
			return token{kind: kindOf(b[i]), end: end, open: true}
		case isSpace(b[i]) != isSpace(b[end]), bytes.IndexByte([]byte(`"{}[],:`), b[end]) >= 0:
			return token{kind: kindOf(b[i]), end: end}
		}
	}
}

func kindOf(c byte) byte {
	if isSpace(c) {
		return ' '
	}
	return aWord
}

// aWord is the kind of a token that is a number or a word.
const aWord = 'w'

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// pythonWord matches the numbers and words that Python writes as JSON.
var pythonWord = lazyregexp.New(`^(?:true|false|null|NaN|-?Infinity|-?[0-9][0-9.eE+-]*)$`)

// writeOnes overwrites a number, with ones, so that it stays a number.
func writeOnes(b []byte) {
	for i, c := range b {
		if c >= '0' && c <= '9' {
			b[i] = '1'
		}
	}
}

// redactString redacts the content of a string, which is a name or a value. mayMatch says whether the content may match
// by itself; a value may also match together with its name. What Ray's data needs, such as an ID, stays (isKept) unless
// its name is redacted.
func (w *walker) redactString(content []byte, name, mayMatch bool) {
	if !name && (w.named || w.below > 0) { // the value of a redacted name, or a part of it
		if len(content) > 0 {
			w.matches++
			writeStars(content)
		}
		return
	}
	if name {
		w.named, w.rules, w.name = false, 0, append(w.name[:0], content...)
	}
	if !mayMatch && w.rules == 0 {
		return
	}
	if len(content) > maxString {
		w.matches++
		writeStars(content)
		return
	}
	decoded := content
	if bytes.IndexByte(content, '\\') >= 0 {
		decoded = decodeString(content)
	}
	rules := w.r.always | w.r.finder.rulesIn(decoded)
	if name {
		w.rules, w.name = rules, append(w.name[:0], decoded...)
		w.named = rules != 0 && w.r.names != nil && w.r.names.Match(decoded)
	}
	if rules|w.rules == 0 && !hasEscapes(decoded) {
		return
	}
	redacted := bytes.Clone(decoded)
	matches := 0
	trimmed := bytes.TrimLeft(redacted, " \t\r\n")
	mayBeJSON := len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[')
	if mayBeJSON && w.nested < maxNested {
		// JSON in the string is redacted as a document of its own, so that no rule is left for it as one text.
		inner := walker{r: w.r, nested: w.nested + 1}
		matches, rules = inner.textAndJSON(redacted), 0
	} else {
		matches = w.r.redactLines(redacted, w.nested+1, noRules)
	}
	if rules |= w.rules; !name && rules != 0 {
		matches += w.redactAssignment(decoded, redacted, rules)
	}
	if matches > 0 && !w.isKept(decoded) {
		w.matches += matches
		copyStars(content, decoded, redacted)
	}
}

// redactAssignment redacts a value by rules that match its name and the value together, as text: "name": "value". It
// overwrites redacted, which is as long as text, where the value is part of a match.
func (w *walker) redactAssignment(text, redacted []byte, rules uint64) (matches int) {
	line := fmt.Appendf(nil, "%q: \"", w.name)
	start := len(line)
	for _, s := range w.r.findSpans(append(append(line, text...), '"'), rules) {
		if from, to := max(s.start-start, 0), min(s.end-start, len(text)); from < to &&
			len(bytes.Trim(redacted[from:to], "*")) > 0 {
			writeStars(redacted[from:to])
			matches++
		}
	}
	return matches
}

// textAndJSON redacts a text, in place, and returns the number of matches. If the text is one value of JSON, it is
// redacted in its strings, and what matches in it as text is overwritten too, but only in strings and numbers.
func (w *walker) textAndJSON(text []byte) (matches int) {
	before, asText := bytes.Clone(text), bytes.Clone(text)
	without := w.r.assigned // redactTokens finds the values of names by their names
	if w.loose {
		without = noRules
	}
	matches = w.r.redactLines(asText, maxNested, without)
	const last = true
	if _, err := w.redactTokens(text, last); err != nil || w.depth != 0 { // it is no JSON
		copy(text, before)
		return w.r.redactLines(text, maxNested, noRules)
	}
	// What matched in the text as a whole is overwritten in its tokens, too: matches may go over several of them.
	for i := 0; matches > 0 && i < len(text); {
		t := nextToken(before, i)
		if t.end == 0 {
			break
		}
		switch {
		case bytes.Equal(before[i:t.end], asText[i:t.end]):
		case t.kind == '"':
			copyStars(text[i+1:t.end-1], before[i+1:t.end-1], asText[i+1:t.end-1])
		case t.kind == aWord && !w.loose:
			writeOnes(text[i:t.end])
		}
		i = t.end
	}
	return matches + w.matches
}

// copyStars overwrites the characters of a string's content that differ between before and after. Both are the content
// as it is, or both are the content without escapes; an escape is overwritten as a whole.
func copyStars(content, before, after []byte) {
	encoded := len(content) == len(before) // before and after have the escapes as content has them
	for i, at := 0, 0; i < len(content) && at < len(before); {
		n, c := nextChar(content[i:])
		size := utf8.RuneLen(c)
		if c < 0 {
			size = 1
		}
		if encoded {
			size = n
		}
		if size = min(size, len(before)-at); !bytes.Equal(before[at:at+size], after[at:at+size]) {
			writeStars(content[i : i+n])
		}
		i, at = i+n, at+size
	}
}

// decodeString returns the content of a string with the characters that its escapes stand for.
func decodeString(content []byte) []byte {
	text := make([]byte, 0, len(content))
	for i := 0; i < len(content); {
		n, c := nextChar(content[i:])
		if c < 0 {
			text = append(text, content[i])
		} else {
			text = utf8.AppendRune(text, c)
		}
		i += n
	}
	return text
}

// nextChar returns the length of the escape or byte that b begins with, and the character that an escape stands for; -1
// for a byte.
func nextChar(b []byte) (n int, c rune) {
	if c, n, ok := jsontext.Escape(b); ok {
		return n, c
	}
	return 1, -1
}

// What Ray's data cannot be shown without is never overwritten, but for the values of --redact-env.
var (
	// session and times may have any name.
	keptText = lazyregexp.New(`^(?:session_\d{4}-\d\d-\d\d_[0-9_-]+|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?` +
		`(?:Z|[+-]\d\d:\d\d))$`)
	// Of members about IDs and types: Ray's sizes in hex and base64, submissions, and types of events.
	keptID = lazyregexp.New(`^(?:[0-9a-f]{8}|[0-9a-f]{32}|[0-9a-f]{36}|[0-9a-f]{48}|[0-9a-f]{56}|` +
		`[\w+/-]{6}==|[\w+/-]{22}==|[\w+/-]{24}|[\w+/-]{32}|[\w+/-]{38}==|raysubmit_\w+|[A-Z_]+_EVENT)$`)
	keptInstant = lazyregexp.New(`^\d{10,19}$`)
)

// isKept says whether a string is one that is never overwritten.
func (w *walker) isKept(text []byte) bool {
	return keptText().Match(text) ||
		keptID().Match(text) && hasEnd(w.name, "_id", "Id", "_ids", "Ids", "ID", "eventType", "event_type") ||
		keptInstant().Match(text) && hasEnd(w.name, "time", "Time", "timestamp", "Timestamp", "_ms", "Ms", "_ns", "Ns",
			"_at", "At")
}

func hasEnd(name []byte, ends ...string) bool {
	return slices.ContainsFunc(ends, func(end string) bool { return bytes.HasSuffix(name, []byte(end)) })
}
