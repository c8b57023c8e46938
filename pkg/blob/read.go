package blob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/rayhistory/historyserver/internal/seekable"
)

// Getter reads objects.
type Getter interface {
	// Get opens the bytes [offset, offset+length) of an object, with the length ToEnd to its end. A range that starts
	// at or after the end is empty; one that goes beyond the end is cut. For an unknown key Get itself returns
	// os.ErrNotExist. Reading the body returns os.ErrNotExist if the object is replaced or removed meanwhile and its
	// rest cannot be read.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
}

// Body reads an object that was listed, as often as a store asks that is given it. The caller closes it. If the object
// does not have the size of the listing, Read returns an error.
func Body(ctx context.Context, store Getter, o Object) io.ReadSeekCloser {
	return seekable.New(o.Size, func(offset int64) (io.ReadCloser, error) {
		return store.Get(ctx, o.Key, offset, ToEnd)
	})
}

// ReadRange reads the bytes [offset, offset+length) of an object into memory. There are fewer if the object ends
// before, as when it was replaced by a shorter one since it was listed; that is no error.
func ReadRange(ctx context.Context, store Getter, key string, offset, length int64) ([]byte, error) {
	body, err := store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = body.Close() }()
	data := make([]byte, length)
	n, err := io.ReadFull(body, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data[:n], nil
}

// ErrMalformed says that an object is not what its key says.
var ErrMalformed = errors.New("malformed")

// ReadJSON decodes a small object of JSON into a variable. It reads at most limit bytes. If these are not valid JSON,
// the error wraps ErrMalformed, and the variable may have been changed.
func ReadJSON(ctx context.Context, store Getter, key string, limit int64, into any) error {
	body, err := store.Get(ctx, key, 0, limit)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(body) // most have some hundred bytes
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w: %w", key, ErrMalformed, err)
	}
	return nil
}

// IsDenied says that a store does not allow writing. A folder that is mounted read-only has an error of its own.
func IsDenied(err error) bool {
	return errors.Is(err, ErrPermission) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS)
}
