// Package blob is the interface of an object store: keys, bytes and listings.
//
// Package layout defines the keys. Drivers are packages below this one. Every driver, and every wrapper around a
// driver, passes the contract in package blobtest.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"
)

// Object describes a stored object.
type Object struct {
	Key     string
	Size    int64     // bytes
	ModTime time.Time // when it was written, by the store's clock
	// ETag changes whenever the content does; its form is the store's own.
	ETag string
	// Prefix marks a folder in a delimited listing: Key ends in "/", other fields are empty.
	Prefix bool
}

// ListOptions narrow a listing.
type ListOptions struct {
	// StartAfter leaves out this key and all keys before it.
	StartAfter string
	// Delimited lists everything below the next "/" after the prefix as one Object with Prefix set.
	Delimited bool
}

// Lister lists objects whose key starts with prefix, in ascending byte order of keys. The iterator requests one page at
// a time. The iteration ends after an error. It is not an error if there is nothing below the prefix.
type Lister interface {
	List(ctx context.Context, prefix string, opts ListOptions) iter.Seq2[Object, error]
}

// ToEnd is a length that is not limited.
const ToEnd = -1

// Reader is the half of a store that the history server needs.
type Reader interface {
	Lister
	Getter
	// Stat describes one object; an unknown key is os.ErrNotExist.
	Stat(ctx context.Context, key string) (Object, error)
}

// Creator is the part of a store that a collector needs. It can neither read, change nor delete stored objects.
type Creator interface {
	Lister
	// Create stores an object under a new key. If the key exists, it returns os.ErrExist and does not change the stored
	// object. The body is read from its start to its end for each attempt, so it must be seekable. Readers never see an
	// incomplete body. If a retry finds the same body under the key, the object counts as created: the answer to an
	// earlier attempt was lost.
	Create(ctx context.Context, key string, body io.ReadSeeker) error
}

// Store reads and writes objects.
type Store interface {
	Reader
	Creator
	// Put stores an object and replaces an existing one. Use it only for derived objects: an index, a compacted stream.
	Put(ctx context.Context, key string, body io.ReadSeeker) error
	// Delete removes an object; an unknown key is not an error.
	Delete(ctx context.Context, key string) error
}

// In every driver, the error for a missing object is os.ErrNotExist, and for an existing key os.ErrExist. Other errors
// that callers branch on:
var (
	// ErrPermission says that the credentials do not allow the operation, or that there are none. Errors that wrap it
	// name the permission to grant or the setting to change.
	ErrPermission = errors.New("permission denied")
	// ErrThrottled says that the store asks for fewer requests. It says nothing about the object.
	ErrThrottled = errors.New("throttled")
	// ErrTooLarge says that the store, or a proxy before it, refuses an object of this size. A smaller one may pass.
	ErrTooLarge = errors.New("too large")
	// ErrRefused says that the store refuses every object with this key, but accepts others.
	ErrRefused = errors.New("refused")
	// ErrArchived says that the store keeps this object where it cannot be read until somebody restores it. Others may
	// be read.
	ErrArchived = errors.New("archived")
)

// AccessError says why a store refused a request of these credentials, and what to do. It is an ErrPermission.
type AccessError struct {
	// Advice is the cause and what to do. It holds no secrets and none of the store's words.
	Advice string
	Err    error // the store's
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("%v: %s: %v", ErrPermission, e.Advice, e.Err)
}

func (e *AccessError) Unwrap() []error { return []error{ErrPermission, e.Err} }

// DeniedFor is how long a refusal counts.
const DeniedFor = time.Hour

// Denied remembers for an hour that a store does not allow writing, so that not each object is refused. Then writing is
// tried again: the right may have been granted, and credentials that could not be renewed for some minutes are refused
// as well. The zero value allows writing.
type Denied struct{ until atomic.Int64 }

// Set notes a refusal. first says that none counted before it, so it should be logged.
func (d *Denied) Set() (first bool) {
	now := time.Now()
	return d.until.Swap(now.Add(DeniedFor).UnixNano()) <= now.UnixNano()
}

// Holds reports whether writing was refused in the last hour.
func (d *Denied) Holds() bool { return time.Now().UnixNano() < d.until.Load() }
