package inventory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// ErrDamaged is content that is stored but cannot be read: a broken frame, bytes that are missing.
var ErrDamaged = errors.New("damaged")

// Open reads the content of a chunk, uncompressed. Bytes that do not decompress are ErrDamaged; errors of the store are not.
func Open(ctx context.Context, store blob.Getter, c Chunk) (io.ReadCloser, error) {
	raw, err := store.Get(ctx, c.Object.Key, 0, -1)
	if err != nil {
		return nil, err
	}
	r := &content{raw: &sized{ReadCloser: raw, left: c.Object.Size}, key: c.Object.Key}
	switch c.Compression {
	case layout.Gzip:
		var z *gzip.Reader
		if z, err = gzip.NewReader(r.raw); err == nil {
			r.plain = z
		}
	case layout.Zstd:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(r.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow)); err == nil {
			r.plain = z.IOReadCloser()
		}
	default:
		r.plain = io.NopCloser(r.raw)
	}
	if err != nil {
		return nil, errors.Join(r.blame(err), raw.Close())
	}
	return r, nil
}

// maxWindow bounds the memory that a compressed chunk can ask for.
const maxWindow = 64 << 20

// content is the content of one chunk.
type content struct {
	key   string
	raw   *sized
	plain io.ReadCloser
}

func (r *content) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.blame(err)
	}
	return n, err
}

// blame says whose fault an error is: the store's, or the content's.
func (r *content) blame(err error) error {
	if r.raw.err != nil {
		return fmt.Errorf("read %s: %w", r.key, r.raw.err)
	}
	return fmt.Errorf("read %s: %w: %w", r.key, ErrDamaged, err)
}

// Close implements io.Closer.
func (r *content) Close() error { return errors.Join(r.plain.Close(), r.raw.Close()) }

// sized reads an object as stored. Another size than it was listed with is an error: it was replaced since.
type sized struct {
	io.ReadCloser
	left int64
	err  error // what the store said
}

func (s *sized) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.left -= int64(n)
	switch {
	case s.left < 0 || (errors.Is(err, io.EOF) && s.left > 0):
		err = errChanged
		s.err = err
	case err != nil && !errors.Is(err, io.EOF):
		s.err = err
	}
	return n, err
}

var errChanged = errors.New("it has another size than it was listed with")

// Changed says whether an error came of an object that was replaced or removed since it was listed, by another command.
func Changed(err error) bool { return errors.Is(err, errChanged) || errors.Is(err, os.ErrNotExist) }
