package chunks

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// decompress returns the uncompressed bytes of r. The result must be closed, which returns its decoder to the pool; r
// stays open.
func decompress(r io.Reader, c layout.Compression) (io.ReadCloser, error) {
	switch c {
	case layout.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err // a nil *gzip.Reader in the interface would not be nil
		}
		return z, nil
	case layout.Zstd:
		z := zstdDecoders.Get().(*zstd.Decoder)
		if err := z.Reset(r); err != nil {
			zstdDecoders.Put(z)
			return nil, err
		}
		return &zstdReader{z}, nil
	}
	return io.NopCloser(r), nil
}

// maxWindow bounds the memory that a zstd chunk can ask for: collectors use 1 MiB, the zstd tool's usual levels up to 8
// MiB.
const maxWindow = 8 << 20

// zstdDecoders are pooled: each holds a window of up to some megabytes.
var zstdDecoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(err) // these options are valid
	}
	return z
}}

type zstdReader struct{ *zstd.Decoder }

func (r *zstdReader) Close() error {
	err := r.Reset(nil) // releases the object
	zstdDecoders.Put(r.Decoder)
	return err
}
