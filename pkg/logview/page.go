// Package logview shows a stored log of any size in pages of lines, with colours and line numbers. A sparse index gives the number of a
// page's first line.
package logview

import (
	"bytes"
	"context"

	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

const (
	// pageLines and pageBytes bound a page.
	pageLines = 1000
	pageBytes = 512 << 10
	// maxLine is how much of a line is shown, in bytes.
	maxLine = 8 << 10
)

// Line is a line of a page, or a part of a line that is longer than a page.
type Line struct {
	Number int64 // 0 if not known
	Spans  []Span
	Cut    int // bytes of the line that are not shown
}

// Page is a part of a log: what is stored of the bytes [Start, End).
type Page struct {
	Start, End int64
	Lines      []Line
}

// Read reads the page that begins at start, of a log that ends at end. start should be where a line begins. Where bytes are not stored, the
// page goes on with those behind the gap: the line there is one line, as for an Index.
func Read(ctx context.Context, f *sessionlogs.File, start, end int64) (Page, error) {
	text, err := f.ReadText(ctx, start, end, pageBytes)
	if err != nil {
		return Page{}, err
	}
	whole := len(text.Bytes)
	if text.Offset(whole) < end {
		if n := bytes.LastIndexByte(text.Bytes, '\n') + 1; n > 0 {
			whole = n
		}
	}
	p := Page{Start: start}
	rest := text.Bytes[:whole]
	for len(rest) > 0 && len(p.Lines) < pageLines {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		shown := line[:min(len(line), maxLine)]
		p.Lines = append(p.Lines, Line{Spans: colours(shown), Cut: len(line) - len(shown)})
	}
	p.End = text.Offset(whole - len(rest))
	return p, nil
}

// Before is where the page that ends at end begins.
func Before(ctx context.Context, f *sessionlogs.File, end int64) (int64, error) {
	return LastLines(ctx, f, end, pageLines, pageBytes)
}

// LastLines is where the last lines before end begin that are at most so many bytes.
func LastLines(ctx context.Context, f *sessionlogs.File, end int64, lines int, most int64) (int64, error) {
	for {
		end = f.StoredBefore(end)
		start, err := f.TailStart(ctx, end, lines, most+1)
		if err != nil || end-start <= most {
			return start, err
		}
		text, err := f.ReadText(ctx, end-most, end, most)
		if err != nil {
			return 0, err
		}
		if len(text.Bytes) == 0 {
			end -= most // a compressed chunk holds less than it seemed
			continue
		}
		n := bytes.IndexByte(text.Bytes, '\n') + 1
		if n == len(text.Bytes) {
			n = 0 // there is one line only, which is longer
		}
		return text.Offset(n), nil
	}
}
