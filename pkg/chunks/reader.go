package chunks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Store is the part of an object store that a Reader needs.
type Store interface {
	blob.Getter
	Stat(ctx context.Context, key string) (blob.Object, error)
}

// Options of a Reader. The zero value reads all of a stream.
type Options struct {
	// From and To are the bytes [From, To) to read. 0 for To is the stream's end.
	From, To int64
	// Expect is about where the caller will stop, if that is before To; 0 if not known. At first, no more of a plain
	// chunk is requested.
	Expect int64
	// Exact refuses an object that was replaced or removed since it was listed: ErrChanged, os.ErrNotExist. Otherwise
	// bytes of a removed chunk are read from the object that compaction stored in its place.
	Exact bool
	// Prefetcher, if set, fetches small chunks before they are reached.
	Prefetcher *Prefetcher
	// OnRead, if set, is called with the number of stored bytes that were read.
	OnRead func(bytes int)
	// OnChunk, if set, is called for each finished chunk, whether it could be read or not.
	OnChunk func(Chunk)
}

// Reader returns the chunks of a stream as one sequence of uncompressed bytes, each byte once.
type Reader struct {
	ctx      context.Context
	store    Store
	stream   *Stream
	opts     Options
	prefetch *prefetch // nil without a prefetcher

	unreadChunks []Chunk // those not begun
	reopen       source  // comes before unreadChunks if it has a key: see endBody and findCompacted
	offset       int64   // in the stream, of the next byte
	expect       int64   // in the stream, of about where the caller will stop; 0: not known, or it was reached

	current   source        // the last one begun
	isPartial bool          // not all of it was requested
	stored    *storedReader // of the current chunk
	body      io.ReadCloser // decompresses stored; nil between chunks

	compactedEnd int64 // bytes before it were read from objects that compaction stored
}

// source is a chunk to read.
type source struct {
	Chunk
	compacted bool // it is not of the list: compaction stored it in place of a listed one
}

// NewReader returns a reader of a stream. The caller closes it. The stream must not change meanwhile.
func NewReader(ctx context.Context, store Store, stream *Stream, opts Options) *Reader {
	r := &Reader{ctx: ctx, store: store, stream: stream, opts: opts, unreadChunks: stream.chunksFrom(opts.From),
		offset: opts.From, expect: cmp.Or(opts.Expect, opts.To)}
	if opts.Prefetcher != nil {
		r.prefetch = &prefetch{prefetcher: opts.Prefetcher}
		r.prefetch.ctx, r.prefetch.cancel = context.WithCancel(ctx)
	}
	return r
}

// Offset is the offset in the stream of the next byte that Read returns.
func (r *Reader) Offset() int64 { return r.offset }

// Key is the key of the chunk that was read last.
func (r *Reader) Key() string { return r.current.Object.Key }

// Read implements io.Reader. Where bytes are missing, it returns a *Gap once; the next call continues after the gap.
// Other errors come from the store or the context.
func (r *Reader) Read(p []byte) (int, error) {
	if r.opts.To > 0 {
		p = p[:max(0, min(int64(len(p)), r.opts.To-r.offset))]
		if len(p) == 0 {
			return 0, io.EOF
		}
	}
	for len(p) > 0 {
		if r.body == nil {
			if err := r.openNext(); err != nil {
				return 0, err
			}
			continue // the chunk may have been skipped
		}
		n, err := r.body.Read(p)
		r.offset += int64(n)
		switch {
		case n > 0:
			return n, nil // an error comes again
		case errors.Is(err, io.EOF):
			r.endBody()
		case err != nil:
			if err := r.handleError(err); err != nil {
				return 0, err
			}
		}
	}
	return 0, nil
}

