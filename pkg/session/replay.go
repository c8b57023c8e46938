package session

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	blockBytes = 512 << 10 // read at a time
	// maxEventBytes bounds one event. What is longer is skipped.
	maxEventBytes = 32 << 20
)

// replayer replays one whole after the other. Each goroutine that replays has its own.
type replayer struct {
	d   *decoder
	buf []byte // kept from whole to whole
}

// block is the part of a whole that is in memory.
type block struct {
	data []byte // not replayed yet
	last bool   // the whole, or the part before a gap, ends here
	// lines says that the events lie a line each; otherwise they are elements of an array, whose text may have line breaks anywhere.
	lines, known bool
	// lost says that a damaged part was met whose end is not found yet.
	lost bool
}

// replayed is what became of a whole.
type replayed struct {
	consumed int64 // bytes of the whole up to the end of its last event
	damaged  int   // parts that were skipped
	cut      bool  // the last event is not complete
}

// replay reads all events of a whole.
func (r *replayer) replay(ctx context.Context, w *wholeReader) (out replayed, err error) {
	defer w.close()
	if r.buf == nil {
		r.buf = make([]byte, blockBytes)
	}
	b := block{data: r.buf[:0]}
	for !b.last {
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
		r.block(&b, &out)
		if gap {
			// What follows does not belong to what came before.
			b = block{data: r.buf[:0], lines: b.lines, known: b.known, lost: !b.lines}
		}
		out.consumed = w.pos - int64(len(b.data))
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
		b.data = b.data[b.separators():]
		if len(b.data) == 0 {
			return
		}
		c := cursor{b: b.data}
		r.d.event(&c)
		switch {
		case !c.bad:
			b.data = b.data[c.i:]
		case c.short && b.mayGoOn():
			return
		case c.short && b.last:
			out.cut = true
			b.data = b.data[len(b.data):]
		default:
			out.damaged++
			b.lost = true
			b.data = b.data[1:]
		}
	}
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

// mayGoOn says whether the event that b begins with can be complete when more is read.
func (b *block) mayGoOn() bool {
	return !b.last && len(b.data) < maxEventBytes && !(b.lines && bytes.IndexByte(b.data, '\n') >= 0)
}

// eventStart is how Ray and KubeRay begin most events of an array: with eventId or event_id. Within a string its quote would be escaped.
var eventStart = []byte(`{"event`)

// recover moves on to where an event may begin, and says whether there is such a place.
func (b *block) recover() bool {
	i := bytes.IndexByte(b.data, '\n')
	if !b.lines {
		if n := bytes.Index(b.data, eventStart); n >= 0 && (i < 0 || n < i) {
			i = n
		}
	}
	if i < 0 {
		keep := min(len(b.data), len(eventStart)-1) // the start may be cut
		if b.lines || b.last {
			keep = 0
		}
		b.data = b.data[len(b.data)-keep:]
		return false
	}
	b.data = b.data[i:]
	b.lost = false
	return true
}
