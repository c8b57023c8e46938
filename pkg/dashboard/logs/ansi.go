package logs

import (
	"io"
)

// ansiFilter removes colours from what is written: an escape, "[", digits, semicolons and parentheses, "m" (ANSI_ESC_PATTERN in
// ray/dashboard/modules/state/state_head.py). A possible beginning of one is held back until more is known.
type ansiFilter struct {
	w    io.Writer
	held []byte
	out  []byte
}

const maxANSI = 64 // bytes of a sequence held back; longer ones are no colours

func (a *ansiFilter) Write(p []byte) (int, error) {
	a.out = a.out[:0]
	for _, c := range p {
		switch n := len(a.held); {
		case n == 0 && c == 0x1b:
			a.held = append(a.held, c)
		case n == 0:
			a.out = append(a.out, c)
		case n == 1 && c == '[', n > 1 && n < maxANSI && (c >= '0' && c <= '9' || c == ';' || c == '(' || c == ')'):
			a.held = append(a.held, c)
		case n > 2 && c == 'm':
			a.held = a.held[:0]
		default:
			a.out = append(a.out, a.held...)
			a.held = a.held[:0]
			if c == 0x1b {
				a.held = append(a.held, c)
			} else {
				a.out = append(a.out, c)
			}
		}
	}
	if _, err := a.w.Write(a.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes what was held back. An error means that the client went away.
func (a *ansiFilter) flush() {
	_, _ = a.w.Write(a.held)
	a.held = nil
}
