package spool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
)

// Lines are complete lines of one stream.
type Lines struct {
	Stream string // key
	// Data is one or more whole lines, each ending in \n.
	Data []byte
}

// newBlock is a block to write: consecutive lines of the batch that belong to one stream.
type newBlock struct {
	key      string
	parts    [][]byte
	n        int64
	checksum uint32
	// Set when the block is assigned to the stream:
	stream *Stream
	start  int64 // local offset, see Stream
}

func (b *newBlock) end() int64 { return b.start + b.n }

// writeBytes is the size of the buffer that gathers a record.
const writeBytes = 256 << 10

// Append writes a batch completely or not at all, and returns when it is on disk. Lines of one stream keep their order.
// After Append returns, the caller may reuse the batch's memory.
//
// ErrFull is temporary, and any other error except ErrTooLarge may be. If Append fails, nothing of the batch is kept.
// Only if the disk fails a second time right away may all of it be kept.
func (s *Spool) Append(ctx context.Context, batch []Lines) error {
	return s.append(ctx, batch, allRoom)
}

// AppendMinor is Append for lines of one stream that give way to events: it returns ErrGiveWay where they would leave
// the spool, or what its disk has room for, more than half full.
func (s *Spool) AppendMinor(ctx context.Context, stream string, lines []byte) error {
	err := s.append(ctx, []Lines{{Stream: stream, Data: lines}}, halfRoom)
	if errors.Is(err, ErrFull) {
		return ErrGiveWay
	}
	return err
}

// Divisors of the room that the spool and its disk have, for those who may use only a part of it.
const allRoom, halfRoom = 1, 2

// append writes a batch to disk and returns when it is durable. The error wraps ErrFull if the spool would then hold
// more than its room divided by divisor, which is allRoom or halfRoom.
func (s *Spool) append(ctx context.Context, batch []Lines, divisor int64) error {
	if len(batch) == 0 {
		return nil
	}
	blocks, err := splitBatch(batch)
	if err != nil {
		return fmt.Errorf("append to spool: %w", err)
	}
	s.mu.Lock()
	c, err := s.writeBatch(ctx, blocks, divisor)
	s.mu.Unlock()
	if err == nil {
		err = s.makeDurable(c)
	}
	if err != nil {
		s.metrics.appendFailed(err)
		return fmt.Errorf("append to spool: %w", err)
	}
	return nil
}

// splitBatch checks a batch, and cuts it into blocks with checksums. A block has whole lines of one stream: at most
// blockBytes, or a single longer line. The data is not copied.
func splitBatch(batch []Lines) (blocks []newBlock, err error) {
	var b *newBlock
	for _, lines := range batch {
		if lines.Stream == "" || len(lines.Stream) > maxKeyBytes {
			return nil, fmt.Errorf("lines of %d bytes have a key of %d bytes", len(lines.Data), len(lines.Stream))
		}
		if len(lines.Data) == 0 || lines.Data[len(lines.Data)-1] != '\n' {
			return nil, fmt.Errorf("lines of %s do not end with a line break", lines.Stream)
		}
		for data := lines.Data; len(data) > 0; {
			part := data[:lineCut(data)]
			data = data[len(part):]
			if int64(len(part)) > math.MaxUint32 {
				return nil, fmt.Errorf("line of %d bytes: %w", len(part), ErrTooLarge)
			}
			if b == nil || b.key != lines.Stream || b.n+int64(len(part)) > blockBytes {
				blocks = append(blocks, newBlock{key: lines.Stream})
				b = &blocks[len(blocks)-1]
			}
			b.parts = append(b.parts, part)
			b.n += int64(len(part))
			b.checksum = crc32.Update(b.checksum, castagnoli, part)
		}
	}
	return blocks, nil
}

// lineCut returns the length of the complete lines at the start of data that fit into a block, at least one line.
func lineCut(data []byte) int {
	if len(data) <= blockBytes {
		return len(data)
	}
	if i := bytes.LastIndexByte(data[:blockBytes], '\n'); i >= 0 {
		return i + 1
	}
	return blockBytes + bytes.IndexByte(data[blockBytes:], '\n') + 1
}

