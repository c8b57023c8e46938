package remote

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Open asks a store for the bytes [offset, offset+length) of an object; length < 0 means to its end. version is that of
// an earlier answer: no other one must be answered. "" is any.
type Open func(ctx context.Context, version string, offset, length int64) (Answer, error)

// Answer is a part of an object.
type Answer struct {
	Body    io.ReadCloser
	Size    int64 // of the whole object, in bytes
	Version string
}

// Part makes an Answer of an HTTP response to a request for the bytes from offset on.
func Part(body io.ReadCloser, contentRange, version string, offset int64) (Answer, error) {
	size, err := sizeIn(contentRange, offset)
	if err != nil {
		_ = body.Close()
		return Answer{}, err
	}
	return Answer{body, size, version}, nil
}

// errNoRange is the error of a good answer to a request for a part of an object that is no part.
var errNoRange = errors.New("the server answered a request for a part of an object without Content-Range: it is not " +
	"the store, or a proxy before it changes answers; correct its address, or the proxy")

// ErrUndescribed is the error of a good answer about an object that does not describe it: who takes the object for an
// empty one, or for one of long ago, removes or overtakes what others use.
var ErrUndescribed = errors.New("the server does not tell the size of an object, or when it was stored: it, or a " +
	"proxy before it, leaves out headers")

// errReplaced says that a further part would be of another version of an object.
var errReplaced = fmt.Errorf("the object was replaced while it was being read: %w", os.ErrNotExist)

// weak begins a weak ETag, without the quote at its end: proxies that compress make them of others.
const weak = `W/"`

// IfMatch is the condition on a version that is an ETag; "" if there is none: no object matches a weak ETag.
func IfMatch(version string) string {
	if version == "" || strings.HasPrefix(version, weak) {
		return ""
	}
	return strconv.Quote(version)
}

// errPastEnd says that a range starts at or past the end of an object.
var errPastEnd = errors.New("the range starts at or past the end")

// OpenError is the error of Open after a response with an HTTP status. err is what the SDK returned, and mapped the
// driver's error for it, which stays unless the status has a meaning of its own here. err may be mapped already.
func OpenError(status int, err, mapped error) error {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		return errPastEnd
	case http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", errReplaced, err)
	}
	return mapped
}

// NewReader reads a range of an object: length bytes from offset on, all of the rest if length is negative. open
// requests a range. A download that breaks, stalls or ends early is continued by a further request. The error is that
// of the first request. HTTP has no empty range: for one, stat tells whether the object exists, and the error is that
// of stat. A negative offset counts as 0.
func NewReader(ctx context.Context, open Open, stat func() error, offset, length int64) (io.ReadCloser, error) {
	if length == 0 {
		if err := stat(); err != nil {
			return nil, err
		}
		return http.NoBody, nil
	}
	offset = max(offset, 0)
	if offset+length < offset {
		length = -1 // further than any object is long
	}
	r := &reader{ctx: ctx, open: open, offset: offset}
	var err error
	r.body, r.leftBytes, err = r.requestRange(length)
	if err != nil {
		return nil, err
	}
	return r, nil
}

type reader struct {
	ctx       context.Context
	open      Open
	version   string        // that the first request found
	body      io.ReadCloser // nil after a failure
	offset    int64         // of the next byte
	leftBytes int64         // bytes to deliver
	failures  int           // failures since the last byte
}

