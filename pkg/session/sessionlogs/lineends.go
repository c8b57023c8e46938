package sessionlogs

import (
	"bytes"
	"errors"
	"io"
)

// lineEnds looks backwards from a log's end, block by block, for the line end before the last wanted lines.
type lineEnds struct {
	wanted int  // lines; at least 1
	seen   int  // line ends so far, without the one that ends the log
	begun  bool // the log's last byte was seen
}

// search searches the next block towards the log's start. It returns the index in block of the line end that is looked
// for, or -1 if that is before the block.
func (l *lineEnds) search(block []byte) int64 {
	if !l.begun && len(block) > 0 {
		l.begun = true
		block = bytes.TrimSuffix(block, []byte{'\n'}) // the end of the last line, not of one before it
	}
	for i := bytes.LastIndexByte(block, '\n'); i >= 0; i = bytes.LastIndexByte(block[:i], '\n') {
		if l.seen++; l.seen == l.wanted {
			return int64(i)
		}
	}
	return -1
}

// searchStream searches the next block towards the log's start, a compressed one, which read writes. The result is as
// of search. Such a block can only be read from its start and may be too large for memory, so it is read once to count
// the line ends and, if the wanted one is among them, again to find it.
func (l *lineEnds) searchStream(read func(io.Writer) error) (int64, error) {
	var all endCounter
	if err := read(&all); err != nil {
		return -1, err
	}
	count := all.ends
	if !l.begun && all.bytes > 0 {
		l.begun = true
		if all.last == '\n' {
			count-- // the end of the last line, not of one before it
		}
	}
	if l.seen+count < l.wanted {
		l.seen += count
		return -1, nil
	}
	// The block's line ends are counted from its start here, the wanted one from its end.
	place := endCounter{stopAt: count - (l.wanted - l.seen) + 1}
	if err := read(&place); err != nil && !errors.Is(err, errEnough) {
		return -1, err
	}
	return place.bytes - 1, nil
}

// errEnough ends a read that has found what it looked for.
var errEnough = errors.New("enough was read")

// endCounter counts the line ends in what is written to it. It stops with errEnough after the stopAt-th; 0 never stops.
type endCounter struct {
	stopAt int

	ends  int
	bytes int64 // up to the last line end that counts, or all
	last  byte
}

// Write counts the line ends and bytes in p. When it has counted stopAt line ends, it returns errEnough, and bytes are
// those up to the last of them.
func (c *endCounter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			c.bytes += int64(len(rest))
			break
		}
		c.bytes += int64(i) + 1
		rest = rest[i+1:]
		if c.ends++; c.ends == c.stopAt {
			return 0, errEnough
		}
	}
	if len(p) > 0 {
		c.last = p[len(p)-1]
	}
	return len(p), nil
}
