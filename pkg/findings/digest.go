package findings

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// Sizes of what is kept of a log, in bytes.
const (
	wholeBytes = 3 << 20   // a log up to this size is kept whole
	headBytes  = 128 << 10 // of a longer log: its beginning,
	placeBytes = 640 << 10 // the last places that tell of failures,
	tailBytes  = 1 << 20   // and at least its end
	maxDigest  = 4 << 20   // of all of this
	maxLine    = 256 << 10 // of one line: its beginning and its end
	linesAhead = 3         // kept before a line that tells of a failure
	linesAfter = 150       // and from it on
	maxPlace   = 64 << 10  // of one such place
)

// digest keeps what matters of a log, which it reads once, as a stream: all of a short log, and of a long one its
// beginning, the places that tell of failures, and its end. Of a line that overwrites itself, such as a progress bar,
// it keeps the last state, behind a carriage return. Records in JSON become lines of text if they are Ray's, or have an
// exception.
//
//	text  [ beginning | places | what was read last ]
//	                  head     recent
type digest struct {
	raw     bool     // records in JSON stay as they are
	markers [][]byte // a line with one of these tells of a failure
	// workers are the IDs of the processes whose lines Ray may have copied to the log of a driver; nil for other logs
	workers    map[string]bool
	line       []byte // the line that is not whole yet; of a long one without states that were overwritten
	wasRedrawn bool   // the line had earlier states, which were overwritten
	next       int    // the line's number, from 1

	text         []byte
	marks        []mark
	head, recent int  // offsets in text; recent is 0 as long as the log is kept whole
	leftOut      bool // some places did not fit and were left out

	// lineByLineBytes is how many of the next bytes are read line by line, because there are lines among them that are
	// not kept as they are.
	lineByLineBytes int
	work            int64 // bytes of lines that were looked at; states that were overwritten count less
}

// overwritten is how many bytes of overwritten states take as long as one byte of a line.
const overwritten = 16

// mark says which line of the log is at an offset of the text. Up to the next mark lines are counted from it, or are
// all the same line.
type mark struct {
	offset, line int
	record       bool // a record in JSON, which is one line of the log
}

// Write adds the next part of a log to the digest. The error is always nil.
func (d *digest) Write(p []byte) (int, error) {
	d.work += int64(len(p) / overwritten)
	for rest := p; len(rest) > 0; {
		if d.lineByLineBytes <= 0 {
			if n := d.addPlainLines(rest); n > 0 {
				rest = rest[n:]
				continue
			}
			d.lineByLineBytes = plainBlock
		}
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			d.extendLine(rest)
			break
		}
		d.extendLine(rest[:n])
		d.finishLine()
		rest, d.lineByLineBytes = rest[n+1:], d.lineByLineBytes-n-1
	}
	return len(p), nil
}

// plainBlock is about how many bytes of plain lines are added at once.
const plainBlock = 16 << 10

// addPlainLines adds the whole lines at the beginning of a text at once, if none of them needs to be changed: no record
// in JSON, no state that overwrites another, no mark of a worker, no colour in a traceback, and no invalid character.
// It returns how many bytes it added; 0 if they have to be added line by line.
func (d *digest) addPlainLines(text []byte) int {
	lines := text[:bytes.LastIndexByte(text[:min(len(text), plainBlock)], '\n')+1]
	begins := func(c byte) bool { return lines[0] == c || bytes.Contains(lines, []byte{'\n', c}) }
	if len(d.line) > 0 || len(lines) == 0 || begins('{') ||
		d.workers != nil && (begins('(') || output.MarkWithin(lines) > 0) ||
		bytes.Contains(lines, colouredFrame) || bytes.IndexByte(lines, '\r') >= 0 || bytes.IndexByte(lines, 0) >= 0 ||
		!utf8.Valid(lines) {
		return 0
	}
	if d.needsMark() {
		d.marks = append(d.marks, mark{offset: len(d.text), line: d.next})
	}
	d.text = append(d.text, lines...)
	d.next += bytes.Count(lines, []byte{'\n'})
	d.shortenIfLong(len(lines))
	return len(lines)
}

// needsMark reports whether the next line's number cannot be counted from the last mark, or only through much text.
func (d *digest) needsMark() bool {
	n := len(d.marks)
	return n == 0 || d.marks[n-1].record || len(d.text)-d.marks[n-1].offset > plainBlock
}

// shortenIfLong counts the work for bytes that were just added to the text, and shortens the text if it is too long.
func (d *digest) shortenIfLong(added int) {
	d.work += int64(added)
	if size := len(d.text) - d.recent; d.recent == 0 && size > wholeBytes || d.recent > 0 && size > 2*tailBytes {
		d.shorten()
	}
}

