package remote

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// Refused makes the error of a request that the store refused.
func Refused(err error, format string, args ...any) error {
	return &blob.AccessError{Advice: fmt.Sprintf(format, args...), Err: err}
}

// maxSkew is how far clocks may differ: stores refuse requests from 5 or 15 minutes on.
const maxSkew = 5 * time.Minute

// WrongClock makes the error of a request that was refused because of its time. The header is the answer's.
func WrongClock(err error, header http.Header) error {
	off, known := clockSkew(header)
	if !known || off.Abs() < time.Minute {
		return Refused(err, "the store does not accept the time of requests: compare the clock of this machine with "+
			"the store's, and correct it")
	}
	return Refused(err, "%s", wrongClockText(off))
}

// RefusedOrWrongClock is Refused, unless this machine's clock is wrong by the answer's header: that makes signatures
// and tokens wrong, too.
func RefusedOrWrongClock(err error, header http.Header, format string, args ...any) error {
	if off, known := clockSkew(header); known && off.Abs() >= maxSkew {
		return Refused(err, "%s", wrongClockText(off))
	}
	return Refused(err, format, args...)
}

// NoBucket makes the error of a request to a bucket or container that does not exist; flag is the setting of its name.
func NoBucket(err error, bucket, flag string) error {
	return fmt.Errorf("%s does not exist: create it, let --storage-create-bucket create it, or correct --%s: %w", bucket,
		flag, err)
}

// Archived makes the error of reading an object that must be restored first.
func Archived(err error) error {
	return Refused(fmt.Errorf("%w: %w", blob.ErrArchived, err),
		"the object is archived in a storage class that cannot be read at once: restore it")
}

// Locked makes the error of a change or removal that a bucket's own rules forbid, whoever asks.
func Locked(err error, bucket string) error {
	return Refused(lockedError{err}, "a retention policy, lock or hold of %s keeps the object as it is: wait until it "+
		"ends, or change it", bucket)
}

// lockedError is the store's error in one of Locked.
type lockedError struct{ error }

func (e lockedError) Unwrap() error { return e.error }

func wrongClockText(off time.Duration) string {
	side := "ahead of"
	if off < 0 {
		side = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %s %s the store's: correct it", off.Abs().Round(time.Second), side)
}

// clockSkew is how far this machine's clock is ahead of the one of an answer.
func clockSkew(header http.Header) (off time.Duration, known bool) {
	at, err := http.ParseTime(header.Get("Date"))
	return time.Since(at), err == nil
}

// right matches the names of the rights to use keys that encrypt a bucket.
var right = regexp.MustCompile(`\bkms:[A-Za-z]+|\bcloudkms(?:\.[A-Za-z]+)+`)

// KeyRight returns the right to use an encryption key that a store's words name, or usual.
func KeyRight(message, usual string) string {
	if named := right.FindString(message); named != "" {
		return named
	}
	return usual
}

// unreachable is the error of a request for which no connection could be made.
type unreachable struct {
	dial *net.OpError
	err  error
}

func (e *unreachable) Error() string {
	return fmt.Sprintf("cannot connect to the store (%v): check its endpoint in the settings, and the network", e.dial)
}

func (e *unreachable) Unwrap() error { return e.err }

// Unanswered is the error of a request that the store did not answer; flag is the setting of its address. If no
// connection could be made, it says so and no more: SDKs say how often they tried. An address without a scheme means
// HTTPS, which the store may not speak.
func Unanswered(err error, flag string) error {
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return &unreachable{dial, err}
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fmt.Errorf("the store speaks HTTP, and was asked by HTTPS: write http:// before the address in --%s: %w",
			flag, http.ErrSchemeMismatch)
	}
	return err
}
