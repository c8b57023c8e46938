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
	// Once it has its place:
	stream     *Stream
	generation uint64
	start      int64 // in the stream
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
	size, tableBytes := recordSize(chunks)
	switch {
	case size+segmentHead > s.opts.MaxBytes || tableBytes > maxTableBytes:
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	case s.used+size+segmentHead > s.opts.MaxBytes:
		return nil, fmt.Errorf("%d of %d bytes: %w", s.used, s.opts.MaxBytes, ErrFull)
	}
	if err := s.assign(chunks); err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	at, err := s.writeRecord(chunks, now)
	if err != nil {
		return nil, full(err)
	}
	for _, c := range chunks {
		e := entry{segment: s.active, at: at, last: at, start: c.start, n: c.n, arrived: now}
		if s.opts.FsyncInterval > 0 {
			c.stream.publish(e)
		} else {
			s.commit.add(c.stream, e)
		}
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

func recordSize(chunks []chunk) (size int64, tableBytes int) {
	size = headerBytes
	for _, c := range chunks {
		tableBytes += extentHeadBytes + len(c.whole)
		size += c.n
	}
	return size + int64(tableBytes), tableBytes
}

// assign gives chunks their places in their streams. They are used up even if the batch then fails: no two pieces ever have the same.
func (s *Spool) assign(chunks []chunk) error {
	if len(s.streams)+len(chunks) > maxStreams {
		maps.DeleteFunc(s.streams, func(_ string, st *Stream) bool { return st.segments == 0 })
	}
	for i := range chunks {
		c := &chunks[i]
		st := s.stream(c.whole)
		if st == nil {
			return fmt.Errorf("%d different wholes wait: %w", maxStreams, ErrFull)
		}
		c.stream, c.generation, c.start = st, st.generation, st.next
		st.next += c.n
	}
	return nil
}

// writeRecord appends a record to the active segment, or a new one, and returns where it lies.
func (s *Spool) writeRecord(chunks []chunk, arrived int64) (at int64, err error) {
	size, _ := recordSize(chunks)
	if s.active != nil && s.active.size+size > s.opts.segmentBytes && s.active.size > segmentHead {
		s.seal()
	}
	if s.active == nil {
		if s.active, err = s.newSegment(); err != nil {
			return 0, err
		}
	}
	seg := s.active
	s.table = s.table[:0]
	var data int64
	for _, c := range chunks {
		data += c.n
		s.table = appendExtent(s.table, extent{generation: c.generation, start: c.start, n: c.n, checksum: c.checksum}, c.whole)
	}
	w := writer{file: seg.file, at: seg.size, buf: s.buf[:0]}
	w.buf = appendHeader(w.buf, s.table, data, arrived)
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
		return 0, err
	}
	at = seg.size
	seg.size += size
	s.used += size
	seg.live += data
	for _, c := range chunks {
		seg.add(c.stream)
	}
	s.commit.dirty(seg)
	return at, nil
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
