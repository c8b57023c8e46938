package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Concatenate reads objects one after the other and stores them as one object, which replaces an existing one. The key
// may be one of the sources. If an object does not have the size that its source says, nothing is stored and the result
// is an error.
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

// Join reads objects one after the other as one body. Only one of them is open at a time. If an object does not have
// the size that its source says, Read returns an error.
func Join(ctx context.Context, store Getter, sources []Object) io.ReadSeekCloser {
	return &joined{ctx: ctx, store: store, sources: sources}
}

type joined struct {
	ctx     context.Context
	store   Getter
	sources []Object

	at   int           // index of the source to read next
	from int64         // offset in it
	left int64         // unread bytes of body
	body io.ReadCloser // nil: none is open
}

// Read implements io.Reader. An object whose size is not that of the listing is an error.
func (j *joined) Read(p []byte) (int, error) {
	for {
		if j.body == nil {
			if j.at == len(j.sources) {
				return 0, io.EOF
			}
			if err := j.open(); err != nil {
				return 0, err
			}
		}
		n, err := j.body.Read(p)
		j.from, j.left = j.from+int64(n), j.left-int64(n)
		switch {
		case j.left < 0 || (errors.Is(err, io.EOF) && j.left > 0):
			source := j.sources[j.at]
			return 0, fmt.Errorf("read %s: its size is not the %d bytes of the listing: %w", source.Key, source.Size,
				io.ErrUnexpectedEOF)
		case errors.Is(err, io.EOF):
			if err := j.Close(); err != nil {
				return n, err
			}
			j.at, j.from = j.at+1, 0
			if n == 0 {
				continue
			}
			return n, nil
		}
		return n, err
	}
}

func (j *joined) open() error {
	source := j.sources[j.at]
	body, err := j.store.Get(j.ctx, source.Key, j.from, -1)
	if err != nil {
		return err
	}
	j.body, j.left = body, source.Size-j.from
	return nil
}

// Seek implements io.Seeker.
func (j *joined) Seek(offset int64, whence int) (int64, error) {
	var size, position int64
	for i, source := range j.sources {
		if i < j.at {
			position += source.Size
		}
		size += source.Size
	}
	switch whence {
	case io.SeekCurrent:
		offset += position + j.from
	case io.SeekEnd:
		offset += size
	}
	if offset < 0 || offset > size {
		return 0, fmt.Errorf("seek to %d of %d bytes: %w", offset, size, os.ErrInvalid)
	}
	if offset == position+j.from {
		return offset, nil // an open body stays open
	}
	if err := j.Close(); err != nil {
		return 0, err
	}
	j.at, j.from = 0, offset
	for j.at < len(j.sources) && j.from >= j.sources[j.at].Size {
		j.from -= j.sources[j.at].Size
		j.at++
	}
	return offset, nil
}

// Close closes the open body, if any. Reading may continue.
func (j *joined) Close() error {
	if j.body == nil {
		return nil
	}
	body := j.body
	j.body = nil
	return body.Close()
}
