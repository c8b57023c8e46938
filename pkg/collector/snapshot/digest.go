package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
)

// digest returns a hash of an answer without its volatile parts and regardless of the order of an object's members,
// since Ray's order changes. It reads token by token, so its memory does not grow with the answer. Text that is not
// JSON is hashed as it is. An answer beyond the bounds of package answer is an *answer.Refusal.
func digest(r io.ReadSeeker, v volatile) (string, error) {
	d := digester{volatile: v, in: answer.NewReader(r)}
	sum, err := d.hashValue()
	if err == nil {
		if _, extra := d.in.Token(); extra != io.EOF {
			err = errNotJSON
		}
	}
	if err != nil {
		if !errors.As(err, new(*json.SyntaxError)) && !errors.Is(err, errNotJSON) && !errors.Is(err, io.EOF) &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			return "", err
		}
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return "", err
		}
		text := fnv.New64a()
		if _, err := io.Copy(text, r); err != nil {
			return "", err
		}
		const textNotJSON = 1 // so that it differs from the string of JSON with this text
		sum = mixHashes(text.Sum64(), textNotJSON)
	}
	return strconv.FormatUint(sum, 16), nil
}

var errNotJSON = errors.New("not one JSON value")

type digester struct {
	volatile volatile
	in       *answer.Reader
}

// hashValue hashes the next value. It is recursive; the reader bounds the depth.
func (d *digester) hashValue() (uint64, error) {
	token, err := d.in.Token()
	if err != nil {
		return 0, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return d.hashToken(token), nil
	}
	sum := uint64(delim)
	for d.in.More() {
		name := ""
		if delim == '{' {
			key, err := d.in.Token()
			if err != nil {
				return 0, err
			}
			if name, ok = key.(string); !ok {
				return 0, errNotJSON
			}
		}
		element, err := d.hashValue()
		if err != nil {
			return 0, err
		}
		switch {
		case delim == '[':
			sum = mixHashes(sum, element)
		case d.volatile.keys[name]: // its value does not count
			sum += d.hashToken(name)
		default:
			sum += mixHashes(d.hashToken(name), element) // a sum does not depend on the order
		}
	}
	if _, err := d.in.Token(); err != nil {
		return 0, err
	}
	return mixHashes(sum, uint64(delim)), nil
}

// hashToken hashes a token with its type.
func (d *digester) hashToken(token json.Token) uint64 {
	if s, ok := token.(string); ok && d.volatile.text != nil {
		token = d.volatile.text(s)
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%T %v", token, token)
	return mixHashes(h.Sum64(), 0)
}

// mixHashes combines two hashes, in this order. The constants are those of splitmix64.
func mixHashes(a, b uint64) uint64 {
	x := a + 0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