// writeBatch writes the blocks as one record to the active segment, and returns the commit with which the record
// becomes durable. divisor is as in append. s.mu is held.
func (s *Spool) writeBatch(ctx context.Context, blocks []newBlock, divisor int64) (*commit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed {
		return nil, errClosed
	}
	size, tableBytes := recordSize(blocks)
	needed := size + segmentHead // it may begin a new segment
	switch {
	case needed > s.opts.MaxBytes || tableBytes > maxTableBytes:
		return nil, fmt.Errorf("%d bytes: %w", size, ErrTooLarge)
	case s.used+needed > s.opts.MaxBytes:
		return nil, fmt.Errorf("%d of %d bytes: %w", s.used, s.opts.MaxBytes, ErrFull)
	// The disk is asked only for a part of the room: for all of it the write itself tells.
	case divisor > allRoom && s.used+needed > min(s.opts.MaxBytes, s.used+s.disk.free(s.dir))/divisor:
		return nil, ErrFull
	}
	if err := s.assignOffsets(blocks); err != nil {
		return nil, err
	}
	now := s.steadyNow()
	at, err := s.writeRecord(blocks, now)
	if err != nil {
		return nil, ifDiskFull(err)
	}
	for i := range blocks {
		b := &blocks[i]
		sp := span{segment: s.active, at: at, last: at, start: b.start, n: b.n, arrived: now}
		s.commit.spans = append(s.commit.spans, newSpan{b.stream, sp})
	}
	return s.commit, nil
}

// recordSize returns the bytes of a record with these blocks, and those of its table of blocks among them.
func recordSize(blocks []newBlock) (size int64, tableBytes int) {
	size = headerBytes
	for i := range blocks {
		tableBytes += blockHeadBytes + len(blocks[i].key)
		size += blocks[i].n
	}
	return size + int64(tableBytes), tableBytes
}

// assignOffsets gives each block its stream, which it makes if needed, and its local offset (see Stream). A stream
// never gives an offset twice, even if the batch fails. The error wraps ErrFull if there are too many streams. s.mu is
// held until the record is written, which counts its streams' segments.
func (s *Spool) assignOffsets(blocks []newBlock) error {
	if len(s.streams)+len(blocks) > maxStreams {
		// Streams of which nothing is on disk are forgotten. If such a key comes again, its stream has offsets from 0
		// on but another ID, and blocks belong to a stream by its ID.
		maps.DeleteFunc(s.streams, func(_ string, st *Stream) bool { return st.segments == 0 })
	}
	for i := range blocks {
		b := &blocks[i]
		if b.stream = s.findOrMakeStream(b.key); b.stream == nil {
			return fmt.Errorf("%d different streams wait: %w", maxStreams, ErrFull)
		}
		b.start = b.stream.nextOffset
		b.stream.nextOffset += b.n
	}
	return nil
}

// writeRecord appends a record of these blocks to the active segment, or to a new one if there is none or it is full,
// and returns the record's position in the file. arrived is when its lines arrived, Unix ns. s.mu is held.
func (s *Spool) writeRecord(blocks []newBlock, arrived int64) (at int64, err error) {
	size, _ := recordSize(blocks)
	if s.active != nil && s.active.size+size > s.opts.segmentBytes && s.active.size > segmentHead {
		s.sealActive()
	}
	if s.active == nil {
		if s.active, err = s.newSegment(); err != nil {
			return 0, err
		}
	}
	seg := s.active
	s.table = s.table[:0]
	var data int64
	for i := range blocks {
		b := &blocks[i]
		data += b.n
		s.table = appendBlock(s.table, block{streamID: b.stream.id, start: b.start, n: b.n, checksum: b.checksum},
			b.key)
	}
	w := s.writer // it keeps its first error
	w.Reset(io.NewOffsetWriter(seg.file, seg.size))
	_, _ = w.Write(appendHeader(w.AvailableBuffer(), s.table, data, arrived))
	_, _ = w.Write(s.table)
	for i := range blocks {
		for _, part := range blocks[i].parts {
			_, _ = w.Write(part)
		}
	}
	if err := w.Flush(); err != nil {
		// Cut off what was written of the record. If that fails too, nothing is appended after it, and opening the
		// spool cuts it off as torn.
		err := fmt.Errorf("write segment: %w", err)
		if cut := seg.file.Truncate(seg.size); cut != nil {
			if seg.synced < seg.size { // earlier records of this commit are in it
				s.commit.addSegment(seg)
			}
			s.sealActive()
			err = errors.Join(err, fmt.Errorf("cut segment: %w", cut))
		}
		return 0, err
	}
	at = seg.size
	seg.size += size
	s.used += size
	seg.liveBytes += data
	for i := range blocks {
		seg.addStream(blocks[i].stream)
	}
	s.commit.addSegment(seg)
	return at, nil
}
