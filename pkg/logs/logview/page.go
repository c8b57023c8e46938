// Package logview shows a stored log of any size in pages of lines, with colours and line numbers. A sparse index gives
// the number of a page's first line.
package logview

import (
	"bytes"
	"context"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

const (
	// PageLines and pageBytes bound a page.
	PageLines = 1000
	pageBytes = 512 << 10
	// maxLine is how much of a line is shown, in bytes.
	maxLine = 8 << 10
)

// Line is a line of a page, or a part of a line that is longer than a page. Of a line that overwrites itself, as
// progress bars do, it is the last state.
type Line struct {
	Number int64 // 0 if not known
	Offset int64 // where it begins
	Level  logline.Level
	Spans  []Span
	Cut    int // bytes of the line that are not shown
}

// Page is a part of a log: what is stored of the bytes [Start, End).
type Page struct {
	Start, End int64
	Lines      []Line
}

// Read reads the page that begins at start, of a log that ends at end: at most so many lines, and pageBytes. start
// should be where a line begins; a line that is longer than a page is given in parts, one a page. Where bytes are not
// stored, the page goes on with those behind the gap: the text before and behind it counts as one line, as for an
// Index.
func (x *Index) Read(ctx context.Context, f *sessionlogs.File, start, end int64, lines int) (Page, error) {
	encoding, err := x.Encoding(ctx, f)
	if err != nil {
		return Page{}, err
	}
	begin := start
	if encoding != logline.Bytes {
		begin += start & 1 // a character of UTF-16 begins at an even offset; this may be behind end
	}
	text, err := f.ReadText(ctx, begin, max(begin, end), pageBytes)
	if err != nil {
		return Page{}, err
	}
	reachesEnd := text.Offset(len(text.Bytes)) >= end
	p := Page{Start: start}
	rest := text.Bytes
	for len(rest) > 0 && len(p.Lines) < lines {
		first := len(p.Lines) == 0
		lineEnd, next := encoding.LineEnd(rest)
		if lineEnd < 0 { // the text that was read has no further line end
			if !reachesEnd && !first {
				break // the next page begins with this line
			}
			lineEnd = len(rest) // the log's last line may lack a line end
			if !reachesEnd {
				lineEnd = partEnd(encoding, rest) // a part of a line that is longer than a page
			}
			next = lineEnd
		}
		// Only the page's first line may be the rest of a longer one. One without a line end may go on: in the next
		// page, or when more of the log is stored.
		mayGoOn := next == lineEnd
		line := lineOf(encoding, rest[:lineEnd], first, mayGoOn)
		line.Offset = text.Offset(len(text.Bytes) - len(rest))
		p.Lines = append(p.Lines, line)
		rest = rest[next:]
	}
	p.End = text.Offset(len(text.Bytes) - len(rest))
	return p, nil
}

// partEnd is where a part of a line that is longer than a page ends: where a state of it does, if there are several.
func partEnd(encoding logline.Encoding, part []byte) int {
	n := bytes.LastIndexByte(part, '\r')
	if encoding != logline.Bytes {
		n &^= 1
	}
	if n > 0 {
		return n
	}
	return len(part)
}

// lineOf is what is shown of a line: its level, its text in parts with the colors that its terminal codes name, and how
// many bytes a long one has besides. It may be a part of a line: cutBefore and cutBehind say that the text may go on
// before or behind it, so that a character may be cut there. A text in UTF-16 becomes UTF-8 first.
func lineOf(encoding logline.Encoding, line []byte, cutBefore, cutBehind bool) Line {
	if encoding != logline.Bytes {
		line = encoding.Append(make([]byte, 0, len(line)), line)
	}
	line = logline.Visible(line)
	shown := line[:min(len(line), maxLine)]
	text := utf8Of(shown, cutBefore, cutBehind || len(shown) < len(line))
	header := logline.Parse(line, &logline.Clock{})
	if header.Traceback {
		header.Level = logline.Error
	}
	return Line{Level: header.Level, Spans: spansOf(text), Cut: len(line) - len(shown)}
}

// Before is where the page of at most so many lines that ends at end begins.
func (x *Index) Before(ctx context.Context, f *sessionlogs.File, end int64, lines int) (int64, error) {
	return x.LastLines(ctx, f, end, lines, pageBytes)
}

// LastLines returns the offset at which the last lines before the offset end begin: as many as lines says, fewer if
// they would have more than limit bytes together. Only a line that is longer by itself is cut. Bytes that are not
// stored are passed over.
func (x *Index) LastLines(ctx context.Context, f *sessionlogs.File, end int64, lines int, limit int64) (int64, error) {
	encoding, err := x.Encoding(ctx, f)
	if err != nil {
		return 0, err
	}
	for {
		end = f.StoredBefore(end)
		begin := max(0, end-limit)
		if encoding == logline.Bytes {
			// The one byte more than limit shows that the lines are longer.
			if start, err := f.TailStart(ctx, end, lines, limit+1); err != nil || end-start <= limit {
				return start, err
			}
		} else {
			begin &^= 1 // UTF-16 has two bytes a letter
		}
		text, err := f.ReadText(ctx, begin, end, limit)
		if err != nil {
			return 0, err
		}
		if len(text.Bytes) > 0 || begin == 0 {
			first := secondLineStart(text.Bytes) // the first line may begin before the text
			if encoding != logline.Bytes {
				first = lastLinesStart(encoding, text.Bytes, begin == 0, lines)
			}
			return text.Offset(first), nil
		}
		if end, err = f.TextBefore(ctx, end); err != nil { // a compressed chunk holds less than it seemed
			return 0, err
		}
	}
}

// secondLineStart is where the second line of a text begins: the first began before the text. It is 0 if there is one
// line only, which is longer than the text.
func secondLineStart(text []byte) int {
	n := bytes.IndexByte(text, '\n') + 1
	if n == len(text) {
		return 0
	}
	return n
}

// lastLinesStart is the index at which the last lines, as many as lines says, of a text in an encoding of two bytes
// begin. whole says that the text's first line does not begin before the text; otherwise that line is left out, unless
// it is the only one.
func lastLinesStart(encoding logline.Encoding, text []byte, whole bool, lines int) int {
	starts := []int{0}
	for at := 0; ; {
		n, next := encoding.LineEnd(text[at:])
		if at += next; n < 0 || at >= len(text) {
			break
		}
		starts = append(starts, at)
	}
	if !whole && len(starts) > 1 {
		starts = starts[1:]
	}
	return starts[max(0, len(starts)-lines)]
}

// encodingBytes is how much of a log tells its encoding.
const encodingBytes = 64

// encodingOf finds how a log is stored, by its first bytes.
func encodingOf(ctx context.Context, f *sessionlogs.File) (logline.Encoding, error) {
	text, err := f.ReadText(ctx, 0, f.Size(), encodingBytes)
	if err != nil {
		return logline.Bytes, err
	}
	return logline.EncodingOf(text.Bytes[min(int64(len(text.Bytes)), text.Offset(0)&1):]), nil
}

// Text is a part of a log as UTF-8. The part may begin and end within a character.
func Text(encoding logline.Encoding, part []byte) string {
	if encoding != logline.Bytes {
		return string(bytes.ToValidUTF8(encoding.Append(nil, part), []byte("\uFFFD")))
	}
	if utf8.Valid(part) {
		return string(part)
	}
	var text bytes.Buffer
	for line := range bytes.Lines(part) {
		text.Write(utf8Of(line, text.Len() == 0, line[len(line)-1] != '\n'))
	}
	return text.String()
}

// utf8Of is a line as UTF-8. If it may have been cut within a character of UTF-8, before its first byte or behind its
// last one, the rest of that character is left out. Text in another encoding is converted.
func utf8Of(line []byte, cutBefore, cutBehind bool) []byte {
	if utf8.Valid(line) {
		return line
	}
	inner := line
	for n := 1; cutBefore && n < utf8.UTFMax && len(inner) > 0 && !utf8.RuneStart(inner[0]); n++ {
		inner = inner[1:]
	}
	for n := 1; cutBehind && n < utf8.UTFMax && n <= len(inner); n++ {
		if last := inner[len(inner)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				inner = inner[:len(inner)-n]
			}
			break
		}
	}
	if utf8.Valid(inner) {
		return inner
	}
	return logline.UTF8(line)
}
