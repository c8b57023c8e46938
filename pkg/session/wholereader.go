package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// errGap says that bytes of the whole are missing before those that Read gives next.
var errGap = errors.New("a part is missing")

// wholeReader reads the chunks of a whole as one stream of uncompressed bytes. What chunks hold twice it gives once.
type wholeReader struct {
	ctx      context.Context
	store    blob.Reader
	chunks   []chunk // those not begun
	ahead    *ahead
	progress *Progress
	warn     func(format string, args ...any)

	// enough is about where reading will end, 0 for the end of the whole: not much more is asked for at first.
	enough int64

	pos     int64 // of the next byte in the whole
	held    int64 // bytes before it were read from what chunks were joined into
	current chunk
	part    bool       // only a part of the current chunk was asked for
	raw     *rawReader // nil between chunks
	plain   io.ReadCloser
}

// rawReader reads an object as it is stored; it counts, and remembers the store's own error.
type rawReader struct {
	io.ReadCloser
	progress *Progress
	err      error
}

func (r *rawReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.progress.BytesDone.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// Read gives io.EOF at the end of the whole, and errGap once where something is missing. Chunks that are gone or damaged make gaps and
// warnings; other errors are the store's.
func (w *wholeReader) Read(p []byte) (int, error) {
	for {
		if w.raw == nil {
			if len(w.chunks) == 0 {
				return 0, io.EOF
			}
			if err := w.open(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := w.plain.Read(p)
		w.pos += int64(n)
		switch {
		case n > 0:
			return n, nil // an error comes again
		case errors.Is(err, io.EOF):
			w.close()
			if w.current.joined {
				w.held = w.pos
			}
			if w.part {
				w.chunks, w.enough = slices.Insert(w.chunks, 0, w.current), 0 // it is not all of the chunk
			} else {
				w.progress.ObjectsDone.Add(1)
			}
		case err != nil && w.raw.err != nil:
			return 0, w.failed(w.raw.err)
		case err != nil:
			w.warn("%s is damaged at byte %d of its content: %v", w.current.object.Key, w.pos-w.current.offset, err)
			return 0, w.abandon()
		}
	}
}

// open begins the next chunk, at the byte that is wanted next.
func (w *wholeReader) open() error {
	next := w.chunks[0]
	if next.offset > w.pos {
		w.warn("%s has no bytes %d to %d", next.object.Key, w.pos, next.offset-1)
		w.pos = next.offset
		return errGap
	}
	w.ahead.fill(w.chunks)
	w.chunks = w.chunks[1:]
	w.current = next
	skip := w.pos - next.offset
	from, length := int64(0), int64(-1)
	w.part = false
	if next.compression == layout.Plain {
		if from, skip = skip, 0; from > 0 && from >= next.object.Size {
			return nil // all of it was read before
		}
		if next.object.Size > smallChunk && w.enough > w.pos && w.enough-w.pos < next.object.Size-from {
			w.part, length = true, w.enough-w.pos
		}
	}
	body, fetched, err := w.ahead.take(next.object, from)
	if !fetched {
		body, err = w.store.Get(w.ctx, next.object.Key, from, length)
	}
	if err != nil {
		return w.failed(err)
	}
	w.raw = &rawReader{ReadCloser: body, progress: w.progress}
	if w.plain, err = decompress(w.raw, next.compression); err == nil {
		_, err = io.CopyN(io.Discard, w.plain, skip)
	}
	switch {
	case err == nil:
		return nil
	case w.raw.err != nil:
		return w.failed(w.raw.err)
	case errors.Is(err, io.EOF) && skip > 0:
		w.close() // shorter than what was read before
		return nil
	}
	w.warn("%s is damaged: %v", next.object.Key, err)
	return w.abandon()
}

// failed handles an error of the store: an object that is gone is a gap.
func (w *wholeReader) failed(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		if w.current.offset < w.held {
			w.close()
			w.progress.ObjectsDone.Add(1)
			return nil // how far a compressed chunk went is not known, but it was joined and read
		}
		if found, err := w.joined(); found || err != nil {
			w.close()
			return err
		}
		w.warn("%s was listed but is gone", w.current.object.Key)
		return w.abandon()
	}
	w.close()
	return fmt.Errorf("read %s: %w", w.current.object.Key, err)
}

// abandon leaves the current chunk; what follows it comes after a gap.
func (w *wholeReader) abandon() error {
	w.progress.ObjectsDone.Add(1)
	w.close()
	if len(w.chunks) > 0 {
		w.pos = max(w.pos, w.chunks[0].offset)
	}
	return errGap
}

func (w *wholeReader) close() {
	if w.raw == nil {
		return
	}
	if w.plain != nil {
		w.plain.Close()
	}
	w.raw.Close()
	w.raw, w.plain = nil, nil
}

// decompress opens what is stored with a compression.
func decompress(r io.ReadCloser, c layout.Compression) (io.ReadCloser, error) {
	switch c {
	case layout.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err // not a nil *gzip.Reader, which is no nil io.ReadCloser
		}
		return z, nil
	case layout.Zstd:
		z := zstdReaders.Get().(*zstd.Decoder)
		return &zstdReader{z}, z.Reset(r)
	}
	return io.NopCloser(r), nil
}

// zstdReaders are used again: each holds a window of up to some megabytes.
var zstdReaders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic(err) // these options are valid
	}
	return z
}}

type zstdReader struct{ *zstd.Decoder }

func (r *zstdReader) Close() error {
	err := r.Reset(nil) // lets go of the object
	zstdReaders.Put(r.Decoder)
	return err
}
