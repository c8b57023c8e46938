package ship

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// compressor compresses chunks one at a time, which bounds its memory: one encoder, however many chunks are under way.
type compressor struct {
	mu   sync.Mutex
	gzip *gzip.Writer
	zstd *zstd.Encoder
}

// zstdWindow is the maximum distance of a match, in bytes. A larger one gains little on logs and costs readers memory.
const zstdWindow = 1 << 20

func (c *compressor) compress(r io.Reader, how layout.Compression) (*bytes.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	w, err := c.writer(&out, how)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(w, r)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(out.Bytes()), nil
}

func (c *compressor) writer(out io.Writer, how layout.Compression) (io.WriteCloser, error) {
	if how == layout.Gzip {
		if c.gzip == nil {
			c.gzip = gzip.NewWriter(out)
		}
		c.gzip.Reset(out)
		return c.gzip, nil
	}
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindow))
		if err != nil {
			return nil, fmt.Errorf("make a zstd encoder: %w", err)
		}
	}
	c.zstd.Reset(out)
	return c.zstd, nil
}
