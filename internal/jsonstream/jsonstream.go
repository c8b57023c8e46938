// Package jsonstream reads lists in JSON documents from outside one element at a time: what a document takes in memory
// depends on the bytes of an element, not on how many there are. An element of 3 bytes, such as {}, may take hundreds
// when it is decoded.
package jsonstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrMany says that a list has more elements than allowed.
	ErrMany = errors.New("the list is too long")
	// ErrLarge says that a value has more bytes than allowed.
	ErrLarge = errors.New("a value is too long")
)

// maxFields is among how many fields of an object one is looked for.
const maxFields = 1000

// Reader reads one document.
type Reader struct {
	d  *json.Decoder
	in *bounded
}

// New reads a document each of whose values has at most maxValue bytes.
func New(r io.Reader, maxValue int) *Reader {
	in := &bounded{r: r, max: maxValue, left: maxValue}
	return &Reader{json.NewDecoder(in), in}
}

// Enter reads into the object that comes next, up to the value of a field, which can be read next. Fields before it are
// skipped.
func (r *Reader) Enter(field string) error {
	if t, err := r.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(fmt.Errorf("no object that has %q", field), err)
	}
	for n := 0; r.More() && n < maxFields; n++ {
		name, err := r.Token()
		if err != nil {
			return err
		}
		if name == field {
			return nil
		}
		if err := r.Value(&ignored{}); err != nil {
			return err
		}
	}
	return fmt.Errorf("no field %q", field)
}

// Value decodes the value that comes next.
func (r *Reader) Value(into any) error {
	r.in.left = r.in.max
	return r.d.Decode(into)
}

// Each calls do for each element of the list that comes next. If there are more than max, it returns ErrMany after
// these. null counts as an empty list.
func Each[T any](r *Reader, max int, do func(T) error) error {
	switch t, err := r.Token(); {
	case err == nil && t == nil:
		return nil
	case err != nil || t != json.Delim('['):
		return errors.Join(errors.New("no list"), err)
	}
	for n := 0; r.More(); n++ {
		if n == max {
			return fmt.Errorf("%w: more than %d elements", ErrMany, max)
		}
		var element T
		if err := r.Value(&element); err != nil {
			return err
		}
		if err := do(element); err != nil {
			return err
		}
	}
	if t, err := r.Token(); err != nil || t != json.Delim(']') { // More is false after an error, too
		return errors.Join(errors.New("no end of the list"), err)
	}
	return nil
}

// Failed is the error with which the reader that the document comes from has ended; nil: none, or its end.
func (r *Reader) Failed() error { return r.in.failed }

// Offset is how many bytes were read of the document.
func (r *Reader) Offset() int64 { return r.d.InputOffset() }

// UseNumber makes tokens of numbers json.Number.
func (r *Reader) UseNumber() { r.d.UseNumber() }

// Token is the next token, as json.Decoder gives them.
func (r *Reader) Token() (json.Token, error) {
	r.in.left = r.in.max
	return r.d.Token()
}

// More says whether the object or list has another element. It may have to read for that, whatever the last one took.
func (r *Reader) More() bool {
	r.in.left = r.in.max
	return r.d.More()
}

// Values is how many values JSON, or a part of it, has at most besides the outermost: each begins after one of these
// characters, which may also be in texts.
func Values(text []byte) int {
	return bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte(","))
}

// Lenient decodes a document, or part of one. A field that has another type counts as missing.
func Lenient(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return nil
	}
	return err
}

// ignored is a value that nobody wants.
type ignored struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*ignored) UnmarshalJSON([]byte) error { return nil }

// bounded gives as many bytes as one value may have, since a value is decoded from memory.
type bounded struct {
	r         io.Reader
	max, left int
	failed    error // of r
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrLarge, b.max)
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	return n, err
}
