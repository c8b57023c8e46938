package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"sync"
	"time"
)

// Piece is lines of one whole.
type Piece struct {
	Whole string
	// Data is one or more whole lines, each ending in \n.
	Data []byte
}

// chunk is what becomes one extent: parts of pieces that follow each other and are of one whole.
type chunk struct {
	whole    string
	parts    [][]byte
	n        int64
	checksum uint32
	// Once it is written:
	stream *Stream
	start  int64 // in the stream
}

const writeBytes = 256 << 10

// Append keeps the pieces, all or none, and returns when they are as durable as Options.FsyncInterval says. Pieces of one whole keep
// their order; those that follow each other are stored as one. Pieces' memory is the caller's again when Append returns.
//
// ErrFull is a state that passes; so may any other error but ErrTooLarge and ErrClosed. Of a batch whose Append failed nothing is kept,
// or at worst, if the disk fails at once again, all of it.
func (s *Spool) Append(ctx context.Context, pieces []Piece) error {
	if len(pieces) == 0 {
		return nil
	}
	p := plans.Get().(*plan)
	defer p.free()
	if err := p.split(pieces); err != nil {
		return fmt.Errorf("append to spool: %w", err)
	}
	s.mu.Lock()
	c, err := s.append(ctx, p.chunks)
	s.mu.Unlock()
	switch {
	case err != nil:
	case s.opts.FsyncInterval > 0:
		s.wake()
	default:
		err = s.finish(c)
	}
	if err != nil {
		s.metrics.appendFailed(err)
		return fmt.Errorf("append to spool: %w", err)
	}
	return nil
}

// plan is a batch as it will be written. Plans are used again.
type plan struct {
	chunks []chunk
}

var plans = sync.Pool{New: func() any { return new(plan) }}

// free gives the plan back; it must not hold on to anybody's data.
func (p *plan) free() {
	for i := range p.chunks {
		c := &p.chunks[i]
		clear(c.parts)
		*c = chunk{parts: c.parts[:0]}
	}
	p.chunks = p.chunks[:0]
	plans.Put(p)
}

// begin adds a chunk.
func (p *plan) begin(whole string) {
	if len(p.chunks) < cap(p.chunks) {
		p.chunks = p.chunks[:len(p.chunks)+1]
	} else {
		p.chunks = append(p.chunks, chunk{})
	}
	p.chunks[len(p.chunks)-1].whole = whole
}

// split cuts pieces into chunks of at most extentBytes or one line, and sums them.
func (p *plan) split(pieces []Piece) error {
	for _, piece := range pieces {
		if piece.Whole == "" || len(piece.Whole) > maxKeyBytes {
			return fmt.Errorf("piece of %d bytes has a key of %d", len(piece.Data), len(piece.Whole))
		}
		if len(piece.Data) == 0 || piece.Data[len(piece.Data)-1] != '\n' {
			return fmt.Errorf("piece of %s does not end with its line", piece.Whole)
		}
		for data := piece.Data; len(data) > 0; {
			part := data[:lineCut(data)]
			data = data[len(part):]
			if int64(len(part)) > math.MaxUint32 {
				return fmt.Errorf("line of %d bytes: %w", len(part), ErrTooLarge)
			}
			if n := len(p.chunks); n == 0 || p.chunks[n-1].whole != piece.Whole || p.chunks[n-1].n+int64(len(part)) > extentBytes {
				p.begin(piece.Whole)
			}
			c := &p.chunks[len(p.chunks)-1]
			c.parts = append(c.parts, part)
			c.n += int64(len(part))
			c.checksum = crc32.Update(c.checksum, castagnoli, part)
		}
	}
	return nil
}

// lineCut is the length of as many whole lines of data as fit an extent, at least one.
func lineCut(data []byte) int {
	if len(data) <= extentBytes {
		return len(data)
	}
	if i := bytes.LastIndexByte(data[:extentBytes], '\n'); i >= 0 {
		return i + 1
	}
	return extentBytes + bytes.IndexByte(data[extentBytes:], '\n') + 1
}

