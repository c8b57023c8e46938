package remote

import (
	"bytes"
	"context"
	"io"
	"os"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Upload is an object that is being made of parts, in order.
type Upload interface {
	// Send makes the next part of these bytes. It does not keep them.
	Send(ctx context.Context, part []byte) error
	// Copy makes the next part of the bytes [from, from+n) of a stored object in the version it is listed in.
	Copy(ctx context.Context, source blob.Object, from, n int64) error
}

// Limits are what a store demands of parts, in bytes.
type Limits struct {
	Least  int64 // of every part but the last
	Sent   int64 // at most, of a part that is sent: it is held in memory
	Copied int64 // at most, of a part that the store copies
	Parts  int64 // at most, in number
}

// fit raises the sizes so that size bytes make no more parts than are allowed.
func (l Limits) fit(size int64) Limits {
	least := size/(l.Parts-1) + 1
	return Limits{Least: max(l.Least, least), Sent: max(l.Sent, least), Copied: max(l.Copied, least), Parts: l.Parts}
}

// SendAll makes parts of a body of the given size. Each part is held in memory: SDKs read one more than once, which a body that is
// itself a download should not suffer.
func SendAll(ctx context.Context, upload Upload, body io.Reader, size int64, limits Limits) error {
	buffer := make([]byte, min(size, limits.fit(size).Sent))
	for left := size; left > 0; {
		part := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(body, part); err != nil {
			return err
		}
		if err := upload.Send(ctx, part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	return nil
}

// Assemble makes parts of the sources: large stretches are copied by the store, small ones are read from it, by get, and sent.
func Assemble(ctx context.Context, upload Upload, get Get, sources []blob.Object, limits Limits) error {
	sizes := make([]int64, len(sources))
	var size int64
	for i, source := range sources {
		sizes[i] = source.Size
		size += source.Size
	}
	limits = limits.fit(size)
	joined := Join(ctx, get, sources)
	defer joined.Close()
	var buffer []byte
	for _, p := range plan(sizes, limits) {
		if p.copied {
			if err := upload.Copy(ctx, sources[p.source], p.from, p.size); err != nil {
				return err
			}
			continue
		}
		if buffer == nil {
			buffer = make([]byte, min(size, limits.Sent))
		}
		if _, err := joined.Seek(p.position, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.ReadFull(joined, buffer[:p.size]); err != nil {
			return err
		}
		if err := upload.Send(ctx, buffer[:p.size]); err != nil {
			return err
		}
	}
	return nil
}

// Concatenate makes an object of the sources: small ones are read into memory and sent as a whole, larger ones assembled of parts. A body
// that is read while it is sent could not be sent again after a lost answer, where what it replaced is one of its sources.
func Concatenate(ctx context.Context, get Get, sources []blob.Object, limits Limits,
	send func(whole io.ReadSeeker, size int64) error, assemble func(size int64) error) error {
	var size int64
	for _, source := range sources {
		size += source.Size
	}
	if size > limits.Sent {
		return assemble(size)
	}
	joined := Join(ctx, get, sources)
	defer joined.Close()
	whole, err := io.ReadAll(joined)
	if err != nil {
		return err
	}
	return send(bytes.NewReader(whole), size)
}

// part is one of a whole that is made of sources.
type part struct {
	position, size int64 // in the whole
	// copied by the store from a single source, or else sent.
	copied bool
	source int
	from   int64
}

// plan cuts the concatenation of sources of the given sizes into parts within limits.
func plan(sizes []int64, limits Limits) []part {
	var parts []part
	position, i, from := int64(0), 0, int64(0)
	take := func(n int64) {
		position, from = position+n, from+n
		for i < len(sizes) && from == sizes[i] {
			i, from = i+1, 0
		}
	}
	take(0) // over empty sources
	for i < len(sizes) {
		p := part{position: position, source: i, from: from}
		if n := sizes[i] - from; n >= limits.Least {
			p.copied = true
			take(min(n, limits.Copied))
		}
		for !p.copied && i < len(sizes) && position-p.position < limits.Sent {
			n, sent := sizes[i]-from, position-p.position
			if n >= limits.Least {
				// The store can copy the rest of this source if no more of it is taken than this part needs.
				if n = limits.Least - sent; n <= 0 {
					break
				}
			}
			take(min(n, limits.Sent-sent))
		}
		p.size = position - p.position
		parts = append(parts, p)
	}
	return parts
}

// Get reads a range of the version of an object that etag names.
type Get func(ctx context.Context, key, etag string, offset, length int64) (io.ReadCloser, error)

// Join reads objects as one body, each in the version it is listed in.
func Join(ctx context.Context, get Get, sources []blob.Object) io.ReadSeekCloser {
	etags := make(map[string]string, len(sources))
	for _, source := range sources {
		etags[source.Key] = source.ETag
	}
	return blob.Join(ctx, pinned{get, etags}, sources)
}

type pinned struct {
	get   Get
	etags map[string]string // by key
}

func (p pinned) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	etag, ok := p.etags[key]
	if !ok {
		return nil, os.ErrNotExist
	}
	return p.get(ctx, key, etag, offset, length)
}
