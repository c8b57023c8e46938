package remote

import (
	"crypto/md5"
	"io"
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

// MD5 reads a whole body from its start: what stores keep of an object to recognise it by.
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
