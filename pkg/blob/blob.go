// Package blob is what the collector and the history server know of an object store: keys, bytes and listings.
//
// What keys mean is package layout's business. Drivers live in packages below this one; every driver and every wrapper around one
// passes the contract in package blobtest.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Object is what a listing tells of a stored object.
type Object struct {
	Key     string
	Size    int64     // bytes
	ModTime time.Time // when the store says it was written
	// ETag changes whenever the content does; its form is the store's own.
	ETag string
	// Prefix marks a folder in a listing by delimiter: Key ends in "/", the rest is empty.
	Prefix bool
}

// ListOptions narrow a listing.
type ListOptions struct {
	// StartAfter leaves out keys up to and including it.
	StartAfter string
	// Delimited folds everything below the next "/" after the prefix into one Object with Prefix set.
	Delimited bool
}

// Lister lists objects whose key starts with prefix, in ascending byte order of keys, a page at a time behind the iterator.
// After an error the iteration ends. Nothing below a prefix is not an error.
type Lister interface {
	List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error]
}

// Reader is the half of a store that the history server needs.
type Reader interface {
	Lister
	// Get opens the bytes [offset, offset+length) of an object; length < 0 means to its end. A range that starts at or past the end
	// is empty, one that reaches past it is cut. An unknown key is os.ErrNotExist, said by Get itself.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Stat tells of one object; an unknown key is os.ErrNotExist.
	Stat(ctx context.Context, key string) (Object, error)
}

// Creator is all a collector needs: it can neither read, change nor delete what is stored.
type Creator interface {
	Lister
	// Create stores an object under a key that is not taken; where it is, os.ErrExist and the stored object is untouched. The body
	// is read from its start to its end, again for each retry, so it must be seekable. Never is a part of a body visible. A retry
	// that finds this very body under the key counts it as created: the answer to an attempt before it was lost.
	Create(ctx context.Context, key string, body io.ReadSeeker) error
}

// Store is the whole.
type Store interface {
	Reader
	Creator
	// Put stores an object, replacing what was there. For derived objects only (an index, a compacted whole).
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	// Delete removes an object; an unknown key is not an error.
	Delete(ctx context.Context, key string) error
}

// Missing objects are os.ErrNotExist, taken keys os.ErrExist, in every driver. The other errors that callers branch on:
var (
	// ErrPermission: the credentials do not allow the operation. Errors carrying it name the permission to grant.
	ErrPermission = errors.New("permission denied")
	// ErrThrottled: the store asked for fewer requests.
	ErrThrottled = errors.New("throttled")
)
