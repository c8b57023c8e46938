package jsonstream

import "io"

// Finite puts null in the place of NaN, Infinity and -Infinity, which Python writes and JSON lacks. The zero value is
// for the beginning of a document.
type Finite struct {
	inString, escaped bool // the next byte is in a string, and escaped by a backslash
	minus             bool // a minus sign is held back, because it may begin -Infinity
	word              bool // the next byte may be in NaN or Infinity, for which null was written
}

// Append appends the next part of a document to out, with null in the place of NaN and of both infinities. A part may
// end anywhere, also in such a word. Words are told apart by their first letters, and the rest of them is dropped. A
// minus sign is appended together with the byte behind it, because null takes the place of -Infinity's sign, too.
func (f *Finite) Append(out, part []byte) []byte {
	for _, c := range part {
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
			continue
		case c == '-':
			f.minus = true
			continue
		case c == 'N' || c == 'I': // no other word of JSON begins so
			out = append(out, "null"...)
			f.minus, f.word = false, true
			continue
		default:
			f.inString = c == '"'
		}
		if f.minus {
			out = append(out, '-')
		}
		f.minus, f.word = false, false
		out = append(out, c)
	}
	return out
}

// FromPython reads a document that Python may have written, as Finite makes it.
func FromPython(r io.Reader) io.Reader { return &fromPython{r: r} }

type fromPython struct {
	r      io.Reader
	finite Finite
	part   [4096]byte // what was read from r last
	out    []byte     // what finite made of it
	rest   []byte     // of out, not given yet
	err    error      // of r, returned once all that was read before it is given
}

// Read implements io.Reader. It fills into as far as there is data, because decoders look again at a value whenever
// they have got a part of it.
func (p *fromPython) Read(into []byte) (n int, err error) {
	for n < len(into) {
		if len(p.rest) == 0 {
			if p.err != nil {
				break
			}
			var read int
			read, p.err = p.r.Read(p.part[:])
			p.out = p.finite.Append(p.out[:0], p.part[:read])
			p.rest = p.out
		}
		copied := copy(into[n:], p.rest)
		n, p.rest = n+copied, p.rest[copied:]
	}
	if n == 0 && len(into) > 0 {
		return 0, p.err
	}
	return n, nil
}
