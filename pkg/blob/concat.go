package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Concatenator is a store that joins objects without their bytes leaving it, where it can.
type Concatenator interface {
	// Concatenate stores the contents of sources, in order, under key, replacing what was there; key may be one of the sources.
	// Sources are as a listing told of them, and never is a part of the whole visible.
	Concatenate(ctx context.Context, key string, sources []Object) error
}

// Concatenate joins objects on the store's side if it is a Concatenator, and else by reading and writing them.
func Concatenate(ctx context.Context, store Store, key string, sources []Object) error {
	if c, ok := store.(Concatenator); ok {
		return c.Concatenate(ctx, key, sources)
	}
	body := Join(ctx, store, sources)
	defer body.Close()
	return store.Put(ctx, key, body)
}

// Getter reads objects: see Reader.
type Getter interface {
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
}

// Join reads objects one after the other as one body. Only one of them is open at a time. An object that has another size than its
// source says, as a listing told it, is an error of Read.
func Join(ctx context.Context, store Getter, sources []Object) io.ReadSeekCloser {
	return &joined{ctx: ctx, store: store, sources: sources}
}

type joined struct {
	ctx     context.Context
	store   Getter
	sources []Object

	at   int           // index of the source that is next read from
	from int64         // offset in it
	left int64         // bytes to come from body
	body io.ReadCloser // nil: none is open
}

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
			return 0, fmt.Errorf("read %s: its size is not the %d bytes it was listed with: %w", source.Key, source.Size, io.ErrUnexpectedEOF)
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
		return offset, nil // what is open stays so
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

// Close closes what is open; reading may go on after it.
func (j *joined) Close() error {
	if j.body == nil {
		return nil
	}
	body := j.body
	j.body = nil
	return body.Close()
}
