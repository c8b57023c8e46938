package blob

import (
	"context"
	"fmt"
	"io"
)

// ReadOnly gives a store that refuses every write with ErrPermission.
func ReadOnly(store Reader) Store { return readOnly{store} }

type readOnly struct{ Reader }

func (readOnly) Create(_ context.Context, key string, _ io.ReadSeeker) error {
	return refuse("create", key)
}

func (readOnly) Put(_ context.Context, key string, _ io.ReadSeeker) error { return refuse("put", key) }

func (readOnly) Delete(_ context.Context, key string) error { return refuse("delete", key) }

func refuse(what, key string) error {
	return fmt.Errorf("%s %s: %w: the store is open for reading only", what, key, ErrPermission)
}
