package redact

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/seekable"
)

const (
	firstBuffer = 128 << 10
	// maxToken bounds a string of JSON and its escapes: that of package answer, and some.
	maxToken = 16 << 20
)

// Copy copies JSON or text, redacted, and returns how many bytes it has read. The data is taken for text if it does not
// begin with a list, an object or a string.
func (r *Redactor) Copy(to io.Writer, from io.Reader) (read int64, err error) {
	if r == nil {
		return io.Copy(to, from)
	}
	w := walker{r: r}
	defer func() { r.countMatches(w.matches) }()
	buffer := make([]byte, 0, firstBuffer)
	for begun := false; ; { // begun: the data is known to be JSON
		n, err := io.ReadFull(from, buffer[len(buffer):cap(buffer)])
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return read, err
		}
		read += int64(n)
		buffer = buffer[:len(buffer)+n]
		if first := bytes.TrimLeft(buffer, " \t\r\n"); !begun && len(first) > 0 &&
			bytes.IndexByte([]byte(`{["`), first[0]) < 0 {
			rest, err := io.Copy(to, newLines(io.MultiReader(bytes.NewReader(buffer), from), firstBuffer, r.Lines))
			return read + rest - int64(len(buffer)), err // rest has the buffer's bytes, too
		}
		begun = true
		done, err := w.redactTokens(buffer, last)
		if err == nil {
			_, err = to.Write(buffer[:done])
		}
		if err != nil || last {
			return read, err
		}
		left := buffer[done:]
		switch {
		case len(left) < cap(buffer)/2:
			buffer = append(buffer[:0], left...)
		case cap(buffer) >= maxToken:
			return read, fmt.Errorf("a string of more than %d bytes cannot be redacted", maxToken)
		default:
			buffer = append(make([]byte, 0, 2*cap(buffer)), left...)
		}
	}
}

// Exposition returns a reader of Prometheus's text format, redacted: comments as lines of text, samples in the values
// of their labels.
func (r *Redactor) Exposition(from io.Reader) io.Reader {
	if r == nil {
		return from
	}
	return newLines(from, firstBuffer, func(b []byte) {
		matches := overwriteLong(b)
		if r.mayMatch(b) {
			for line := range bytes.Lines(b) {
				if line = bytes.TrimRight(line, lineEnds); len(line) > 0 && line[0] == '#' {
					matches += r.redactLines(line, maxNested, noRules) // a comment, which is no JSON
				} else {
					w := walker{r: r, nested: maxNested, loose: true}
					matches += w.textAndJSON(line)
				}
			}
		}
		r.countMatches(matches)
	})
}

// lineReader reads whole lines, and redacts them.
type lineReader struct {
	from   io.Reader
	redact func(lines []byte) // overwrites matches in whole lines
	buffer []byte
	at     int   // of the next byte that is read
	ready  int   // bytes of the buffer that are redacted
	err    error // of from
	cut    bool  // a last line without its end is overwritten
	long   bool  // a line that is too long has begun before the buffer: its rest is overwritten
}

// newLines reads lines of at most size bytes in all, as far as that is known.
func newLines(from io.Reader, size int64, redact func([]byte)) *lineReader {
	return &lineReader{from: from, redact: redact, buffer: make([]byte, 0, min(size+1, firstBuffer))}
}

func (l *lineReader) Read(p []byte) (int, error) {
	for l.at == l.ready {
		if l.err != nil {
			return 0, l.err
		}
		l.fillBuffer()
	}
	n := copy(p, l.buffer[l.at:l.ready])
	l.at += n
	return n, nil
}

// fillBuffer makes more redacted bytes ready: it reads until at least one whole line is in the buffer, or a part of a
// line that is longer than maxLine, which is overwritten; l.long says that the rest of it follows. At the end a last
// line without its end is overwritten if l.cut is set.
func (l *lineReader) fillBuffer() {
	l.buffer = append(l.buffer[:0], l.buffer[l.ready:]...)
	l.at, l.ready = 0, 0
	for l.ready == 0 && l.err == nil {
		if len(l.buffer) == cap(l.buffer) {
			l.buffer = append(make([]byte, 0, 2*cap(l.buffer)), l.buffer...)
		}
		var n int
		n, l.err = io.ReadFull(l.from, l.buffer[len(l.buffer):cap(l.buffer)])
		if errors.Is(l.err, io.ErrUnexpectedEOF) {
			l.err = io.EOF
		}
		l.buffer = l.buffer[:len(l.buffer)+n]
		switch l.ready = bytes.LastIndexAny(l.buffer, lineEnds) + 1; {
		case errors.Is(l.err, io.EOF):
			if l.cut {
				writeStars(l.buffer[l.ready:])
			}
			l.ready = len(l.buffer)
		case l.ready == 0 && (l.long || len(l.buffer) > maxLine): // too long to be searched: all of it is redacted
			l.ready = len(l.buffer)
			writeStars(l.buffer)
			l.long = true
			return
		}
	}
	lines := l.buffer[:l.ready]
	if l.long {
		end := bytes.IndexAny(lines, lineEnds)
		if l.long = end < 0; l.long {
			end = len(lines)
		}
		writeStars(lines[:end])
		lines = lines[end:]
	}
	l.redact(lines)
}

// Log reads n bytes at an offset of a log, redacted. What it gives depends on the whole lines only, not on where it
// begins: so a log's chunks fit together, and a chunk that is read again is the same. It may read size bytes of the
// log. If the log is cut, its last line may go on: it is overwritten, unless it is whole.
func (r *Redactor) Log(log io.ReaderAt, offset, n, size int64, cut bool) io.ReadSeeker {
	return seekable.New(n, func(at int64) (io.ReadCloser, error) {
		lines, err := r.linesFrom(log, offset+at, size, cut)
		return io.NopCloser(io.LimitReader(lines, n-at)), err
	})
}

// linesFrom returns a redacting reader of a log of size bytes from the byte next on. It reads the line that this byte
// is in from its beginning, and skips what is before the byte. If the log is cut, a last line without an end is
// overwritten.
func (r *Redactor) linesFrom(log io.ReaderAt, next, size int64, cut bool) (io.Reader, error) {
	before := make([]byte, min(next, maxLine+1))
	if _, err := log.ReadAt(before, next-int64(len(before))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	skip := len(before) - 1 - bytes.LastIndexAny(before, lineEnds)
	long := skip > maxLine // the line is longer than is looked at: its rest needs no beginning, it is overwritten
	if long {
		skip = 0
	}
	start := next - int64(skip)
	lines := newLines(io.NewSectionReader(log, start, size-start), size-start, r.Lines)
	lines.long, lines.cut = long, cut
	_, err := io.CopyN(io.Discard, lines, int64(skip))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return lines, err
}

// LastLineEnd returns where the last whole line ends of a log that has size bytes. A line begins at from, and from is
// returned if no line ends behind it. A last line of more than maxLine bytes counts as whole, since all of it is
// overwritten.
func LastLineEnd(log io.ReaderAt, from, size int64) (int64, error) {
	var block [4 << 10]byte
	end := from
	for at := size; at > from && end == from; {
		start := max(from, at-int64(len(block)))
		n, err := log.ReadAt(block[:at-start], start)
		if err != nil && !errors.Is(err, io.EOF) {
			return from, err
		}
		if i := bytes.LastIndexAny(block[:n], lineEnds); i >= 0 {
			end = start + int64(i) + 1
		}
		if at = start; size-at > maxLine {
			break
		}
	}
	if size-end > maxLine {
		return size, nil
	}
	return end, nil
}
