package logsearch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

const (
	// blockBytes is how much of a log is in memory at a time. A line that is longer than it is searched in parts.
	blockBytes = 512 << 10
	// reach is how many bytes before and after a line the lines beside it, and its time, are looked for.
	reach = 64 << 10

	maxText   = 4 << 10 // of a matching line in a result, in bytes
	maxBeside = 1 << 10 // of a line beside it
)

// scanner searches one log after another.
//
//	buf    [ lines before, up to reach | lines to search | up to reach of what follows ]
//	                                    start                                         end
type scanner struct {
	query  *Query
	clock  logline.Clock
	finder *finder
	report func(found)           // called for each matching line that passes the query's filters
	read   func(bytes int) error // counts what is read; its error ends the search
	reach  int

	in          io.Reader
	buf         []byte
	base        int64 // offset in the log of buf[0]
	start, end  int
	eof         bool
	line        int64       // number of the line at start
	undated     int64       // matching lines without a time, where the query has a range of time
	unlevelled  int64       // matching lines without a level, where the query has one
	gap         *chunks.Gap // the first one
	pendingLong *found      // a line that waits for the lines after it
	lastDating  dating      // the line whose header was determined last
}

// found is a matching line.
type found struct {
	line          int64 // counted from 1
	header        logline.Header
	text          []byte // the line or what is around the match
	skipped       int64  // bytes of the line before text
	length        int64  // of the line
	from, to      int    // the match in text
	before, after []string
}

// newScanner makes a scanner with blocks of a size, which must be more than three times reach.
func newScanner(q *Query, block, reach int) *scanner {
	return &scanner{query: q, finder: newFinder(q.pattern), buf: make([]byte, block), reach: reach}
}

