package session

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	blockBytes = 512 << 10 // read at a time
	// readerBytes is about what a goroutine that replays holds: a block, what it fetches ahead, and texts it met.
	readerBytes = blockBytes + aheadBytes/2 + 512<<10
	// maxEventBytes bounds one event. What is longer is skipped.
	maxEventBytes = 16 << 20
)

// replayer replays one whole after the other. Each goroutine that replays has its own.
type replayer struct {
	d   *decoder
	buf []byte // kept from whole to whole
	// afterBlock is called between blocks.
	afterBlock func()
}

// block is the part of a whole that is in memory.
type block struct {
	data []byte // not replayed yet
	last bool   // the whole, or the part before a gap, ends here
	// lines says that the events lie a line each; otherwise they are elements of an array, whose text may have line breaks anywhere.
	lines, known bool
	// lost says that the place of the next event is not known: a damaged part was met, or the unit begins anywhere.
	lost bool
	// strict says that only a certain beginning of an event ends the search for it.
	strict bool
	// left is how many more bytes there are before the unit's end; what begins after that belongs to the next unit.
	left int64
	over bool // that end was reached
}

// replayed is what became of a unit.
type replayed struct {
	consumed int64 // bytes of the whole up to the end of its last event
	damaged  int   // parts that were skipped
	cut      bool  // the last event is not complete
}

// replay reads all events of a unit.
func (r *replayer) replay(ctx context.Context, w *wholeReader, u unit) (out replayed, err error) {
	defer w.ahead.stop()
	defer w.close()
	if r.buf == nil {
		r.buf = make([]byte, blockBytes)
	}
	b := block{data: r.buf[:0], lines: u.lines, known: u.split, lost: u.split && u.from > 0, strict: true}
	for !b.last && !b.over {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		b.data = r.room(b.data)
		n, err := w.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		gap := errors.Is(err, errGap)
		b.last = gap || errors.Is(err, io.EOF)
		if err != nil && !b.last {
			return out, err
		}
		b.left = u.to - (w.pos - int64(len(b.data)))
		r.block(&b, &out)
		r.afterBlock()
		out.consumed = w.pos - int64(len(b.data))
		if gap {
			// What follows does not belong to what came before.
			b = block{data: r.buf[:0], lines: b.lines, known: b.known, lost: !b.lines}
		}
	}
	return out, nil
}

// room makes room behind data for more to be read. The buffer doubles when one event fills half of it, and is small again afterwards.
func (r *replayer) room(data []byte) []byte {
	switch {
	case len(data) > len(r.buf)/2:
		grown := make([]byte, 2*len(r.buf))
		r.buf, data = grown, grown[:copy(grown, data)]
		return data
	case len(data) == 0 && len(r.buf) > 16*blockBytes:
		r.buf = make([]byte, blockBytes)
	}
	return r.buf[:copy(r.buf, data)]
}

// block replays the events in b that are complete, and leaves the rest.
func (r *replayer) block(b *block, out *replayed) {
	for {
		if b.lost && !b.recover() {
			return
		}
		b.drop(b.separators())
		if len(b.data) == 0 {
			return
		}
		if b.left <= 0 {
			switch starts, enough := startsEvent(b.data); {
			case starts:
				b.over = true
				return
			case !enough && !b.last:
				return
			}
		}
		text, complete := b.next()
		c := cursor{b: text, bad: text[0] != '{'}
		r.d.event(&c)
		switch {
		case !c.bad:
			b.drop(c.i)
		case c.short && !complete && !b.last && len(b.data) < maxEventBytes:
			return
		case c.short && !complete && b.last:
			out.cut = true
			return
		default:
			out.damaged++
			b.lost, b.strict = true, false
			b.drop(1)
		}
	}
}

func (b *block) drop(n int) {
	b.data = b.data[n:]
	b.left -= int64(n)
}

// separators counts the bytes before the next event: white space, and an array's brackets and commas. KubeRay appends arrays to arrays.
func (b *block) separators() int {
	for i, ch := range b.data {
		switch ch {
		case ' ', '\t', '\r', '\n':
		case '[', ']', ',':
			b.known = true
		default:
			b.lines, b.known = b.lines || !b.known, true
			return i
		}
	}
	return len(b.data)
}

// next gives what the next event is to be read from: its line, or everything there is. It is complete if reading more cannot add to it.
func (b *block) next() (text []byte, complete bool) {
	if b.lines {
		if n := bytes.IndexByte(b.data, '\n'); n >= 0 {
			return b.data[:n], true
		}
	}
	return b.data, false
}

// How most events begin, in Ray's order of fields and in KubeRay's, which is that of the alphabet. No string holds these, because its quotes
// would be escaped, and no object within an event begins with an event's ID.
var (
	eventStart  = []byte(`{"event`)
	eventStarts = [][]byte{[]byte(`{"eventId"`), []byte(`{"event_id"`)}
)

const longestStart = len(`{"event_id"`)

// startsEvent says whether data certainly begins with an event; enough is false if there are too few bytes to tell.
func startsEvent(data []byte) (starts, enough bool) {
	for _, s := range eventStarts {
		if bytes.HasPrefix(data, s) {
			return true, true
		}
	}
	return false, len(data) >= longestStart
}

// indexEvent finds the first place where an event certainly begins; -1 if there is none.
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

// recover moves on to where an event may begin, and says whether there is such a place.
func (b *block) recover() bool {
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
