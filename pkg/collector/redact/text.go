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
		r.count(overwriteLong(b) + r.lines(b, 0, 0))
	}
}

// lineEnds end a line: progress bars write only \r.
const lineEnds = "\n\r"

// lines returns the number of matches that it has overwritten. A line is JSON if it begins like an object; nested is
// how many strings of JSON the text is in. Some rules may be left out.
func (r *Redactor) lines(b []byte, nested int, without uint64) (matches int) {
	found := r.finder.next(b, 0)
	object := nextObject(b, 0)
	for at := 0; at < len(b); {
		// The next line that is read: has a literal, or may hide one behind escapes.
		pos := min(found, object)
		if r.always != 0 {
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
		switch rules := (r.always | r.finder.rules(line)) &^ without; {
		case start == object && nested < maxNested && (rules != 0 || hides(line)):
			w := walker{r: r, nested: nested + 1}
			matches += w.both(line)
		case rules != 0:
			matches += overwrite(line, r.find(line, rules))
		}
		at = end + 1
		if found < at {
			found = r.finder.next(b, min(at, len(b)))
		}
		if object < at {
			object = nextObject(b, at)
		}
	}
	return matches
}

// nextObject returns where the first line at or after from begins that begins like an object; len(b) if there is none.
// from begins a line.
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

// find returns what the rules overwrite in a line: what their groups match, or else whole matches.
func (r *rules) find(line []byte, rules uint64) (spans []span) {
	for ; rules != 0; rules &= rules - 1 {
		rule := r.list[bits.TrailingZeros64(rules)]
		for _, m := range rule.expression.FindAllSubmatchIndex(line, -1) {
			before := len(spans)
			for g := 2; rule.groups && g < len(m); g += 2 {
				if m[g] >= 0 {
					spans = append(spans, span{m[g], m[g+1]})
				}
			}
			if len(spans) == before {
				spans = append(spans, span{m[0], m[1]})
			}
		}
	}
	return spans
}

func overwrite(b []byte, spans []span) (matches int) {
	for _, s := range spans {
		stars(b[s.start:s.end])
	}
	return len(spans)
}

func stars(b []byte) {
	for i := range b {
		b[i] = '*'
	}
}

// overwriteLong overwrites lines of more than maxLine bytes. b begins with a line.
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
		stars(b[at:end])
		at, lines = end, lines+1
	}
	return lines
}
