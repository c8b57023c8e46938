package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// digest is a hash of an answer without its volatile parts. It reads the answer once, token by token, so that its memory does not
// grow with the answer's size. What is not JSON is hashed as it is.
func digest(r io.ReadSeeker, v volatile) (string, error) {
	d := digester{hash: sha256.New(), volatile: v, in: json.NewDecoder(r)}
	d.in.UseNumber()
	err := d.value()
	if err == nil {
		if _, extra := d.in.Token(); extra != io.EOF {
			err = errNotJSON
		}
	}
	if err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) && !errors.Is(err, errNotJSON) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return "", err
		}
		d.hash.Reset()
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
		if _, err := io.Copy(d.hash, r); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(d.hash.Sum(nil)[:16]), nil
}

var errNotJSON = errors.New("not one JSON value")

type digester struct {
	hash     hash.Hash
	volatile volatile
	in       *json.Decoder
	silent   int // depth of volatile values around
}

// value hashes the next value.
func (d *digester) value() error {
	token, err := d.in.Token()
	if err != nil {
		return err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		d.put(token)
		return nil
	}
	d.put(token)
	for d.in.More() {
		skipped := false
		if delim == '{' {
			key, err := d.in.Token()
			if err != nil {
				return err
			}
			name, ok := key.(string)
			if !ok {
				return errNotJSON
			}
			if skipped = d.volatile.keys[name]; skipped {
				d.silent++
			}
			d.put(json.Delim(':'))
			d.put(name)
		}
		if err := d.value(); err != nil {
			return err
		}
		if skipped {
			d.silent--
		}
	}
	end, err := d.in.Token()
	if err != nil {
		return err
	}
	d.put(end)
	return nil
}

// put hashes a token with its type and length, so that no two rows of tokens look the same.
func (d *digester) put(token json.Token) {
	if d.silent > 0 {
		return
	}
	if s, ok := token.(string); ok && d.volatile.text != nil {
		token = d.volatile.text(s)
	}
	text := fmt.Sprint(token)
	fmt.Fprintf(d.hash, "%T %d ", token, len(text))
	_, _ = io.WriteString(d.hash, text)
}
