package logsearch

import (
	"bytes"
	"io"
)

// plain reads a text without the control sequences by which programs choose a terminal's colours and move its cursor
// (ECMA-48, CSI): people search for the words that they see, and a driver's log has colours before each line of a
// worker.
type plain struct {
	in io.Reader
	at place
}

// place is where the text that was read ends.
type place int

const (
	inText     place = iota
	behindESC        // an escape character
	inSequence       // its parameters, which bytes from 0x20 to 0x3f are; a letter ends it
)

// Read implements io.Reader.
func (r *plain) Read(p []byte) (int, error) {
	const escape = 0x1b
	n, err := r.in.Read(p)
	if r.at == inText && bytes.IndexByte(p[:n], escape) < 0 {
		return n, err
	}
	text := p[:0]
	for _, c := range p[:n] {
		switch {
		case c == escape:
			r.at = behindESC
		case r.at == behindESC && c == '[':
			r.at = inSequence
		case r.at == inSequence && c >= 0x20 && c <= 0x3f:
		case r.at == inSequence && c >= 0x40 && c <= 0x7e:
			r.at = inText
		default: // also what cannot be in a sequence, as the end of the line
			r.at = inText
			text = append(text, c)
		}
	}
	return len(text), err
}
