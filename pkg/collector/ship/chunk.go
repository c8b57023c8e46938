package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	putTimeout  = time.Minute
	listTimeout = 5 * time.Minute
)

// shipChunk ships one chunk of a stream that the breaker has permitted, and records the outcome: in the breaker, the
// stream's state, metrics and log. put is false if there was nothing to ship, or after an error.
func (s *Shipper) shipChunk(ctx context.Context, j job, flushing bool) (put bool, err error) {
	j.state.upload = upload{}
	put, err = s.nextChunk(ctx, j, flushing)
	now := time.Now()
	cause := noFault
	if err != nil {
		cause = s.findFault(ctx, j.state, err)
	}
	recovered, opened := s.breaker.reportResult(now, j.permit, put, cause)
	if err == nil {
		j.state.notBefore = time.Time{}
		if put {
			s.recordStored(now, j)
		}
		if recovered > 0 {
			s.opts.Log.Infof("shipping recovered after %d errors", recovered)
			s.errors.Reset()
		}
		return put, nil
	}
	err = fmt.Errorf("ship %s: %w", j.source.Key(), err)
	s.recordFailure(now, j, cause, err)
	if cause != noFault {
		s.metrics.errors.WithLabelValues(j.group.Name, errorKind(err)).Inc()
		s.errors.Warn(now, "could not ship; it is tried again", err)
	}
	if opened {
		neverDue := time.Time{} // as of a stream that has failed
		s.opts.Log.WithField("next try", s.breaker.nextStart(now, neverDue).Sub(now).Round(time.Second)).
			Warnf("the store failed %d times in a row: the collector tries one upload at a time until it answers; "+
				"events wait in the spool and logs on disk", breakerErrors)
	}
	return false, err
}

// nextChunk finds where the stream's next chunk begins, unless that is known, and puts the chunk into the store. put is
// false if there is nothing to ship. If another upload has taken the chunk's key, it lists the stream and tries once
// more behind it.
func (s *Shipper) nextChunk(ctx context.Context, j job, flushing bool) (put bool, err error) {
	stream := j.source.Key()
	if !j.state.prepared && s.opts.Prepare != nil {
		prepareCtx, cancel := context.WithTimeout(ctx, putTimeout)
		defer cancel()
		if err := s.opts.Prepare(prepareCtx, stream); err != nil {
			return false, err
		}
	}
	j.state.prepared = true
	j.state.endKnown = j.state.endKnown && !j.source.Unresumed()
	taken := ""
	for range 2 {
		if !j.state.endKnown {
			if err := s.findEnd(ctx, j); err != nil {
				return false, err
			}
		}
		offset, n, _ := j.source.Pending(s.chunkBytes(time.Now(), &j.state.limit))
		if n == 0 {
			return false, nil
		}
		if offset < j.state.end {
			return false, sourceError{fmt.Errorf("the source is at byte %d, but %d bytes are stored", offset,
				j.state.end)}
		}
		key, err := s.putChunk(ctx, j, offset, n, flushing)
		switch {
		case err == nil:
			j.source.Shipped(offset + n)
			j.state.end = offset + n
			return true, nil
		case !errors.Is(err, os.ErrExist):
			return false, err
		}
		// Either an earlier put was stored and its answer lost, or another collector stored the chunk: continue after
		// the stored bytes.
		s.metrics.conflicts.WithLabelValues(j.group.Name).Inc()
		j.state.endKnown = false
		taken = key
	}
	return false, fmt.Errorf("%s exists, but the listing does not show it: is another program writing below %s?", taken,
		stream)
}

// findEnd lists the store to find how many bytes of the stream are stored, and makes the source continue there.
func (s *Shipper) findEnd(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	stream := j.source.Key()
	s.metrics.lists.WithLabelValues(j.group.Name).Inc()
	fresh := j.state.listed // the first time, a listing of the folder is enough
	last, err := s.listings.lastChunk(ctx, j.group, stream, fresh)
	if err != nil {
		return err
	}
	end := int64(0)
	if last != nil {
		end = last.streamEnd(j.group, stream, s.lengths)
	}
	if err := j.source.Resume(end); err != nil {
		return sourceError{fmt.Errorf("resume at %d: %w", end, err)}
	}
	j.state.endKnown, j.state.listed, j.state.end = true, true, end
	j.state.storedEmpty = last != nil && end == 0
	return nil
}

