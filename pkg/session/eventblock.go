package session

import (
	"bytes"
)

// block is the part of a stream that is in memory.
type block struct {
	data []byte // not replayed yet
	last bool   // the stream, or the part before a gap, ends here
	// lines: one event per line. Otherwise the events are elements of an array, with line breaks anywhere. formKnown:
	// lines is decided.
	lines, formKnown bool
	// lost: it is not known where the next event begins, after damage or because the work item may begin within an
	// event.
	lost bool
	// strict: the search for the next event accepts only text that is certainly the beginning of one, see startsEvent.
	strict bool
	// left is the number of bytes before the work item's end. Events that begin after it belong to the next item.
	left    int64
	itemEnd bool // the item's end was reached
	// enough is how many bytes decoding waits for, after it has found that the event is cut: stores give a few
	// kilobytes at a time, and each time the event is decoded from its beginning.
	enough int
}

// drop removes the first n bytes, which are replayed or skipped.
func (b *block) drop(n int) {
	b.data = b.data[n:]
	b.left -= int64(n)
}

// countSeparators counts the bytes before the next event: white space, and an array's brackets and commas. KubeRay
// appends arrays to arrays. If the stream's form is not known yet, its first byte that is no white space decides: where
// an event begins, each line has one (b.lines); a bracket or comma belongs to an array.
func (b *block) countSeparators() int {
	for i, ch := range b.data {
		switch ch {
		case ' ', '\t', '\r', '\n':
		case '[', ']', ',':
			b.formKnown = true
		default:
			b.lines, b.formKnown = b.lines || !b.formKnown, true
			return i
		}
	}
	return len(b.data)
}

// nextText returns the text to decode the next event from: its line, or all data. complete says that reading more would
// not make it longer.
func (b *block) nextText() (text []byte, complete bool) {
	if b.lines {
		if n := bytes.IndexByte(b.data, '\n'); n >= 0 {
			return b.data[:n], true
		}
	}
	return b.data, false
}

// How most events begin: Ray's order of fields, and KubeRay's, which is alphabetical. The text cannot appear inside a
// string, where its quotes would be escaped, and no object inside an event begins with an event ID.
var (
	eventStart  = []byte(`{"event`)
	eventStarts = [][]byte{[]byte(`{"eventId"`), []byte(`{"event_id"`)}
)

const longestStart = len(`{"event_id"`)

// startsEvent reports whether data certainly begins with an event. enough is false if data is too short to tell.
func startsEvent(data []byte) (starts, enough bool) {
	for _, s := range eventStarts {
		if bytes.HasPrefix(data, s) {
			return true, true
		}
	}
	return false, len(data) >= longestStart
}

// indexEvent returns the index of the first text that is certainly the beginning of an event; -1 if there is none.
func indexEvent(data []byte) int {
	for from := 0; ; {
		i := bytes.Index(data[from:], eventStart)
		if i < 0 {
			return -1
		}
		from += i
		if starts, _ := startsEvent(data[from:]); starts {
			return from
		}
		from++
	}
}

// skipToEvent skips, after damage, to the next place where an event may begin: the next line, or a text that is
// certainly an event's beginning, see strict. If there is none, it returns false and keeps only the last bytes, which
// may be the first ones of such a text.
//
// A line's beginning is enough after an event that was found damaged. In an array, whose lines begin anywhere, a
// certain beginning before the next line counts first.
func (b *block) skipToEvent() bool {
	i := -1
	if !b.strict {
		i = bytes.IndexByte(b.data, '\n')
	}
	if b.strict || !b.lines {
		before := b.data
		if i >= 0 {
			before = before[:i]
		}
		if n := indexEvent(before); n >= 0 {
			i = n
		}
	}
	if i < 0 {
		keep := min(len(b.data), longestStart-1) // the start may be cut
		if b.last {
			keep = 0
		}
		b.drop(len(b.data) - keep)
		return false
	}
	b.drop(i)
	b.lost = false
	return true
}
