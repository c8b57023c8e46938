package remote

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Writer is the half of a driver that creates and puts objects: small ones by one request, large ones in parts.
type Writer struct {
	putOne     One
	putParts   Parts
	find       Find
	conditions *Conditions
}

// One sends a body of size bytes by one request; with createOnly only if there is no object under the key yet. attempts
// is how often the request was sent.
type One func(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) (attempts int,
	err error)

// Parts sends a body part by part; with createOnly only if there is no object under the key yet.
type Parts func(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) error

// Find describes the object under a key; os.ErrNotExist: there is none.
type Find func(ctx context.Context, key string) (Object, error)

// NewWriter makes a Writer. parts is nil if one sends large objects, too; conditions are nil for a service that honours
// them.
func NewWriter(one One, parts Parts, find Find, conditions *Conditions) Writer {
	return Writer{one, parts, find, conditions}
}

// Create implements blob.Creator. Not every server honours the condition that there is no object yet. Until it is known
// whether this one does, Create looks first whether there is one, and finds out by its writes. Without w.conditions the
// service is known to honour it.
func (w *Writer) Create(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer NameError(&err, "create", key)
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	const mustBeNew, mayReplace = true, false
	create := func() error { return w.writeBody(ctx, key, body, size, mustBeNew) }
	replace := func() error { return w.writeBody(ctx, key, body, size, mayReplace) }
	state := honoured
	if w.conditions != nil {
		state = w.conditions.state.Load()
	}
	if state == honoured {
		return create()
	}
	if _, err := w.find(ctx, key); err == nil {
		return os.ErrExist
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if state == ignored {
		return replace() // the server would ignore the condition
	}
	err = create()
	switch {
	case errors.Is(err, os.ErrExist) && !isBroken(err): // else the server has not said that it refuses it
		w.conditions.state.Store(honoured)
	case err != nil && w.conditions.Unknown != nil && w.conditions.Unknown(err):
		w.conditions.ignoreConditions()
		return replace()
	case err == nil && size <= probeSize:
		// The object is there now. A server that honours the condition must refuse to create it again. Unlike
		// writeBody, putOne returns os.ErrExist also for an object that this writer stored.
		_, secondErr := w.putOne(ctx, key, body, size, mustBeNew)
		switch secondErr = existsIfLocked(secondErr, mustBeNew); { // other errors say nothing about the server
		case secondErr == nil:
			w.conditions.ignoreConditions()
		case errors.Is(secondErr, os.ErrExist):
			w.conditions.state.Store(honoured)
		}
	}
	return err
}

func (w *Writer) Put(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer NameError(&err, "put", key)
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return w.writeBody(ctx, key, body, size, false)
}

// writeBody sends the body, of size bytes, by one request or in parts; with createOnly only if there is no object under
// the key yet. If an attempt stored the object and its answer was lost, a further attempt is told that it exists, or
// finds its connection broken: then an object with the same size and MD5 sum counts as success. It reads the body from
// its beginning.
func (w *Writer) writeBody(ctx context.Context, key string, body io.ReadSeeker, size int64, createOnly bool) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if w.putParts != nil && inParts(size, createOnly) {
		return existsIfLocked(w.putParts(ctx, key, body, size, createOnly), createOnly)
	}
	attempts, err := w.putOne(ctx, key, body, size, createOnly)
	err = existsIfLocked(err, createOnly)
	if attempts < 2 || !errors.Is(err, os.ErrExist) && !(createOnly && isBroken(err)) {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := md5.New() // as stores have it of an object
	if _, err := io.Copy(sum, body); err != nil {
		return err
	}
	o, findErr := w.find(ctx, key)
	switch {
	case findErr != nil:
		return err
	case o.Size == size && bytes.Equal(o.MD5, sum.Sum(nil)):
		return nil
	case errors.Is(err, os.ErrExist):
		return err
	}
	return fmt.Errorf("%w: %w", os.ErrExist, err)
}

// isBroken says whether a request failed because its connection ended. A server that refuses a large object before it
// has read it closes the connection, and then its answer, that there is one already, may be lost with each attempt.
func isBroken(err error) bool {
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		return operation.Op != "dial" && !operation.Timeout()
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// existsIfLocked returns os.ErrExist if a create-only write failed because of a lock of the object: locks keep what is
// there, and a store may look at them before it looks at conditions. Other errors, and those of other writes, stay.
func existsIfLocked(err error, createOnly bool) error {
	if createOnly && errors.As(err, new(lockedError)) {
		return os.ErrExist
	}
	return err
}

// Holds says whether the object under key has this size and MD5 sum.
func (w *Writer) Holds(ctx context.Context, key string, size int64, sum []byte) bool {
	o, err := w.find(ctx, key)
	return err == nil && o.Size == size && bytes.Equal(o.MD5, sum)
}

// FinishParts completes an upload whose parts were sent; err is the error of sending them, or nil. If sending or
// completing failed, it aborts the upload, whose parts would otherwise be kept, and paid for, until a lifecycle rule
// ends it, and returns the error.
func FinishParts(ctx context.Context, log logrus.FieldLogger, err error, complete func() error,
	abort func(context.Context) error) error {
	if err == nil {
		err = complete()
	}
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if abortErr := abort(ctx); abortErr != nil {
		log.WithError(abortErr).Debug("cannot abort a multipart upload; the bucket's lifecycle rule must remove it")
	}
	return err
}

const (
	// leastPart is how many bytes a part of an object has, unless that makes too many parts.
	leastPart = 16 << 20
	// maxCreate is the size in bytes up to which an object is created by one request, which needs the fewest rights.
	maxCreate = 64 << 20
	// maxParts is how many parts S3 and OSS allow; Azure allows more.
	maxParts = 10_000
)

// inParts says whether an object of this size is sent in parts. Large objects are, so that a broken connection costs
// one part, not all. An object that may replace another is whenever it has more than one part: its body may come from
// the object that it replaces, and then cannot be read again after a lost answer.
func inParts(size int64, createOnly bool) bool {
	if createOnly {
		return size > maxCreate
	}
	return size > leastPart
}

// SendParts reads a body of the given size part by part, and calls send with each. A part is held in memory while it is
// sent, because SDKs read a part more than once, which a body that is itself a download should not suffer. send must
// not keep the part after it returns.
func SendParts(body io.Reader, size int64, send func(part []byte) error) error {
	buffer := make([]byte, min(size, partSize(size)))
	for left := size; left > 0; {
		part := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(body, part); err != nil {
			return err
		}
		if err := send(part); err != nil {
			return err
		}
		left -= int64(len(part))
	}
	return nil
}

// partSize is large enough for an object of this size to have no more parts than are allowed.
func partSize(size int64) int64 { return max(leastPart, (size+maxParts-1)/maxParts) }

// BodyError is the error of a body that cannot be read. Sending the request again does not help.
type BodyError struct{ error }

// NonRetriable keeps the Azure SDK from sending the request again.
func (BodyError) NonRetriable() {}

func (e BodyError) Unwrap() error { return e.error }

// Body makes BodyErrors of a body's errors.
func Body(body io.ReadSeeker) io.ReadSeeker { return markedBody{body} }

type markedBody struct{ body io.ReadSeeker }

func (m markedBody) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = BodyError{err}
	}
	return n, err
}

