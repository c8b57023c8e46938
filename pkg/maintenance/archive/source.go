package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// source is an archive that is read twice.
type source struct {
	first io.Reader
	again func() (io.Reader, error) // reads the same from the beginning
	close func()
}

// newSource returns a source that reads r twice. If r can be read only once, the first reading copies it to a temporary
// file.
func newSource(r io.Reader, opts Options) (*source, error) {
	if file, ok := r.(io.ReadSeeker); ok {
		if begin, err := file.Seek(0, io.SeekCurrent); err == nil { // a pipe fails here
			again := func() (io.Reader, error) {
				_, err := file.Seek(begin, io.SeekStart)
				return file, err
			}
			return &source{first: file, again: again, close: func() {}}, nil
		}
	}
	file, err := tempfile.Create()
	if err != nil {
		return nil, err
	}
	// Data that cannot be compressed becomes a little longer. max is for a sum that overflows.
	limit := max(opts.MaxBytes, opts.MaxBytes+opts.MaxBytes/8+inMemory)
	again := func() (io.Reader, error) {
		_, err := file.Seek(0, io.SeekStart)
		return file, err
	}
	copied := io.TeeReader(io.LimitReader(r, limit), file)
	return &source{first: copied, again: again, close: func() { _ = file.Close() }}, nil
}

// buffer copies the entry to memory or a temporary file, so that it can be read several times, as stores require: they
// read a body from its start, wherever it stands. closeBody removes the file.
func (i *importer) buffer(size int64) (body io.ReadSeeker, closeBody func(), err error) {
	if size <= inMemory {
		data := make([]byte, size)
		_, err := io.ReadFull(i.in, data)
		return bytes.NewReader(data), func() {}, err
	}
	file, err := tempfile.Create()
	if err != nil {
		return nil, nil, err
	}
	if _, err := io.CopyN(file, i.in, size); err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, func() { _ = file.Close() }, nil
}

// sameContent says whether the stored object has the content that body reads. An error is that of one of them.
func (i *importer) sameContent(key string, body io.Reader) (bool, error) {
	stored, err := i.opts.Store.Get(i.ctx, key, 0, blob.ToEnd)
	if err != nil {
		return false, fmt.Errorf("compare with what is stored: %w", err)
	}
	defer func() { _ = stored.Close() }()
	const block = 64 << 10
	left, right := make([]byte, block), make([]byte, block)
	for {
		n, err := io.ReadFull(stored, left)
		m, bodyErr := io.ReadFull(body, right)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !ended:
			return false, err
		case bodyErr != nil && !errors.Is(bodyErr, io.EOF) && !errors.Is(bodyErr, io.ErrUnexpectedEOF):
			return false, bodyErr
		case !bytes.Equal(left[:n], right[:m]):
			return false, nil
		case ended:
			return true, nil
		}
	}
}
