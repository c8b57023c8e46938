package s3

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Concatenate implements blob.Concatenator: large stretches of the sources are copied by the server, small ones are read and sent
// again, since S3 takes no parts below its minimum.
func (s *Store) Concatenate(ctx context.Context, key string, sources []blob.Object) error {
	if err := s.concatenate(ctx, key, sources); err != nil {
		return fmt.Errorf("concatenate %s: %w", key, err)
	}
	return nil
}

func (s *Store) concatenate(ctx context.Context, key string, sources []blob.Object) error {
	var size int64
	sizes := make([]int64, len(sources))
	versions := pinned{s, make(map[string]string, len(sources))}
	for i, source := range sources {
		sizes[i] = source.Size
		size += source.Size
		versions.etags[source.Key] = source.ETag
	}
	joined := blob.Join(ctx, versions, sources)
	defer joined.Close()
	if size <= uploadPart {
		return s.upload(ctx, key, joined, size, false)
	}
	m, err := s.startMultipart(ctx, key, size)
	if err != nil {
		return err
	}
	buffer := make([]byte, partSize(size, uploadPart))
	for _, part := range plan(sizes, partSize(size, minPart), int64(len(buffer)), min(partSize(size, copyPart), maxPart)) {
		if part.copied {
			err = m.copy(ctx, sources[part.source], part.from, part.size)
		} else {
			err = m.resend(ctx, joined, part, buffer)
		}
		if err != nil {
			break
		}
	}
	return m.finish(ctx, err, false)
}

// resend reads a part of the joined sources and sends it.
func (m *multipart) resend(ctx context.Context, joined io.ReadSeeker, part part, buffer []byte) error {
	if _, err := joined.Seek(part.position, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.ReadFull(joined, buffer[:part.size]); err != nil {
		return err
	}
	return m.send(ctx, buffer[:part.size])
}

// part is one of a whole that is made of sources.
type part struct {
	position, size int64 // in the whole
	// copied by the server from a single source, or else sent.
	copied bool
	source int
	from   int64
}

// plan cuts the concatenation of sources of the given sizes into parts. Every part but the last has at least least bytes; a sent one
// has at most mostSent, a copied one at most mostCopied.
func plan(sizes []int64, least, mostSent, mostCopied int64) []part {
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
		if n := sizes[i] - from; n >= least {
			p.copied = true
			take(min(n, mostCopied))
		}
		for !p.copied && i < len(sizes) && position-p.position < mostSent {
			n, sent := sizes[i]-from, position-p.position
			if n >= least {
				// The server can copy the rest of this source if no more of it is taken than this part needs.
				if n = least - sent; n <= 0 {
					break
				}
			}
			take(min(n, mostSent-sent))
		}
		p.size = position - p.position
		parts = append(parts, p)
	}
	return parts
}

// pinned reads objects in the versions they were listed in.
type pinned struct {
	*Store
	etags map[string]string // by key
}

// Get implements blob.Reader.
func (p pinned) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	etag, ok := p.etags[key]
	if !ok {
		return nil, os.ErrNotExist
	}
	return p.get(ctx, key, etag, offset, length)
}
