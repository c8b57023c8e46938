package redact

import (
	"bytes"
	"math/bits"
)

// span is a part of a text.
type span struct{ start, end int }

// Lines overwrites what matches in lines of text.
func (r *Redactor) Lines(b []byte) {
	if r != nil {
		r.countMatches(overwriteLong(b) + r.redactLines(b, 0, noRules)) // b is in no string of JSON
	}
}

// lineEnds end a line: progress bars write only \r.
const lineEnds = "\n\r"

// redactLines overwrites what matches in the lines of b, and returns the number of matches. A line that begins like a
// JSON object is redacted as JSON too, unless the text is already inside of maxNested strings of JSON; nested is how
// many it is in. without is the set of rules that are left out.
func (r *Redactor) redactLines(b []byte, nested int, without uint64) (matches int) {
	found := r.finder.nextLiteral(b, 0)
	object := nextObject(b, 0)
	for at := 0; at < len(b); {
		// The next line that has to be searched: it has a literal, or is an object, which may hide one in escapes.
		pos := min(found, object)
		if r.always != 0 { // some rules have no literal
			pos = at
		}
		if pos >= len(b) {
			break
		}
		start, end := at+bytes.LastIndexAny(b[at:pos], lineEnds)+1, len(b)
		if i := bytes.IndexAny(b[pos:], lineEnds); i >= 0 {
			end = pos + i
		}
		line := b[start:end]
		switch rules := (r.always | r.finder.rulesIn(line)) &^ without; {
		case start == object && nested < maxNested && (rules != 0 || hasEscapes(line)): // the line is an object
			w := walker{r: r, nested: nested + 1}
			matches += w.textAndJSON(line)
		case rules != 0:
			spans := r.findSpans(line, rules)
			for _, s := range spans {
				writeStars(line[s.start:s.end])
			}
			matches += len(spans)
		}
		at = end + 1
		if found < at {
			found = r.finder.nextLiteral(b, min(at, len(b)))
		}
		if object < at {
			object = nextObject(b, at)
		}
	}
	return matches
}

// nextObject returns where the first line of b at or after from begins whose first character is {; len(b) if there is
// none. A line begins at from.
func nextObject(b []byte, from int) int {
	for i := from; i < len(b); i++ {
		next := bytes.IndexByte(b[i:], '{')
		if next < 0 {
			break
		}
		if i += next; i == from || b[i-1] == '\n' || b[i-1] == '\r' {
			return i
		}
	}
	return len(b)
}

// findSpans returns what a set of rules overwrites in a line: what their expressions' groups match, or else whole
// matches, and all that follows very many matches (maxRead).
func (r *rules) findSpans(line []byte, rules uint64) (spans []span) {
	for ; rules != 0; rules &= rules - 1 { // without the lowest bit, whose rule was looked at
		rule := r.list[bits.TrailingZeros64(rules)]
		maxMatches := max(maxRead/max(len(line), 1), 1)
		for i, m := range rule.expression.FindAllSubmatchIndex(line, maxMatches) {
			before := len(spans)
			// m has the begin and end of the match, then of each group; -1 where a group is not in the match.
			for g := 2; rule.groups && g < len(m); g += 2 {
				if m[g] >= 0 {
					spans = append(spans, span{m[g], m[g+1]})
				}
			}
			if len(spans) == before {
				spans = append(spans, span{m[0], m[1]})
			}
			if i == maxMatches-1 { // there may be more: the rest is overwritten
				spans = append(spans, span{m[1], len(line)})
			}
		}
	}
	return spans
}

func writeStars(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}

// overwriteLong overwrites the lines of b that have more than maxLine bytes, and returns how many. A line begins where
// b begins.
func overwriteLong(b []byte) (lines int) {
	for at := 0; len(b)-at > maxLine; {
		if i := bytes.LastIndexAny(b[at:at+maxLine+1], lineEnds); i >= 0 {
			at += i + 1
			continue
		}
		end := len(b)
		if i := bytes.IndexAny(b[at+maxLine:], lineEnds); i >= 0 {
			end = at + maxLine + i
		}
		writeStars(b[at:end])
		at, lines = end, lines+1
	}
	return lines
}