// extendLine adds a part of a line, without its line end, to the line that is being read.
func (d *digest) extendLine(part []byte) {
	if bytes.IndexByte(part, 0) >= 0 {
		part = bytes.ReplaceAll(part, []byte{0}, nil) // a program printed UTF-16 to a log of other text
	}
	if d.line = append(d.line, part...); len(d.line) > maxLine {
		d.dropOverwritten()
		d.line = cutMiddle(d.line)
	}
}

// dropOverwritten drops the states of the line before the last one that is not blank: each began behind a carriage
// return. An exception that has no line end, which a bar would hide, becomes a line of its own.
func (d *digest) dropOverwritten() {
	at := cap(d.line) - cap(logline.Visible(d.line)) // where that state begins: it is a slice of the line
	if at == 0 {
		return
	}
	if first, _, _ := bytes.Cut(d.line, []byte{'\r'}); !d.wasRedrawn && output.NamesException(first) {
		d.addPartAsLine(first)
	}
	d.line, d.wasRedrawn = append(d.line[:0], d.line[at:]...), true
}

// addPartAsLine adds a part of the line that is being read as a line of its own to the text.
func (d *digest) addPartAsLine(part []byte) {
	d.marks = append(d.marks, mark{len(d.text), d.next, true})
	d.text = append(append(d.text, logline.UTF8(part)...), '\n')
}

// cutMiddle returns a line without its middle if it is longer than maxLine. It changes the line's bytes in place.
func cutMiddle(line []byte) []byte {
	if len(line) > maxLine {
		line = append(line[:maxLine/2], line[len(line)-maxLine/2:]...)
	}
	return line
}

// colouredFrame is in each frame of a traceback that Python 3.13 colours: with FORCE_COLOR also in logs.
var colouredFrame = []byte("  File \x1b[")

// finishLine adds the line that was read to the text, and begins the next one. A record in JSON becomes lines of text
// if logline.Expand knows its form; a line that was redrawn begins with a carriage return.
func (d *digest) finishLine() {
	d.dropOverwritten()
	shown := logline.Visible(d.line)
	size, line := len(shown)+1, logline.UTF8(shown)
	if at := output.MarkWithin(line); d.workers != nil && at > 0 { // the driver had not ended its line
		if d.wasRedrawn {
			d.text = append(d.text, '\r')
		}
		d.addPartAsLine(line[:at])
		line, d.wasRedrawn = line[at:], false
	}
	var record []byte
	if !d.raw && len(line) > 0 && line[0] == '{' {
		record = logline.Expand(line)
	}
	if record != nil || d.needsMark() {
		d.marks = append(d.marks, mark{len(d.text), d.next, record != nil})
	}
	if d.wasRedrawn && record == nil {
		d.text = append(d.text, '\r')
	}
	if bytes.Contains(line, colouredFrame) {
		line = []byte(output.Printable(string(line)))
	}
	if record != nil {
		line = record
	} else if d.workers != nil {
		line = output.ColourMark(line, d.workers)
	}
	d.text = append(append(d.text, line...), '\n')
	d.line, d.wasRedrawn = d.line[:0], false
	d.next++
	d.shortenIfLong(size)
}

// endLog finishes a last line that has no line end. It is called once, behind the last part of the log.
func (d *digest) endLog() {
	if len(d.line) > 0 {
		d.finishLine()
		d.text = d.text[:len(d.text)-1]
	}
}

// unnumbered is the number of the first line behind a part of the log that was not read: that of no line behind it is
// above zero.
const unnumbered = math.MinInt64 / 2

// skipPart notes that a part of the log is not read, behind all that was written until now. The lines behind that part
// have no numbers.
func (d *digest) skipPart() {
	if len(d.line) > 0 {
		d.finishLine()
	}
	d.marks = append(d.marks, mark{len(d.text), 0, true})
	d.text = append(d.text, skipped...)
	d.next = unnumbered
}

// shorten leaves out of the text what does not matter: of all but the last tailBytes it keeps the log's beginning and
// the places that tell of failures. If places of earlier calls take more than placeBytes, the oldest ones are left out.
func (d *digest) shorten() {
	tail := lineEnd(d.text, len(d.text)-tailBytes)
	if d.recent == 0 {
		d.head = lineEnd(d.text, headBytes)
		d.recent = d.head
	}
	oldPlaces := d.head // where the places of earlier calls begin that are kept
	if over := d.recent - d.head - placeBytes; over > 0 {
		oldPlaces, d.leftOut = lineEnd(d.text[:d.recent], d.head+over), true
	}
	kept := digest{text: make([]byte, 0, len(d.text))}
	copied := 0 // up to where
	for _, part := range slices.Concat([][2]int{{0, d.head}, {oldPlaces, d.recent}}, d.failurePlaces(d.recent, tail),
		[][2]int{{tail, len(d.text)}}) {
		if kept.recent = len(kept.text); part[0] < part[1] {
			kept.copyLines(d, part[0], part[1], part[0] > copied)
			copied = part[1]
		}
	}
	d.text, d.marks, d.recent = kept.text, kept.marks, kept.recent
}