// append writes one record to the active segment and notes it in the commit it will be durable with.
func (s *Spool) append(ctx context.Context, chunks []chunk) (*commit, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	size, tableBytes := int64(headerBytes), 0
	for _, c := range chunks {
		tableBytes += extentHeadBytes + len(c.whole)
		size += c.n
	}
	size += int64(tableBytes)
	segmentHead := int64(len(segmentMagic))
	if size+segmentHead > s.opts.MaxBytes || tableBytes > maxTableBytes {
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	}
	if s.used+size+segmentHead > s.opts.MaxBytes {
		return nil, fmt.Errorf("%d of %d bytes: %w", s.used, s.opts.MaxBytes, ErrFull)
	}
	if s.active != nil && s.active.size+size > s.opts.segmentBytes && s.active.size > segmentHead {
		s.seal()
	}
	if s.active == nil {
		seg, err := s.newSegment()
		if err != nil {
			return nil, full(err)
		}
		s.active = seg
	}
	if err := s.writeRecord(chunks, size, time.Now()); err != nil {
		return nil, full(err)
	}
	return s.commit, nil
}

// full marks the errors of a full disk as ErrFull.
func full(err error) error {
	if diskFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// writeRecord appends a record of size bytes to the active segment. A stream's offsets are used up even if the write fails: no two
// pieces ever have the same.
func (s *Spool) writeRecord(chunks []chunk, size int64, now time.Time) error {
	if len(s.streams)+len(chunks) > maxStreams {
		maps.DeleteFunc(s.streams, func(_ string, st *Stream) bool { return st.segments == 0 })
	}
	seg := s.active
	s.table = s.table[:0]
	var data int64
	for i := range chunks {
		c := &chunks[i]
		st := s.stream(c.whole)
		if st == nil {
			return fmt.Errorf("%d different wholes wait: %w", maxStreams, ErrFull)
		}
		c.stream, c.start = st, st.next
		st.next += c.n
		data += c.n
		s.table = appendExtent(s.table, extent{generation: st.generation, start: c.start, n: c.n, checksum: c.checksum}, c.whole)
	}
	w := writer{file: seg.file, at: seg.size, buf: s.buf[:0]}
	w.buf = appendHeader(w.buf, s.table, data, now.UnixNano())
	w.write(s.table)
	for _, c := range chunks {
		for _, part := range c.parts {
			w.write(part)
		}
	}
	if w.flush(); w.err != nil {
		// What was written of the record is cut off again. If that fails too, opening the spool finds it torn.
		err := fmt.Errorf("write segment: %w", w.err)
		if cut := seg.file.Truncate(seg.size); cut != nil {
			if seg.synced < seg.size {
				s.commit.dirty(seg)
			}
			s.seal()
			err = errors.Join(err, fmt.Errorf("cut segment: %w", cut))
		}
		return err
	}
	at := seg.size
	seg.size += size
	s.used += size
	for i := range chunks {
		c := &chunks[i]
		st := c.stream
		seg.live += c.n
		if _, ok := seg.streams[st]; !ok {
			seg.streams[st] = struct{}{}
			st.segments++
		}
		e := entry{segment: seg, at: at, start: c.start, n: c.n, arrived: now.UnixNano()}
		if s.opts.FsyncInterval > 0 {
			st.publish(e)
		} else {
			s.commit.add(st, e)
		}
	}
	s.commit.dirty(seg)
	return nil
}

// writer gathers small writes; large ones go past the buffer.
type writer struct {
	file file
	at   int64
	buf  []byte
	err  error
}

func (w *writer) write(b []byte) {
	if len(w.buf)+len(b) > cap(w.buf) {
		w.flush()
	}
	if len(b) >= cap(w.buf) {
		w.put(b)
		return
	}
	w.buf = append(w.buf, b...)
}

func (w *writer) flush() {
	w.put(w.buf)
	w.buf = w.buf[:0]
}

func (w *writer) put(b []byte) {
	if w.err != nil || len(b) == 0 {
		return
	}
	_, w.err = w.file.WriteAt(b, w.at)
	w.at += int64(len(b))
}