// requestRange asks for length bytes from r.offset on, all of the rest if length is negative, and returns the body and
// how many bytes there are. A range behind the object's end is empty.
func (r *reader) requestRange(length int64) (body io.ReadCloser, n int64, err error) {
	answer, err := r.open(r.ctx, r.version, r.offset, length)
	if errors.Is(err, errPastEnd) {
		return http.NoBody, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	before, now := strings.TrimPrefix(r.version, weak), strings.TrimPrefix(answer.Version, weak)
	if before != "" && now != "" && now != before { // the server knows no such conditions
		_ = answer.Body.Close()
		return nil, 0, errReplaced
	}
	r.version = answer.Version
	if n = max(answer.Size-r.offset, 0); length >= 0 {
		n = min(n, length)
	}
	return answer.Body, n, nil
}

// Read implements io.Reader. Where the connection breaks, it pauses and then requests the rest of the range, until that
// has failed too often in a row.
func (r *reader) Read(p []byte) (int, error) {
	if r.leftBytes == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.leftBytes {
		p = p[:r.leftBytes] // a store may send more than the range
	}
	for len(p) > 0 {
		if r.body == nil {
			if err := r.reopen(); err != nil {
				return 0, err
			}
		}
		n, err := r.body.Read(p)
		if n > 0 {
			r.failures = 0
			r.offset, r.leftBytes = r.offset+int64(n), r.leftBytes-int64(n)
			return n, nil // an error comes again with the next read
		}
		if err == nil {
			continue
		}
		_ = r.body.Close()
		r.body = nil
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err := r.pauseAfter(err); err != nil { // it has counted one more failure
			return 0, err
		}
	}
	return 0, nil
}

// reopen requests the bytes that are not read yet. If there are not as many as there should be, the object was replaced
// meanwhile, and that is an error.
func (r *reader) reopen() error {
	body, n, err := r.requestRange(r.leftBytes)
	if err != nil {
		return fmt.Errorf("continue reading at byte %d: %w", r.offset, err)
	}
	if n != r.leftBytes {
		_ = body.Close()
		return fmt.Errorf("continue reading at byte %d: %d bytes are left, want %d: %w", r.offset, n, r.leftBytes,
			io.ErrUnexpectedEOF)
	}
	r.body = body
	return nil
}

// pauseAfter counts a failure and waits before the next attempt.
func (r *reader) pauseAfter(cause error) error {
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	r.failures++
	if r.failures >= MaxAttempts {
		return fmt.Errorf("%d attempts: %w", r.failures, cause)
	}
	return backoff.Sleep(r.ctx, Delay(r.failures-1))
}

func (r *reader) Close() error {
	r.leftBytes = 0
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}

// Range writes the bytes [offset, offset+length) as HTTP does; length < 0 means to the end.
func Range(offset, length int64) string {
	if length < 0 {
		return fmt.Sprintf("%d-", offset)
	}
	return fmt.Sprintf("%d-%d", offset, offset+length-1)
}

// sizeIn returns the size of the whole object from the Content-Range ("bytes 0-9/100") of the answer to a request for
// the bytes from offset on. Content-Length is not used: proxies have been seen to get it wrong. At the end of an object
// Azurite answers with an empty range ("bytes 10-9/10").
func sizeIn(contentRange string, offset int64) (int64, error) {
	if contentRange == "" {
		return 0, errNoRange
	}
	_, total, _ := strings.Cut(contentRange, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < offset || !strings.HasPrefix(contentRange, fmt.Sprintf("bytes %d-", offset)) {
		return 0, fmt.Errorf("the server answered a request for the bytes from offset %d with Content-Range %q", offset,
			contentRange)
	}
	return size, nil
}

// Object is an object with the MD5 sum of its content; nil if the store does not tell it.
type Object struct {
	blob.Object
	MD5 []byte
}

// Lookup returns the object of a key from the first page of what is listed from the key on; err is that of the listing.
// If the store does not tell the MD5 sum, it is the ETag, as far as that may be one.
func Lookup(page []Object, key string, err error) (Object, error) {
	if err != nil {
		return Object{}, err
	}
	for _, o := range page {
		if o.Key != key {
			continue
		}
		if sum, err := hex.DecodeString(o.ETag); err == nil && o.MD5 == nil {
			o.MD5 = sum
		}
		return o, nil
	}
	return Object{}, os.ErrNotExist
}

// List lists a store page by page. page returns the objects and folders of one page, in any order, and the token of the
// next page, which is "" for the first page and after the last. Servers differ in whether a listing contains the key
// that it starts after, or a folder around it, and may list a folder on each page that has objects below it: List
// leaves these out. A server or proxy that does not understand the token returns the same page again and again: this is
// an error, not a listing without end.
func List(prefix string, opts blob.ListOptions,
	page func(token string) (objects []Object, next string, err error)) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		first, last := "", "" // keys: of the first page's first object, and of what was listed last
		for token := ""; ; {
			objects, next, err := page(token)
			slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
			if err == nil && token != "" && (next == token || len(objects) > 0 && objects[0].Key == first) {
				err = errRepeated
			}
			if err != nil {
				yield(blob.Object{}, fmt.Errorf("list %s: %w", prefix, err))
				return
			}
			if token == "" && len(objects) > 0 && !objects[0].Prefix { // a folder may be first on the next page, too
				first = objects[0].Key
			}
			for _, o := range objects {
				if !strings.HasPrefix(o.Key, prefix) {
					yield(blob.Object{}, fmt.Errorf("list %s: %w: %q", prefix, errElsewhere, o.Key))
					return
				}
				if o.Key <= opts.StartAfter || o.Key == last {
					continue
				}
				if last = o.Key; !yield(o.Object, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

// errElsewhere is the error of a listing with other keys than asked for: who lists to remove must not get them.
var errElsewhere = errors.New("the server lists a key that does not begin with what was asked for: it, or a proxy " +
	"before it, changes requests or keys")

var errRepeated = errors.New("the server gives the same page again when it is asked for the next one")
