package logline

import (
	"bytes"

	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// logfmt reads the level and the time among the pairs that b begins with, such as time=2026-11-20T10:00:05Z level=error
// msg="…".
func logfmt(b []byte, clock *Clock) (h Header) {
	for range maxFields {
		name := 0
		for name < len(b) && (isLetter(b[name]) || isDigit(b[name]) || bytes.IndexByte([]byte("_.@-"), b[name]) >= 0) {
			name++
		}
		if name == 0 || name+1 >= len(b) || b[name] != '=' {
			break
		}
		value, rest := pairValue(b[name+1:])
		switch k := keyOf(b[:name]); {
		case k.kind == keyLevel && h.Level == Unknown:
			h.Level = levelInAnyCase(value)
		case k.kind == keyTime && !h.Dated:
			h.Time, h.Dated = timeOf(value, clock)
		}
		b = bytes.TrimLeft(rest, " ")
	}
	return h
}

// pairValue is the value that b begins with, without quotes, and what follows it.
func pairValue(b []byte) (value, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		n := bytes.IndexByte(b, ' ')
		if n < 0 {
			n = len(b)
		}
		return b[:n], b[n:]
	}
	end := jsontext.StringEnd(b, 1)
	return b[1:end], b[min(len(b), end+1):]
}

// timeOf reads a time as text, or as a number since 1970.
func timeOf(b []byte, clock *Clock) (ns int64, ok bool) {
	if m, n := readMoment(b, true); n > 0 && n == len(b) {
		return m.unixNs(clock)
	}
	ns = epochNs(b)
	return ns, ns != 0
}
