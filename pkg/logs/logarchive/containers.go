package logarchive

import (
	"archive/tar"
	"archive/zip"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// zipFiles are the files of a zip archive.
type zipFiles struct{ *zip.Writer }

func beginZip(w io.Writer) (container, error) {
	archive := zip.NewWriter(w)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser,
		error) {
		return flate.NewWriter(w, flate.BestSpeed)
	})
	return zipFiles{archive}, nil
}

func (z zipFiles) nextFile(name string, _ int64) (io.Writer, error) {
	return z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
}

// tarFiles are the files of a .tar.zst archive. A file's size stands before its bytes: what is missing of them is
// filled with zeros.
type tarFiles struct {
	tar     *tar.Writer
	zstd    *zstd.Encoder
	missing int64 // of the current file
}

// zstdWindow bounds what compression looks back at, and with it its memory, in bytes.
const zstdWindow = 1 << 20

// beginTar begins a tar archive, compressed with zstd.
func beginTar(w io.Writer) (container, error) {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		return nil, err
	}
	return &tarFiles{tar: tar.NewWriter(z), zstd: z}, nil
}

func (t *tarFiles) nextFile(name string, size int64) (io.Writer, error) {
	if err := t.endFile(); err != nil {
		return nil, err
	}
	t.missing = size
	return t, t.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644})
}

func (t *tarFiles) Write(p []byte) (int, error) {
	n, err := t.tar.Write(p)
	t.missing -= int64(n)
	return n, err
}

func (t *tarFiles) endFile() error {
	var zeros [32 << 10]byte
	for t.missing > 0 {
		if _, err := t.Write(zeros[:min(t.missing, int64(len(zeros)))]); err != nil {
			return err
		}
	}
	return nil
}

func (t *tarFiles) Close() error { return errors.Join(t.endFile(), t.tar.Close(), t.zstd.Close()) }