// putChunk stores the chunk of n bytes (uncompressed) at offset of the stream, and returns the chunk's key, also with
// an error of the store such as os.ErrExist. While flushing, little time is left, so the rate is not limited.
func (s *Shipper) putChunk(ctx context.Context, j job, offset, n int64, flushing bool) (key string, err error) {
	stream := j.source.Key()
	src, err := j.source.Open(offset, n)
	if err != nil {
		return "", sourceError{err}
	}
	defer src.Close()
	var body io.ReadSeeker = src
	size := n
	if j.group.Compression != layout.Plain {
		compressed, err := s.compressor.compress(src, j.group.Compression)
		if err != nil {
			return "", sourceError{fmt.Errorf("compress: %w", err)}
		}
		body, size = compressed, compressed.Size()
		now := time.Now() // before the put, because a listing shows only the compressed size
		s.noteFailed(now, s.lengths.addNote(now, note{Stream: stream, Offset: offset, Length: n, Size: size}))
	}
	if s.rate != nil && !flushing {
		if err := s.rate.WaitN(ctx, int(min(size, int64(s.rate.Burst())))); err != nil {
			return "", err
		}
	}
	sent := &sentBody{ReadSeeker: body} // counts what the store has read, and whether the source failed
	key = j.group.chunkKey(stream, offset)
	if j.state.storedEmpty && offset == 0 { // an empty object has the stream's own key
		key = layout.SpelledChunkKey(stream, offset, j.group.Compression)
	}
	allowed := putTime(ctx, flushing, n)
	putCtx, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	start := time.Now()
	err = markTooSlow(ctx, putCtx, allowed, s.opts.Store.Create(putCtx, key, sent))
	// What part of the n bytes was sent is known by how much of the body the store has read.
	j.state.upload = upload{bytes: n, sentBytes: n * sent.at.Load() / max(size, 1)}
	s.metrics.countPut(j.group.Name, n, size, time.Since(start), err)
	if err != nil && sent.failed.Load() {
		err = sourceError{err}
	}
	return key, err
}

// putTime is how long a put of n bytes may take: during Flush less than the rest, so that a smaller chunk can follow.
func putTime(ctx context.Context, flushing bool, n int64) time.Duration {
	deadline, ok := ctx.Deadline()
	if !flushing || !ok || n <= LeastChunk {
		return putTimeout
	}
	return min(putTimeout, max(time.Until(deadline)/4, time.Second))
}

// markTooSlow marks the error of a put that was cancelled because its own time was over.
func markTooSlow(ctx, putCtx context.Context, allowed time.Duration, err error) error {
	if err == nil || putCtx.Err() == nil || ctx.Err() != nil || errors.Is(err, os.ErrExist) {
		return err
	}
	return fmt.Errorf("%w: not done after %s: %w", errSlow, allowed.Round(time.Second), err)
}

// compressor compresses chunks one at a time, which bounds its memory: one encoder, however many chunks are under way.
type compressor struct {
	mu   sync.Mutex
	gzip *gzip.Writer
	zstd *zstd.Encoder
}

// zstdWindow is the maximum distance of a match, in bytes. A larger one gains little on logs and costs readers memory.
const zstdWindow = 1 << 20

// compress returns the compressed bytes of r, which it holds in memory.
func (c *compressor) compress(r io.Reader, how layout.Compression) (*bytes.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	w, err := c.encoder(&out, how)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return bytes.NewReader(out.Bytes()), nil
}

// encoder returns the encoder of gzip or zstd, made once, which writes to out. c.mu must be held.
func (c *compressor) encoder(out io.Writer, how layout.Compression) (io.WriteCloser, error) {
	if how == layout.Gzip {
		if c.gzip == nil {
			c.gzip = gzip.NewWriter(out)
		}
		c.gzip.Reset(out)
		return c.gzip, nil
	}
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithWindowSize(zstdWindow))
		if err != nil {
			return nil, fmt.Errorf("make a zstd encoder: %w", err)
		}
	}
	c.zstd.Reset(out)
	return c.zstd, nil
}

// sentBody is a body of which one knows how much was read and whether reading failed, even while a transport that gave
// up still holds it.
type sentBody struct {
	io.ReadSeeker
	at     atomic.Int64
	failed atomic.Bool
}

func (s *sentBody) Read(b []byte) (int, error) {
	n, err := s.ReadSeeker.Read(b)
	s.at.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed.Store(true)
	}
	return n, err
}

func (s *sentBody) Seek(offset int64, whence int) (int64, error) {
	at, err := s.ReadSeeker.Seek(offset, whence)
	if err == nil {
		s.at.Store(at)
	} else {
		s.failed.Store(true)
	}
	return at, err
}
