// Package lines takes text apart into lines while it is written.
package lines

import "bytes"

// Writer calls Line for each whole line written to it, and skips lines of more than Max bytes.
type Writer struct {
	Max int
	// Line gets a line with its line end, which is valid until it returns, and how many bytes were written up to there.
	// Its error ends the writing.
	Line func(line []byte, end int64) error

	rest []byte // of the line that is not whole yet
	long bool   // that line is too long
	pos  int64
}

// Write implements io.Writer. The beginning of a line is held until its rest is written.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i+1]
		}
		p = p[len(part):]
		w.pos += int64(len(part))
		if w.long = w.long || len(w.rest)+len(part) > w.Max; w.long {
			w.rest = w.rest[:0]
		} else {
			w.rest = append(w.rest, part...)
		}
		if i < 0 {
			break
		}
		if !w.long {
			if err := w.Line(w.rest, w.pos); err != nil {
				return 0, err
			}
		}
		w.rest, w.long = w.rest[:0], false
	}
	return n, nil
}
