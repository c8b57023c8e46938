package reply

import (
	"net/http"
	"strings"
)

// Finite writes JSON for browsers, which do not know the NaN, Infinity and -Infinity that Python writes: they get null instead. What is no JSON
// passes as it is.
type Finite struct {
	http.ResponseWriter

	begun, json       bool
	inString, escaped bool
	minus             bool // a minus sign is held back: it may begin -Infinity
	word              bool // within one of the words, null was written for it
	out               []byte
}

// Unwrap is for http.ResponseController.
func (f *Finite) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader leaves the length out: it may change.
func (f *Finite) WriteHeader(status int) {
	f.begun = true
	if f.json = strings.HasPrefix(f.Header().Get("Content-Type"), "application/json"); f.json {
		f.Header().Del("Content-Length")
	}
	f.ResponseWriter.WriteHeader(status)
}

// Write writes a part of an answer.
func (f *Finite) Write(p []byte) (int, error) {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
	if !f.json {
		return f.ResponseWriter.Write(p)
	}
	f.out = f.out[:0]
	for _, c := range p {
		f.add(c)
	}
	if _, err := f.ResponseWriter.Write(f.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *Finite) add(c byte) {
	switch {
	case f.inString:
		switch {
		case f.escaped:
			f.escaped = false
		case c == '\\':
			f.escaped = true
		case c == '"':
			f.inString = false
		}
	case f.word && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'):
		return
	case c == '-':
		f.minus = true
		return
	case c == 'N' || c == 'I': // no other word of JSON begins so
		f.out = append(f.out, "null"...)
		f.minus, f.word = false, true
		return
	default:
		f.inString = c == '"'
	}
	if f.minus {
		f.out = append(f.out, '-')
	}
	f.minus, f.word = false, false
	f.out = append(f.out, c)
}
