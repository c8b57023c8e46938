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

// Page is a part of a log: the bytes [Start, End).
type Page struct {
	Start, End int64
	Lines      []Line
}

// Read reads the page that begins at start, of a log that ends at end. start should be where a line begins.
func Read(ctx context.Context, f *sessionlogs.File, start, end int64) (Page, error) {
	text, err := f.ReadRange(ctx, start, min(end, start+pageBytes))
	if err != nil {
		return Page{}, err
	}
	p := Page{Start: start, End: min(end, start+pageBytes)}
	if p.End < end {
		if n := bytes.LastIndexByte(text, '\n') + 1; n > 0 {
			p.End -= int64(len(text) - n)
			text = text[:n]
		}
	}
	for len(text) > 0 && len(p.Lines) < pageLines {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		shown := line[:min(len(line), maxLine)]
		p.Lines = append(p.Lines, Line{Spans: colours(shown), Cut: len(line) - len(shown)})
		text = rest
	}
	p.End -= int64(len(text))
	return p, nil
}

// Before is where the page that ends at end begins.
func Before(ctx context.Context, f *sessionlogs.File, end int64) (int64, error) {
	return LastLines(ctx, f, end, pageLines, pageBytes)
}

// LastLines is where the last lines before end begin that are at most so many bytes.
func LastLines(ctx context.Context, f *sessionlogs.File, end int64, lines int, most int64) (int64, error) {
	start, err := f.TailStart(ctx, end, lines, most+1)
	if err != nil || end-start <= most {
		return start, err
	}
	text, err := f.ReadRange(ctx, end-most, end)
	if err != nil {
		return 0, err
	}
	n := bytes.IndexByte(text, '\n') + 1
	if n == len(text) {
		n = 0 // there is one line only, which is longer
	}
	return end - int64(len(text)-n), nil
}
