package logs

import (
	"bytes"
	"cmp"
	"context"

	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

const (
	searchBlock = 64 << 10 // read at a time
	maxSearched = 64 << 20 // read of one log before the search is given up
)

// lineSearch finds the first line of a log that is later than a moment. Times of lines increase, so each step halves the range. A line without a
// time belongs to the line before it.
type lineSearch struct {
	ctx    context.Context
	f      *sessionlogs.File
	at     int64
	clock  logline.Clock
	budget int64
}

// timedLine is a line that carries a time.
type timedLine struct {
	start int64
	at    int64
}

// cut searches the part after from; all before it is known to be earlier.
func (s *lineSearch) cut(from int64) (cutPoint, error) {
	low, high, end := from, s.f.Size(), s.f.Size()
	for high-low > searchBlock {
		middle := low + (high-low)/2
		line, err := s.next(middle, high, func(timedLine) bool { return true })
		switch {
		case err != nil:
			return cutPoint{}, err
		case line == nil: // none has a time
			high = middle
		case line.at > s.at:
			end, high = line.start, middle
		default:
			low = line.start
		}
	}
	first, err := s.next(low, high, func(l timedLine) bool { return l.at > s.at })
	if err != nil {
		return cutPoint{}, err
	}
	if first != nil {
		end = first.start
	}
	sure, err := s.lastIsTimed(from, end)
	return cutPoint{end: end, unsure: !sure || s.budget <= 0}, err
}

// next finds the first wanted line with a time that starts in [from, to), after the line that contains from; nil if there is none, or if it is too
// far away.
func (s *lineSearch) next(from, to int64, wanted func(timedLine) bool) (*timedLine, error) {
	for pos := from; pos < to && s.budget > 0; {
		block, err := s.f.ReadRange(s.ctx, pos, min(pos+searchBlock+logline.MaxHeader, s.f.Size()))
		if err != nil {
			return nil, err
		}
		s.budget -= searchBlock
		own := block[:min(len(block), searchBlock)] // a line that starts later belongs to the next block
		encoding := logline.EncodingOf(block[min(pos&1, int64(len(block))):])
		for start := lineStart(own, 0, pos == 0); start < len(own) && pos+int64(start) < to; start = lineStart(own, start+1, false) {
			head := block[start:]
			if encoding != logline.Bytes { // a character has two bytes, the line end too
				start += int((pos + int64(start)) & 1)
				head = encoding.Append(nil, block[start:min(start+2*logline.MaxHeader, len(block))])
			}
			if header := logline.Parse(head, &s.clock); header.Dated {
				if line := (timedLine{pos + int64(start), header.Time}); wanted(line) {
					return &line, nil
				}
			}
		}
		if len(own) < searchBlock {
			return nil, nil
		}
		pos += searchBlock - 1 // the last byte may end a line, so that the next starts with the next block
	}
	return nil, nil
}

// lineStart is where the first line at or after i starts, len(b) if none does.
func lineStart(b []byte, i int, first bool) int {
	if first {
		return 0
	}
	i = cmp.Or(i, 1)
	if n := bytes.IndexByte(b[min(i-1, len(b)):], '\n'); n >= 0 {
		return i + n
	}
	return len(b)
}

// lastIsTimed says whether the last line before end carries a time, or is known to be early enough for another reason.
func (s *lineSearch) lastIsTimed(from, end int64) (bool, error) {
	if end <= from {
		return true, nil
	}
	start, err := s.f.TailStart(s.ctx, end, 1, max(s.budget, searchBlock))
	if err != nil || start < from {
		return err == nil, err
	}
	line, err := s.f.ReadRange(s.ctx, start, min(start+logline.MaxHeader, end))
	if err != nil {
		return false, err
	}
	return logline.Parse(line, &s.clock).Dated, nil
}
