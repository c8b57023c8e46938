// Package logline reads the time and the level at the beginning of a log's line, in the forms in which Ray's processes write them:
//
//	[2026-11-20 23:19:45,581 I 123 456] (raylet) main.cc:1: …        C++ (ray/util/logging.cc)
//	2026-11-20 23:19:45,581	INFO head.py:1 -- …                      Python (ray/_private/ray_constants.py)
//	INFO 2026-11-20 23:19:45,581 controller 123 -- …                 Serve
//	{"asctime": "2026-11-20 23:19:45,581", "levelname": "INFO", …}   JSON, of Serve, Data and ray.LoggingConfig
package logline

import (
	"bytes"
	"strconv"
	"time"
)

// Header is what a line says of itself.
type Header struct {
	Time  int64 // Unix nanoseconds
	Level Level // Unknown if the line names none
}

// MaxHeader is the number of bytes at a line's beginning that Parse looks at.
const MaxHeader = 256

// Parse reads the header of a line; ok is false if the line carries no time. Times without a zone are of the given one.
func Parse(line []byte, zone *time.Location) (Header, bool) {
	h, ok := parse(line[:min(len(line), MaxHeader)], zone)
	if !ok {
		return Header{}, false
	}
	return h, true
}

func parse(line []byte, zone *time.Location) (h Header, ok bool) {
	if len(line) == 0 {
		return h, false
	}
	switch c := line[0]; {
	case c == '{':
		return parseJSON(line, zone)
	case c == '[':
		var rest []byte
		if h.Time, rest, ok = parseTime(line[1:], zone); ok && len(rest) > 2 && rest[0] == ' ' && rest[2] == ' ' {
			h.Level = letterLevel(rest[1])
		}
		return h, ok
	case c >= '0' && c <= '9':
		var rest []byte
		if h.Time, rest, ok = parseTime(line, zone); ok {
			h.Level = wordLevel(word(bytes.TrimLeft(rest, " \t-[")))
		}
		return h, ok
	}
	first := word(line)
	level := wordLevel(first)
	if level == Unknown || len(first)+1 >= len(line) {
		return h, false
	}
	h.Level = level
	h.Time, _, ok = parseTime(line[len(first)+1:], zone)
	return h, ok
}

// parseJSON reads the fields of a JSON object that say when and how serious. A number of nanoseconds is the surest time.
func parseJSON(line []byte, zone *time.Location) (h Header, ok bool) {
	h.Level = wordLevel(word(jsonField(line, `"levelname":`)))
	if digits := jsonField(line, `"timestamp_ns":`); len(digits) > 19 && !isDigit(digits[19]) {
		if ns, err := strconv.ParseInt(string(digits[:19]), 10, 64); err == nil {
			h.Time = ns
			return h, true
		}
	}
	h.Time, _, ok = parseTime(jsonField(line, `"asctime":`), zone)
	return h, ok
}

// jsonField is what follows a field's name, without a quote before it.
func jsonField(line []byte, name string) []byte {
	_, value, _ := bytes.Cut(line, []byte(name))
	return bytes.TrimPrefix(bytes.TrimLeft(value, " "), []byte{'"'})
}

// parseTime reads "2026-11-20 23:19:45,581" or "2026-11-20T23:19:45.581" and returns what follows.
func parseTime(b []byte, zone *time.Location) (ns int64, rest []byte, ok bool) {
	const form = "dddd-dd-dd dd:dd:dd"
	if len(b) < len(form) {
		return 0, nil, false
	}
	for i := range len(form) {
		switch c := b[i]; form[i] {
		case 'd':
			ok = isDigit(c)
		case ' ':
			ok = c == ' ' || c == 'T'
		default:
			ok = c == form[i]
		}
		if !ok {
			return 0, nil, false
		}
	}
	year, month, day := number(b[:4]), number(b[5:7]), number(b[8:10])
	hour, minute, second := number(b[11:13]), number(b[14:16]), number(b[17:19])
	if year < 1971 || year > 2200 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 {
		return 0, nil, false
	}
	rest = b[len(form):]
	fraction, digits := 0, 0
	if len(rest) > 1 && (rest[0] == ',' || rest[0] == '.') && isDigit(rest[1]) {
		for rest = rest[1:]; len(rest) > 0 && digits < 9 && isDigit(rest[0]); rest = rest[1:] {
			fraction = 10*fraction + int(rest[0]-'0')
			digits++
		}
	}
	for ; digits < 9; digits++ {
		fraction *= 10
	}
	return time.Date(year, time.Month(month), day, hour, minute, second, fraction, zone).UnixNano(), rest, true
}

// First is the first line of a text, as far as Parse reads it.
func First(text []byte) []byte {
	line, _, _ := bytes.Cut(text[:min(len(text), MaxHeader)], []byte("\n"))
	return line
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func number(digits []byte) (n int) {
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}

// word is the capital letters that b starts with.
func word(b []byte) []byte {
	n := 0
	for n < len(b) && b[n] >= 'A' && b[n] <= 'Z' {
		n++
	}
	return b[:n]
}
