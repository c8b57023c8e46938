package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/seekable"
)

// Concatenate reads objects one after the other and stores them as one object, which replaces an existing one. The key
// may be one of the sources. If an object does not have the size that its source says, nothing is stored and the result
// is an error. A small object is held in memory, because the store may read its body more than once.
func Concatenate(ctx context.Context, store Store, key string, sources []Object) error {
	var size int64
	for _, source := range sources {
		size += source.Size
	}
	joined := Join(ctx, store, sources)
	defer joined.Close()
	if size > maxBuffered {
		return store.Put(ctx, key, joined)
	}
	data, err := io.ReadAll(joined)
	if err != nil {
		return err
	}
	return store.Put(ctx, key, bytes.NewReader(data))
}

// maxBuffered is the size in bytes up to which a joined object is held in memory. A driver sends such an object by one
// request. If the answer is lost it reads the body again, which fails once the object has replaced one of its sources.
// Larger objects are sent in parts, each read once.
const maxBuffered = 16 << 20

// Getter reads objects: see Reader.
type Getter interface {
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
}

// Join reads objects one after the other as one body, which the caller closes. Only one of them is open at a time. If
// an object does not have the size that its source says, Read returns an error.
func Join(ctx context.Context, store Getter, sources []Object) io.ReadSeekCloser {
	var size int64
	for _, source := range sources {
		size += source.Size
	}
	return seekable.New(size, func(offset int64) (io.ReadCloser, error) {
		rest := sources
		for offset > 0 && len(rest) > 0 && offset >= rest[0].Size {
			offset -= rest[0].Size
			rest = rest[1:]
		}
		return &joined{ctx: ctx, store: store, sources: rest, from: offset}, nil
	})
}

type joined struct {
	ctx     context.Context
	store   Getter
	sources []Object // the first is being read

	from int64         // where the first is opened
	body io.ReadCloser // nil: none is open
	left int64         // unread bytes of body
}

// Read implements io.Reader. It opens one source after the other, and returns an error if one does not have the size
// that its listing says.
func (j *joined) Read(p []byte) (int, error) {
	for len(j.sources) > 0 {
		source := j.sources[0]
		if j.body == nil {
			body, err := j.store.Get(j.ctx, source.Key, j.from, ToEnd)
			if err != nil {
				return 0, err
			}
			j.body, j.left, j.from = body, source.Size-j.from, 0
		}
		n, err := j.body.Read(p)
		j.left -= int64(n)
		switch {
		case j.left < 0 || (errors.Is(err, io.EOF) && j.left > 0):
			return 0, fmt.Errorf("read %s: its size is not the %d bytes of the listing: %w", source.Key, source.Size,
				io.ErrUnexpectedEOF)
		case !errors.Is(err, io.EOF):
			return n, err
		}
		j.sources = j.sources[1:]
		if err := j.Close(); err != nil || n > 0 {
			return n, err
		}
	}
	return 0, io.EOF
}

// Close closes the open object, if any.
func (j *joined) Close() error {
	if j.body == nil {
		return nil
	}
	body := j.body
	j.body = nil
	return body.Close()
}
