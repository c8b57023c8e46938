package remote

import (
	"crypto/md5"
	"errors"
	"io"
	"os"
)

// Size measures a body and goes back to its start.
func Size(body io.ReadSeeker) (int64, error) {
	size, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = body.Seek(0, io.SeekStart)
	return size, err
}

// MD5 is the sum of a body, read from its start. Stores keep the same sum of an object.
func MD5(body io.ReadSeeker) ([md5.Size]byte, error) {
	var sum [md5.Size]byte
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return sum, err
	}
	hash := md5.New()
	if _, err := io.Copy(hash, body); err != nil {
		return sum, err
	}
	return [md5.Size]byte(hash.Sum(nil)), nil
}

// AcceptOwnWrite turns the os.ErrExist of a create-only write (err) into success if an earlier attempt of the same
// write stored the object and its answer was lost. holds says whether the key has an object of the body's size and MD5
// sum.
func AcceptOwnWrite(err error, attempts int, body io.ReadSeeker, holds func(sum []byte) bool) error {
	if attempts < 2 || !errors.Is(err, os.ErrExist) {
		return err
	}
	sum, sumErr := MD5(body)
	if sumErr != nil {
		return sumErr
	}
	if holds(sum[:]) {
		return nil
	}
	return err
}

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