// scan searches a log from its beginning, block by block, and calls s.report with what matches. A match in a line that
// is longer than the buffer waits as s.pendingLong until the lines after it are read. Errors are the reader's, the
// context's, or those of s.read.
func (s *scanner) scan(ctx context.Context, in io.Reader) error {
	s.in, s.base, s.start, s.end, s.eof, s.line = &plain{in: logline.NewReader(in), count: s.read}, 0, 0, 0, false, 1
	const noLine = -1
	s.undated, s.unlevelled, s.gap, s.pendingLong, s.lastDating = 0, 0, nil, nil, newDating(noLine)
	for {
		if err := s.fill(); err != nil {
			return err
		}
		if s.pendingLong != nil {
			s.pendingLong.after = s.linesAfter(s.start)
			s.report(*s.pendingLong)
			s.pendingLong = nil
		}
		if s.start == s.end {
			return nil // at the end of the log
		}
		var err error
		if end := s.wholeLines(); end > s.start {
			err = s.searchLines(ctx, end)
		} else {
			err = s.searchLong(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// fill moves what is still needed to the front of the buffer, which is what is not searched yet and the s.reach bytes
// before it, and reads behind it until the buffer is full or the log ends. Bytes that are not stored are passed over:
// s.gap is the first such gap.
func (s *scanner) fill() error {
	drop := max(0, s.start-s.reach-1) // one more byte, which tells whether a line begins behind it
	s.end = copy(s.buf, s.buf[drop:s.end])
	s.start -= drop
	s.base += int64(drop)
	for s.end < len(s.buf) && !s.eof {
		n, err := s.in.Read(s.buf[s.end:])
		s.end += n
		var gap *chunks.Gap
		switch {
		case errors.Is(err, io.EOF):
			s.eof = true
		case errors.As(err, &gap):
			if s.gap == nil {
				s.gap = gap
			}
		case err != nil:
			return err
		}
	}
	return nil
}

// wholeLines is the end of the last line from which reach is in the buffer too; start if the first line is too long for
// that.
func (s *scanner) wholeLines() int {
	if s.eof {
		return s.end
	}
	return s.start + bytes.LastIndexByte(s.buf[s.start:s.end-s.reach], '\n') + 1
}

// searchLines searches the whole lines of the buffer from s.start to end, which it then sets as s.start. It counts line
// ends only up to matches, to number these.
func (s *scanner) searchLines(ctx context.Context, end int) error {
	block := s.buf[:end]
	s.finder.setBlock(block)
	counted := s.start // line is the number of the line there
	for pos := s.start; ; {
		at, size, ok := s.finder.nextCandidate(ctx, pos)
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !ok {
			break
		}
		begin := pos + bytes.LastIndexByte(block[pos:at], '\n') + 1
		after := end
		if n := bytes.IndexByte(block[at:], '\n'); n >= 0 {
			after = at + n + 1
		}
		text := bytes.TrimSuffix(block[begin:after], []byte{'\n'})
		from, to := at-begin, at-begin+size
		if size == 0 { // the line may match
			const hasStart, hasEnd = true, true
			from, to, ok = s.finder.find(ctx, text, hasStart, hasEnd)
		}
		if ok {
			s.line += int64(bytes.Count(block[counted:begin], []byte{'\n'}))
			counted = begin
			s.reportMatch(begin, after, text, from, to)
		}
		pos = after
	}
	s.line += int64(bytes.Count(block[counted:], []byte{'\n'}))
	s.start = end
	return nil
}

func (s *scanner) reportMatch(begin, after int, text []byte, from, to int) {
	f := found{line: s.line, length: int64(len(text))}
	f.header = s.headerAt(begin, text, from)
	if s.passesFilters(&f) {
		f.setText(text, from, to)
		f.before, f.after = s.linesBefore(begin), s.linesAfter(after)
		s.report(f)
	}
}

// passesFilters says whether a matching line passes the filters by time and level. It counts those that do not because
// they say no time or no level.
func (s *scanner) passesFilters(f *found) bool {
	switch {
	case !f.header.Dated && s.query.hasTimeRange():
		s.undated++
		return false
	case !s.query.inTimeRange(f.header.Time):
		return false
	case f.header.Level == logline.Unknown && s.query.Level != logline.Unknown:
		s.unlevelled++
		return false
	}
	return f.header.Level >= s.query.Level
}

// setText keeps what is around the match. Of a line that overwrites itself, such as a progress bar, this is what a
// terminal shows at the same time.
func (f *found) setText(text []byte, from, to int) {
	_, cut := logline.State(text, from)
	last, end := logline.State(text, to)
	if end += len(last); end == len(text)-1 {
		end++ // a line end of Windows
	}
	if end-cut > maxText {
		cut = max(cut, min(from-maxText/4, end-maxText))
		end = cut + maxText
	}
	f.text, f.skipped, f.from, f.to = text[cut:end], int64(cut), from-cut, min(to, end)-cut
}

// lineBefore is where the line before the one at from begins, -1 if that is not within reach of the line at begin.
func (s *scanner) lineBefore(from, begin int) int {
	if from == 0 {
		return -1
	}
	n := bytes.LastIndexByte(s.buf[:from-1], '\n') + 1
	if n == 0 && s.base > 0 || n < begin-s.reach {
		return -1
	}
	return n
}

// linesBefore returns the lines before the one at begin, as many as the query asks for, in their order.
func (s *scanner) linesBefore(begin int) []string {
	lines := make([]string, 0, s.query.Before)
	for from := s.lineBefore(begin, begin); from >= 0 && len(lines) < s.query.Before; from = s.lineBefore(from, begin) {
		lines = append(lines, contextLine(s.buf[from:begin]))
	}
	slices.Reverse(lines)
	return lines
}

// linesAfter returns up to query.After lines of the buffer that follow a match whose line ends at from. They are within
// s.reach bytes, so the last one may be cut.
func (s *scanner) linesAfter(from int) []string {
	lines := make([]string, 0, s.query.After)
	rest := s.buf[from:min(s.end, from+s.reach)]
	for len(rest) > 0 && len(lines) < s.query.After {
		lines = append(lines, contextLine(rest))
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			break
		}
		rest = rest[n+1:]
	}
	return lines
}

// searchLong searches a line that does not fit into the buffer, part by part. Each part begins with the last s.reach
// bytes of the one before, so that a match across two parts is found. The line's first match, if it passes the filters,
// is then s.pendingLong, and s.start is the line's end.
func (s *scanner) searchLong(ctx context.Context) error {
	f := found{line: s.line, before: s.linesBefore(s.start)}
	first := s.buf[s.start:s.end]
	const lineStart = 0
	f.header = s.headerAt(s.start, first, lineStart)
	for matches := false; ; { // f.length counts the line's bytes before the part
		n := bytes.IndexByte(s.buf[s.start:s.end], '\n')
		closed := n >= 0 || s.eof
		if n < 0 {
			n = s.end - s.start
		}
		part := s.buf[s.start : s.start+n]
		if !matches {
			var from, to int
			if from, to, matches = s.findInPart(ctx, part, f.length == 0, closed); matches {
				if state, at := logline.State(part, from); at > 0 {
					f.header = headerOfPart(logline.Parse(state, &s.clock), f.header)
				}
				f.setText(part, from, to)
				f.text = bytes.Clone(f.text)
				f.skipped += f.length
			}
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if closed {
			s.line++
			s.start = min(s.end, s.start+n+1)
			f.length += int64(n)
			if matches && s.passesFilters(&f) {
				s.pendingLong = &f
			}
			return nil
		}
		step := n - s.reach
		s.start += step
		f.length += int64(step)
		if err := s.fill(); err != nil {
			return err
		}
	}
}

// findInPart finds the first match in a part of a line that does not fit into the buffer. hasStart and hasEnd say
// whether the part has the line's start and end, which ^ and $ match.
func (s *scanner) findInPart(ctx context.Context, part []byte, hasStart, hasEnd bool) (from, to int, ok bool) {
	s.finder.setBlock(part)
	if len(s.finder.literals) > 0 {
		at, size, ok := s.finder.nextLiteral(0)
		if !ok || size > 0 {
			return at, at + size, ok // without a literal there is no match; with a size, the literal is the match
		}
	}
	return s.finder.find(ctx, part, hasStart, hasEnd)
}

// contextLine is what a terminal shows of the first line of b, cut.
func contextLine(b []byte) string {
	line := b
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		line = b[:n]
	}
	if line = logline.Visible(line); len(line) > maxBeside {
		return string(bytes.ToValidUTF8(line[:maxBeside], nil)) + "…"
	}
	return string(line)
}