// nextChunk takes the next chunk to read: the one to reopen, or the first of the unread ones. If bytes are missing
// before that, it stays among them, and openNext reports the gap first. ok is false at the end of what is to be read.
func (r *Reader) nextChunk() (next source, ok bool) {
	switch {
	case r.reopen.Object.Key != "":
		next, r.reopen = r.reopen, source{}
	case len(r.unreadChunks) == 0 || (r.opts.To > 0 && r.unreadChunks[0].Offset >= r.opts.To):
		return source{}, false
	case r.unreadChunks[0].Offset > r.offset:
		return source{Chunk: r.unreadChunks[0]}, true
	default:
		if r.prefetch != nil {
			r.prefetch.fetchNext(r.unreadChunks)
		}
		next.Chunk, r.unreadChunks = r.unreadChunks[0], r.unreadChunks[1:]
	}
	return next, true
}

// openNext opens the next chunk at the reader's offset. It may also skip a chunk whose bytes were read before, or
// return a *Gap if bytes are missing before the chunk. Of a plain chunk it requests no more than the caller is expected
// to read; endBody has the rest requested if the caller reads on. The error is io.EOF at the end.
func (r *Reader) openNext() error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	next, ok := r.nextChunk()
	if !ok {
		return io.EOF
	}
	if r.beginsRegion(next.Chunk) {
		r.offset = next.Offset // offsets jump there, no bytes are missing
	}
	if next.Offset > r.offset {
		gap := &Gap{Key: r.stream.Key, From: r.offset, To: next.Offset}
		r.offset = next.Offset
		return gap
	}
	r.current, r.isPartial = next, false
	skip := r.offset - next.Offset
	if next.Compression != layout.Plain {
		return r.openCurrent(0, -1, skip) // all of it: compressed bytes cannot be skipped
	}
	if skip > 0 && skip >= next.Object.Size {
		r.endChunk()
		return nil // all of it was read before
	}
	length := int64(-1) // to the chunk's end
	if left := r.expect - r.offset; left > 0 && left < next.Object.Size-skip {
		r.isPartial, length = true, left
	}
	return r.openCurrent(skip, length, 0) // what is before the offset is not requested
}

// beginsRegion says whether the chunk continues after one of which its writer did not know the length.
func (r *Reader) beginsRegion(next Chunk) bool {
	return r.stream.Kind != layout.Log && r.current.Compression != layout.Plain && next.Offset > r.offset &&
		layout.IsRegion(next.Offset)
}

// openCurrent opens the current chunk: length stored bytes (-1: all) of it, from the stored byte from on. Then it skips
// so many uncompressed bytes. The error is nil if reading continues.
func (r *Reader) openCurrent(from, length, skip int64) error {
	body, err := r.getChunk(from, length)
	if err != nil {
		return r.handleStoreError(err)
	}
	r.stored = &storedReader{ReadCloser: body, onRead: r.opts.OnRead, exact: r.opts.Exact &&
		!r.isPartial, remaining: r.current.Object.Size - from}
	if r.body, err = decompress(r.stored, r.current.Compression); err != nil {
		return r.handleError(err)
	}
	switch _, err = io.CopyN(io.Discard, r.body, skip); {
	case err == nil:
	case errors.Is(err, io.EOF):
		r.endBody() // it ends before the offset
	default:
		return r.handleError(err)
	}
	return nil
}

// getChunk takes the current chunk from those that were prefetched, or requests it.
func (r *Reader) getChunk(from, length int64) (io.ReadCloser, error) {
	if r.prefetch != nil {
		if body, ok, err := r.prefetch.takeFirst(r.current.Object, from); ok {
			r.isPartial = false
			return body, err
		}
	}
	return r.store.Get(r.ctx, r.current.Object.Key, from, length)
}

// endBody ends what was requested of the current chunk, which was read to its end.
func (r *Reader) endBody() {
	r.closeBody()
	if r.current.compacted {
		r.compactedEnd = r.offset
	}
	if r.isPartial {
		r.reopen, r.expect = r.current, 0 // the caller reads on: request the rest
		return
	}
	r.endChunk()
}

func (r *Reader) endChunk() {
	r.closeBody()
	if r.opts.OnChunk != nil {
		r.opts.OnChunk(r.current.Chunk)
	}
}

// handleError handles an error of reading the current chunk: of the store, or of decompressing it. It returns nil if
// reading continues.
func (r *Reader) handleError(err error) error {
	if r.stored.err != nil {
		return r.handleStoreError(r.stored.err)
	}
	return r.giveUpChunk(fmt.Errorf("%w at byte %d of its content: %w", ErrDamaged, r.offset-r.current.Offset, err))
}