func (m markedBody) Seek(offset int64, whence int) (int64, error) {
	position, err := m.body.Seek(offset, whence)
	if err != nil {
		err = BodyError{err}
	}
	return position, err
}

// probeSize is the size in bytes up to which an object is sent twice to learn whether the server honours conditions.
const probeSize = 1 << 20

// Conditions remembers whether a server honours create-only writes. Some servers ignore the condition and overwrite. So
// until the server is known, keys are looked up first, and the first small object is sent a second time, which must be
// refused. If the server ignores conditions, keys are always looked up first: safe as long as one process writes a key,
// as collectors do.
type Conditions struct {
	// Warn is called once if the server ignores conditions.
	Warn func()
	// Unknown, unless nil, says whether an error means that the server does not know conditions.
	Unknown func(error) bool

	state atomic.Int32
}

const (
	unknown int32 = iota
	honoured
	ignored
)

func (c *Conditions) ignoreConditions() {
	if c.state.Swap(ignored) != ignored {
		c.Warn()
	}
}

// Deleted is the error of deleting an object. That there is none is no error.
func Deleted(err error, key string) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	NameError(&err, "delete", key)
	return err
}

// NameError puts what was done, and with which key, before an error; nil stays nil. It is for a deferred call.
func NameError(err *error, operation, key string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", operation, key, *err)
	}
}
