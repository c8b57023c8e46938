package remote

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// Writer is the half of a driver that creates and puts objects: small ones by one request, large ones in parts.
type Writer struct {
	one        One
	parts      Parts
	find       Find
	conditions *Conditions
}

// One sends a body by one request, create-only if absent is set. attempts is how often it was sent.
type One func(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) (attempts int, err error)

// Parts sends a body part by part, create-only if absent is set.
type Parts func(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) error

// Find describes the object under a key; os.ErrNotExist: there is none.
type Find func(ctx context.Context, key string) (Object, error)

// NewWriter makes a Writer. parts is nil if one sends large objects, too; conditions are nil for a service that honours
// them.
func NewWriter(one One, parts Parts, find Find, conditions *Conditions) Writer {
	return Writer{one, parts, find, conditions}
}

// Create implements blob.Creator.
func (w *Writer) Create(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer Name(&err, "create", key)
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	write := func(absent bool) error { return w.write(ctx, key, body, size, absent) }
	state := honoured
	if w.conditions != nil {
		state = w.conditions.state.Load()
	}
	if state == honoured {
		return write(true)
	}
	if _, err := w.find(ctx, key); err == nil {
		return os.ErrExist
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if state == ignored {
		return write(false) // the server would ignore the condition
	}
	err = write(true)
	switch {
	case errors.Is(err, os.ErrExist):
		w.conditions.state.Store(honoured)
	case err != nil && w.conditions.Unknown != nil && w.conditions.Unknown(err):
		w.conditions.ignore()
		return write(false)
	case err == nil && size <= probeSize:
		// Unlike write this says os.ErrExist also if it finds its own object.
		_, again := w.one(ctx, key, body, size, true)
		w.conditions.probed(taken(again, true))
	}
	return err
}

// Put implements blob.Store.
func (w *Writer) Put(ctx context.Context, key string, body io.ReadSeeker) (err error) {
	defer Name(&err, "put", key)
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return w.write(ctx, key, body, size, false)
}

// write sends the body, create-only if absent is set. That an object exists is then no error if an earlier attempt of
// this write stored it and only the answer was lost. The body may have been read before, by a write that failed.
func (w *Writer) write(ctx context.Context, key string, body io.ReadSeeker, size int64, absent bool) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if w.parts != nil && inParts(size, absent) {
		return taken(w.parts(ctx, key, body, size, absent), absent)
	}
	attempts, err := w.one(ctx, key, body, size, absent)
	err = taken(err, absent)
	if attempts < 2 || !errors.Is(err, os.ErrExist) {
		return err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := md5.New() // as stores have it of an object
	if _, err := io.Copy(sum, body); err != nil {
		return err
	}
	if w.Holds(ctx, key, size, sum.Sum(nil)) {
		return nil
	}
	return err
}

// taken is the error of a write. Locks keep what is there, and a store may look at them before it looks at conditions:
// a key that must be free is not.
func taken(err error, absent bool) error {
	if absent && errors.As(err, new(lockedError)) {
		return os.ErrExist
	}
	return err
}

// Holds says whether the object under key has this size and MD5 sum.
func (w *Writer) Holds(ctx context.Context, key string, size int64, sum []byte) bool {
	o, err := w.find(ctx, key)
	return err == nil && o.Size == size && bytes.Equal(o.MD5, sum)
}

// FinishParts completes an upload whose parts were sent. If that or sending them (err) fails, it aborts the upload,
// which would be kept, and paid for, until a lifecycle rule ends it.
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

// SendParts sends a body of the given size part by part. Each part is held in memory while it is sent: SDKs read a part
// more than once, which a body that is itself a download should not suffer. send must not keep the part.
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

// probed takes the result of repeating a write that just succeeded. Any other than these two says nothing about the
// server.
func (c *Conditions) probed(err error) {
	switch {
	case err == nil:
		c.ignore()
	case errors.Is(err, os.ErrExist):
		c.state.Store(honoured)
	}
}

func (c *Conditions) ignore() {
	if c.state.Swap(ignored) != ignored {
		c.Warn()
	}
}

// Deleted is the error of deleting an object. That there is none is no error.
func Deleted(err error, key string) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	Name(&err, "delete", key)
	return err
}

// Name puts what was done, and with which key, before an error. It is for a deferred call.
func Name(err *error, operation, key string) {
	if *err != nil {
		*err = fmt.Errorf("%s %s: %w", operation, key, *err)
	}
}
