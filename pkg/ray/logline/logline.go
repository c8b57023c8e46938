// Package logline reads what a line of a log says of itself: its level, its time, its message, and whether it begins a
// record or belongs to the one before. It knows the forms of Ray's own processes and of the libraries that programs on
// Ray log with; docs/log-forms.md has a table of them, which testdata/forms.json holds as the libraries printed them:
//
//	[2026-11-20 23:19:45,581 I 123 456] (raylet) main.cc:1: …        brackets, times, levels and names in any order
//	ERROR:root:…   W1120 23:19:45.581 1 x.py:1] …   ERRO[0005] …     a level at the beginning
//	{"asctime": "2026-11-20 23:19:45,581", "levelname": "INFO", …}   JSON, of one line or of several
//	time=2026-11-20T23:19:45Z level=error msg=…                      logfmt
//
// What terminals, launchers and Ray put before a line is passed over: colours, "[rank0]:", "(task pid=1, ip=10.0.0.1)",
// progress bars.
package logline

import (
	"bytes"
	"strings"
)

// Header is what a line says of itself.
type Header struct {
	Time  int64 // Unix ns; 0 unless Dated
	Dated bool
	Level Level // Unknown if the line names none
	// Traceback says that the line begins a traceback of Python, and names neither a time nor a level.
	Traceback bool
}

// Begins says whether a line with this header begins a record. Other lines belong to the record before them.
func (h Header) Begins() bool { return h.Dated || h.Level != Unknown }

const (
	// MaxHeader is how much of a line that is not JSON is looked at, in bytes.
	MaxHeader = 512
	// maxJSON is how much of an object of JSON is looked at.
	maxJSON = 1 << 20
)

// Parse reads the header of a line: its time and level, and whether it begins a traceback. If the line overwrites
// itself, as progress bars do, its last state counts. line may hold further lines: they are read only if the first has
// nothing but the brace of a JSON object.
func Parse(line []byte, clock *Clock) Header {
	first, _, _ := bytes.Cut(line, []byte{'\n'})
	if len(first) > 0 && first[0] == '{' {
		if len(bytes.TrimSpace(first)) == 1 {
			first = line
		}
		return parseObject(first, clock)
	}
	first = Visible(first)
	head := first[:min(len(first), MaxHeader)]
	var buffer [MaxHeader]byte
	if bytes.IndexByte(head, 0x1b) >= 0 {
		head = withoutEscapes(&buffer, first)
	}
	head = afterBar(head)
	h, _ := parseText(head, first, clock)
	h.Traceback = !h.Begins() && beginsTraceback(head)
	return h
}

// beginsTraceback says whether a line is the first of one of Python's tracebacks. The tracebacks of an exception
// group's parts, which are indented, do not count, since they are part of the group's. rich prints a frame around
// tracebacks.
//
//	Traceback (most recent call last):
//	(train pid=1, ip=10.0.0.1) Traceback (most recent call last):     behind what Ray or a launcher prints before a line
//	  + Exception Group Traceback (most recent call last):
//	╭───────────────────── Traceback (most recent call last) ─────────────────────╮
func beginsTraceback(b []byte) bool {
	before, behind, found := bytes.Cut(b, []byte("Traceback (most recent call last)"))
	switch {
	case !found:
		return false
	case bytes.HasPrefix(before, []byte("╭─")):
		return true
	case len(behind) == 0 || behind[0] != ':':
		return false
	case len(before) == 0 || string(before) == "  + Exception Group ":
		return true
	}
	before = bytes.TrimSuffix(bytes.TrimSuffix(before, []byte{' '}), []byte{':'})
	return len(before) > 1 && strings.IndexByte("([", before[0]) >= 0 && strings.IndexByte(")]>", before[len(before)-1]) >= 0
}

// Visible returns what a terminal shows of a line in the end: what follows the last carriage return, unless that is
// blank.
func Visible(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	for {
		n := bytes.LastIndexByte(line, '\r')
		if n < 0 {
			return line
		}
		if state := line[n+1:]; len(bytes.TrimSpace(state)) > 0 {
			return state
		}
		line = bytes.TrimRight(line[:n], "\r")
	}
}

// State is the part of a line between carriage returns that has the byte at an offset, and where the part begins.
func State(line []byte, at int) (state []byte, begins int) {
	begins = bytes.LastIndexByte(line[:at], '\r') + 1
	state = line[begins:]
	if n := bytes.IndexByte(line[at:], '\r'); n >= 0 {
		state = line[begins : at+n]
	}
	return state, begins
}

// withoutEscapes copies the beginning of a line into buffer, without the sequences that control a terminal (ECMA-48),
// and returns the copy.
func withoutEscapes(buffer *[MaxHeader]byte, line []byte) []byte {
	n := 0
	for i := 0; i < len(line) && n < len(buffer); {
		if line[i] == 0x1b {
			i += controlSequenceSize(line[i:])
			continue
		}
		buffer[n] = line[i]
		n, i = n+1, i+1
	}
	return buffer[:n]
}

// controlSequenceSize returns the length in bytes of the control sequence that b begins with.
func controlSequenceSize(b []byte) (n int) {
	if len(b) < 2 {
		return 1
	}
	switch b[1] {
	case '[': // parameters, and a final byte
		for n = 2; n < len(b) && b[n] >= 0x20 && b[n] <= 0x3f; n++ {
		}
		return min(n+1, len(b))
	case ']': // a title or a link, up to BEL or ESC
		for n = 2; n < len(b) && b[n] != 0x07 && b[n] != 0x1b; n++ {
		}
		if n < len(b) && b[n] == 0x07 {
			n++
		}
		return n
	}
	return 2
}

// afterBar returns what follows the progress bar at the beginning of b, which ended without a line end, as tqdm's do:
// "…| 5/10 [00:01<00:01, 5.00it/s]". If b does not begin with a bar, or nothing follows it, it returns b.
func afterBar(b []byte) []byte {
	for _, unit := range [...]string{"it/s", "s/it", "B/s"} {
		at := bytes.Index(b, []byte(unit))
		if at < 0 || bytes.IndexByte(b[:at], '[') < 0 {
			continue
		}
		if end := bytes.IndexByte(b[at:], ']'); end >= 0 && len(bytes.TrimSpace(b[at+end+1:])) > 0 {
			return b[at+end+1:]
		}
	}
	return b
}