// handleStoreError handles an error of the store for the current chunk. It returns nil if reading continues: with the
// next chunk if the chunk's bytes were read before, or with the object into which compaction has joined it. It returns
// a *Gap if the chunk was changed, or is archived and not of metrics.
func (r *Reader) handleStoreError(err error) error {
	if errors.Is(err, os.ErrNotExist) && !r.opts.Exact {
		if r.current.Offset < r.compactedEnd {
			// The end of a compressed chunk is not known, but the compacted object that was read contains it.
			r.endChunk()
			return nil
		}
		if found, err := r.findCompacted(); found || err != nil {
			r.closeBody()
			return err
		}
	}
	// Metrics are read only as a whole: tables that are made of them stay valid when their objects are restored.
	archived := r.stream.Kind != layout.Metrics && errors.Is(err, blob.ErrArchived)
	if Changed(err) || archived {
		return r.giveUpChunk(err)
	}
	r.closeBody()
	return fmt.Errorf("read %s: %w", r.current.Object.Key, err)
}

// giveUpChunk skips the rest of the current chunk, and returns the *Gap that this leaves.
func (r *Reader) giveUpChunk(err error) error {
	gap := &Gap{Key: r.current.Object.Key, From: r.offset, Err: err}
	r.endChunk()
	if len(r.unreadChunks) > 0 {
		r.offset = max(r.offset, r.unreadChunks[0].Offset)
	}
	gap.To = r.offset
	return gap
}

// closeBody closes the chunk that is being read, if there is one.
func (r *Reader) closeBody() {
	if r.stored == nil {
		return
	}
	if r.body != nil {
		_ = r.body.Close()
	}
	_ = r.stored.Close()
	r.stored, r.body = nil, nil
}

// Close ends reading, and prefetching.
func (r *Reader) Close() error {
	r.closeBody()
	if r.prefetch != nil {
		r.prefetch.cancelAll()
	}
	return nil
}

// storedReader reads an object as it is stored. In err it keeps the store's own error, because decompressors do not
// distinguish it from damage.
type storedReader struct {
	io.ReadCloser
	onRead    func(bytes int) // is told how many bytes each read gave; nil: nobody is
	exact     bool            // an object of another size is an error
	remaining int64           // bytes to come
	err       error
}

// Read implements io.Reader. With exact, an object that has another size than its listing says is ErrChanged.
func (s *storedReader) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.onRead != nil {
		s.onRead(n)
	}
	s.remaining -= int64(n)
	switch {
	case s.exact && s.remaining < 0:
		n, err = max(0, n+int(s.remaining)), ErrChanged // so who asks for no more than all chunks had is told, too
	case s.exact && errors.Is(err, io.EOF) && s.remaining > 0:
		err = ErrChanged
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// findCompacted looks for the object that compaction stored before it removed the current chunk: it holds the whole
// stream, under the key of its first chunk. found says that there is one, which is read next.
func (r *Reader) findCompacted() (found bool, err error) {
	compressions := []layout.Compression{layout.Plain}
	if c := r.current.Compression; c != layout.Plain &&
		(r.stream.Kind == layout.NodeEvents || r.stream.Kind == layout.JobEvents) {
		compressions = append(compressions, c) // events may keep their compression
	}
	for _, c := range compressions {
		key := r.stream.FirstKey(c)
		if key == r.current.Object.Key {
			continue // it is the one that is missing
		}
		o, err := r.store.Stat(r.ctx, key)
		switch {
		case errors.Is(err, os.ErrNotExist) || (err == nil && c == layout.Plain && o.Size <= r.offset):
			continue // none, or a first chunk that ends before the current one; a compressed one's size does not tell
		case err != nil:
			return false, fmt.Errorf("find the object that replaces %s: %w", r.current.Object.Key, err)
		}
		r.reopen = source{Chunk: Chunk{Object: o, Compression: c}, compacted: true}
		return true, nil
	}
	return false, nil
}