// skipped is a line that stands for what is left out, so that texts around it do not seem to belong together.
const skipped = "\n"

// copyLines appends the lines between two offsets of another digest's text, with their marks. leftOut says that lines
// in front of them were left out: then the line skipped stands before them.
func (d *digest) copyLines(other *digest, from, to int, leftOut bool) {
	at := countedMark(other.text, other.marks, from)
	if n := len(d.text); n > 0 && leftOut {
		d.marks = append(d.marks, mark{offset: n, line: at.line, record: true}) // one line, whatever was there
		d.text = append(d.text, skipped...)
	}
	d.marks = append(d.marks, mark{len(d.text), at.line, at.record})
	for _, m := range other.marks {
		if m.offset > from && m.offset < to {
			d.marks = append(d.marks, mark{len(d.text) + m.offset - from, m.line, m.record})
		}
	}
	d.text = append(d.text, other.text[from:to]...)
}

// failurePlaces returns the parts between two offsets of the text that tell of failures, as begin and end in the text's
// order: for each line with a marker, the lines around it. Parts that touch become one. If they have more than
// placeBytes together, the first ones are left out.
func (d *digest) failurePlaces(from, to int) (found [][2]int) {
	var hits []int
	for _, marker := range d.markers {
		for at := from; ; {
			n := bytes.Index(d.text[at:to], marker)
			if n < 0 {
				break
			}
			at = lineEnd(d.text[:to], at+n)
			hits = append(hits, at-1)
			if at >= to {
				break
			}
		}
	}
	slices.Sort(hits)
	size := 0
	for i := len(hits) - 1; i >= 0; i-- {
		last, limit := len(found)-1, to
		if last >= 0 {
			limit = max(found[last][0], hits[i]) // lines that are in the place behind it are not counted again
		}
		place := [2]int{linesBack(d.text[from:hits[i]], linesAhead) + from,
			linesForward(d.text[:limit], hits[i], linesAfter)}
		if last >= 0 && place[1] >= found[last][0] {
			place[1] = found[last][1]
			size -= found[last][1] - found[last][0]
			found = found[:last]
		}
		if size += place[1] - place[0]; size > placeBytes {
			d.leftOut = true
			break
		}
		found = append(found, place)
	}
	slices.Reverse(found)
	return found
}

// lineEnd returns the offset behind the line end of the line that has the byte at an offset.
func lineEnd(text []byte, at int) int {
	at = min(at, len(text))
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(text)
}

// linesBack returns the offset at which the line begins that is n lines before the last line of a text; 0 if the text
// has fewer lines.
func linesBack(text []byte, n int) int {
	at := len(text)
	for range n + 1 {
		if at = bytes.LastIndexByte(text[:max(0, at)], '\n'); at < 0 {
			return 0
		}
	}
	return at + 1
}

// linesForward returns the offset behind the n lines that begin at an offset, or behind the line that is the first to
// end more than maxPlace bytes after it.
func linesForward(text []byte, at, n int) int {
	begin := at
	for range n {
		if at = lineEnd(text, at); at >= len(text) || at-begin > maxPlace {
			break
		}
	}
	return at
}

// lineNumber returns the number, from 1, of the log's line that an offset of a text is in; 0 if it is not known.
func lineNumber(text string, marks []mark, offset int) int {
	return max(0, countedMark(text, marks, offset).line)
}

// countedMark returns the last mark at or before an offset, with the number of the line that the offset is in; the zero
// mark if there is none.
func countedMark[T string | []byte](text T, marks []mark, offset int) (m mark) {
	after, _ := slices.BinarySearchFunc(marks, offset+1, func(m mark, at int) int { return m.offset - at })
	if after == 0 {
		return m
	}
	if m = marks[after-1]; !m.record {
		m.line += strings.Count(string(text[m.offset:offset]), "\n")
	}
	return m
}

// failureMarkers returns the texts by which lines about a failure are recognised in the log at a path.
func failureMarkers(path string) [][]byte {
	texts := []string{
		"Traceback (most recent call last)", "*** SIG", "Fatal Python error", "terminate called", "Check failed: ",
		"bad_alloc", "Exception in thread ", "panic: ", " panicked at ",
		"Error: ", "Failed to connect to GCS", "FATAL",
	}
	switch {
	case path == "gcs_server.out":
		texts = []string{"Reporting worker exit", "lacement group", "death reason", "Failed"}
	case strings.HasPrefix(path, "serve/controller_"):
		texts = []string{"ERROR 2", "WARNING 2"}
	case path == "raylet.err" || path == "raylet.out":
		texts = append(texts, "have not registered within the timeout", "exited, exit code")
	}
	markers := make([][]byte, len(texts))
	for i, text := range texts {
		markers[i] = []byte(text)
	}
	return markers
}
