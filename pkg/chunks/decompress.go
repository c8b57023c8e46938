package chunks

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// decompress decompresses r. Closing the result does not close r.
func decompress(r io.Reader, c layout.Compression) (io.ReadCloser, error) {
	switch c {
	case layout.Gzip:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err // not a nil *gzip.Reader, which is no nil io.ReadCloser
		}
		return z, nil
	case layout.Zstd:
		z := zstdDecoders.Get().(*zstd.Decoder)
		return &zstdReader{z}, z.Reset(r)
	}
	return io.NopCloser(r), nil
}

// maxWindow bounds the memory that a zstd chunk can ask for: collectors use 1 MiB, the zstd tool's usual levels up to 8 MiB.
const maxWindow = 8 << 20

// zstdDecoders are pooled: each holds a window of up to some megabytes.
var zstdDecoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
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
