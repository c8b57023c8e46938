package logsearch

import (
	"bytes"
	"io"
)

// plain reads a text without the control sequences by which programs choose a terminal's colours, move its cursor (CSI
// of ECMA-48), and give its window a title or its text links (OSC): people search for the words that they see, and a
// driver's log has colours before each line of a worker.
type plain struct {
	in    io.Reader
	count func(bytes int) error // is told of each read of in; its error is returned
	at    place
}

// place is where the text that was read ends.
type place int

const (
	inText     place = iota
	behindESC        // an escape character
	inSequence       // its parameters, which bytes from 0x20 to 0x3f are; a letter ends it
	inTitle          // a title or an address; a bell, an escape character or the end of the line ends it
)

// Read implements io.Reader.
func (r *plain) Read(p []byte) (int, error) {
	const escape, bell = 0x1b, 0x07
	n, err := r.in.Read(p)
	if stop := r.count(n); stop != nil {
		return 0, stop
	}
	text := p[:0]
	for rest := p[:n]; len(rest) > 0; rest = rest[1:] {
		if r.at == inText { // as a whole, because byte by byte it would take longer than the search
			n := bytes.IndexByte(rest, escape)
			if n < 0 {
				n = len(rest)
			}
			text = append(text, rest[:n]...)
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
		switch c := rest[0]; {
		case c == escape:
			r.at = behindESC
		case r.at == behindESC && c == '[':
			r.at = inSequence
		case r.at == behindESC && c == ']':
			r.at = inTitle
		case r.at == inTitle && c != bell && c != '\n':
		case r.at == inSequence && c >= 0x20 && c <= 0x3f:
		case r.at == inSequence && c >= 0x40 && c <= 0x7e, r.at == inTitle && c == bell, r.at == behindESC && c == '\\':
			r.at = inText
		default: // also what cannot be in a sequence, as the end of the line
			r.at = inText
			text = append(text, c)
		}
	}
	return len(text), err
}
