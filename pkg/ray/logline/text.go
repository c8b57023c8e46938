package logline

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

const (
	maxFields = 14  // of a header
	maxGroup  = 320 // bytes between brackets
)

// header reads the fields of a header from left to right.
type header struct {
	Header
	clock       *Clock
	whole       []byte // the line
	undatedTime bool   // a time of day without a known date was read: no other time follows
	fieldCount  int
	nameCount   int  // words that may be names, and may be the beginning of a message
	isHeader    bool // a field was read that only a header has
}

// parseText reads the header of a line that is not JSON, and returns where the line's message begins; 0 if the line has
// no header, as most indented lines have none: they go on with the line before. whole is the line, of which b is the
// beginning.
func parseText(b, whole []byte, clock *Clock) (read Header, messageAt int) {
	h := header{clock: clock, whole: whole}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) // a byte order mark
	indent := len(b) - len(bytes.TrimLeft(b, " "))
	if indent > 0 && !beginsIndented(b, indent) || len(b) > 0 && b[0] == '\t' {
		return Header{}, 0
	}
	if level := lineLevel(b); level != Unknown {
		return Header{Level: level}, 0
	}
	if isPythonWarning(b) {
		return Header{Level: Warning}, 0
	}
	const inGroup = false
	n := h.readFields(b, inGroup)
	if !h.Begins() {
		return Header{}, 0
	}
	return h.Header, n
}

// beginsIndented says whether a line begins a record though it is indented. Rust's tracing indents times, which have a
// date, by up to 4 columns. Levels are aligned to the right or padded in a column of 8: rich prints one after the space
// of a time that it leaves out, because it is that of the line before.
func beginsIndented(b []byte, indent int) bool {
	rest := b[indent:]
	const bracketed = false
	if _, n := readMoment(rest, bracketed); n > len("00:00:00.000") && indent <= 4 {
		return true
	}
	word := leadingCapitals(rest)
	if levelByClearName(word) == Unknown || len(rest) == len(word) || rest[len(word)] != ' ' {
		return false
	}
	padded := len(word) == 8 || len(rest) > 8 && len(bytes.TrimRight(rest[len(word):9], " ")) == 0
	return indent+len(word) <= 8 || padded && indent >= 8
}

// lineLevel is the level of a line in which a runtime says that it ends, and of those of npm and apt: "npm ERR! code",
// "E: Unable to locate package x". Behind the letter of a figure, "E: 0.2", stands no word.
func lineLevel(b []byte) Level {
	for _, begins := range [...]string{"panic: ", "Fatal Python error: ", "terminate called ", "fatal error: ",
		"*** SIG"} {
		if len(b) > len(begins) && string(b[:len(begins)]) == begins {
			return Fatal
		}
	}
	if bytes.HasPrefix(b, []byte("thread '")) && bytes.Contains(b, []byte(" panicked at ")) { // Rust
		return Fatal
	}
	if rest, ofNpm := bytes.CutPrefix(b, []byte("npm ")); ofNpm {
		return levelInAnyCase(leadingLetters(rest))
	}
	if len(b) > 3 && (b[0] == 'E' || b[0] == 'W') && b[1] == ':' && b[2] == ' ' && isLetter(b[3]) {
		return letterLevel(b[0])
	}
	return Unknown
}

// isPythonWarning says whether a line is one that Python's module warnings prints: "x.py:12: UserWarning: …".
func isPythonWarning(b []byte) bool {
	end := bytes.Index(b, []byte("Warning: "))
	if end < 0 {
		return false
	}
	name := end
	for name > 0 && isLetter(b[name-1]) {
		name--
	}
	place, ok := bytes.CutSuffix(b[:name], []byte(": "))
	digits := len(place)
	for digits > 0 && isDigit(place[digits-1]) {
		digits--
	}
	return ok && digits < len(place) && digits > 1 && place[digits-1] == ':'
}

// readFields reads the fields at the beginning of b, such as a time, a level and names, and returns where the message
// begins. A group is what is between brackets: in one (inGroup), a level may also be a letter or in small letters. Of a
// line, and of the groups in it, at most maxFields are read. Behind a level only a time may follow.
func (h *header) readFields(b []byte, inGroup bool) (i int) {
	for ; h.fieldCount < maxFields; h.fieldCount++ {
		fieldAt, delimited := skipSeparators(b, i)
		// Such a line is one of a list or of a table, unless it begins with a picture or "**".
		beginsDelimited := i == 0 && delimited && !inGroup && b[0] < utf8.RuneSelf && !bytes.HasPrefix(b, []byte("**"))
		if i = fieldAt; i >= len(b) || beginsDelimited {
			return i
		}
		if !h.isBehindTime() {
			if n := h.readTime(b[i:], inGroup); n > 0 {
				i += n
				h.isHeader = true
				continue
			}
		}
		if h.Level != Unknown && (h.Dated || !h.mayBeDated(b[i:])) {
			return i
		}
		next := 0
		switch b[i] {
		case '{':
			if i+1 < len(b) && b[i+1] == '"' { // the message is JSON, which may have what the line's own fields lack
				h.addMissing(parseObject(h.whole[max(0, bytes.Index(h.whole, []byte(`{"`))):], h.clock))
				return i
			}
			next = h.readGroup(b[i:], '}')
		case '[':
			next = h.readGroup(b[i:], ']')
		case '(':
			next = h.readGroup(b[i:], ')')
		case '<':
			next = h.readPriority(b[i:])
		default:
			next = h.readWord(b[i:], delimited, inGroup)
		}
		if next == 0 {
			return i
		}
		i += next
	}
	return i
}

// asPicture follows a symbol that is shown as a picture.
const asPicture = '\uFE0F'

// skipSeparators skips what stands before and between fields, such as spaces, the lines of tables and pictures, and
// returns where the next field begins. delimited says that there was more than spaces.
func skipSeparators(b []byte, i int) (next int, delimited bool) {
	for ; i < len(b); i++ {
		switch c := b[i]; c {
		case ' ':
		case '\t', '-', '|', ':', '>', ',', ';', '*', ']', ')':
			delimited = true
		default:
			symbol, size := utf8.DecodeRune(b[i:])
			if symbol == utf8.RuneError || !unicode.Is(unicode.So, symbol) && symbol != asPicture {
				return i, delimited
			}
			i += size - 1
			delimited = true
		}
	}
	return i, delimited
}

// addMissing adds what a nested object says.
func (h *header) addMissing(other Header) {
	if !h.Dated {
		h.Time, h.Dated = other.Time, other.Dated
	}
	if h.Level == Unknown {
		h.Level = other.Level
	}
}

// isBehindTime says whether a time was read, with its date or without.
func (h *header) isBehindTime() bool { return h.Dated || h.undatedTime }

// mayBeDated says whether a time may follow behind a level: directly, or behind a group.
func (h *header) mayBeDated(b []byte) bool { return !h.undatedTime && b[0] == '[' && h.fieldCount < 4 }

// readTime reads a time, or glog's level with its time, at the beginning of b. n is how many bytes it has; 0 for none.
func (h *header) readTime(b []byte, inGroup bool) (n int) {
	if !isDigit(b[0]) && !isCapital(b[0]) {
		return 0
	}
	if digits := countDigits(b[1:]); letterLevel(b[0]) != Unknown && (digits == 3 || digits == 4) &&
		len(b) > digits+1 && b[digits+1] == ' ' {
		return h.glogTime(b, digits+2)
	}
	m, n := readMoment(b, inGroup)
	if n > 0 {
		h.setTime(&m)
	}
	return n
}

// glogTime reads glog's level and time, which begins after so many bytes: "E1120 10:00:05.123456", PyTorch's
// "E206 10:00:05.123456789" of February 6th, or "E0000 00:00:1732097605.123456" with Unix seconds, from absl before it
// is initialised.
func (h *header) glogTime(b []byte, dateSize int) (n int) {
	if seconds, ok := bytes.CutPrefix(b[dateSize:], []byte("00:00:")); ok {
		if at := epochNs(seconds); at != 0 {
			h.Level, h.Time, h.Dated = letterLevel(b[0]), at, true
			digits := countDigits(seconds)
			return len(b) - len(seconds) + digits + fractionSize(seconds[digits:])
		}
	}
	date := valueOf(b[1 : dateSize-1])
	m := moment{order: withoutYear, date: [3]int{date / 100, date % 100, 0}}
	if n = m.readClock(b[dateSize:]); n == 0 || m.date[0] == 0 {
		return 0
	}
	h.Level = letterLevel(b[0])
	h.setTime(&m)
	return dateSize + n
}

// fractionSize returns how many bytes the fraction of a second, ".123", has that b begins with; 0 if there is none.
func fractionSize(b []byte) int {
	if len(b) < 2 || b[0] != '.' {
		return 0
	}
	return 1 + countDigits(b[1:])
}

// setTime sets the header's time, which may have no known date.
func (h *header) setTime(m *moment) {
	if h.Time, h.Dated = m.unixNs(h.clock); !h.Dated {
		h.undatedTime = true
	}
}

// readGroup reads the group in brackets that b begins with, and returns its length with the brackets; 0 if b begins
// with none.
func (h *header) readGroup(b []byte, closing byte) int {
	depth, end := 0, 0
	for i, c := range b[:min(len(b), maxGroup)] {
		if c == b[0] {
			depth++
		} else if c == closing {
			if depth--; depth == 0 {
				end = i
				break
			}
		}
	}
	if end == 0 {
		if b[0] == '[' && len(b) > 2 && b[1] == ' ' { // Julia: "[ Info: "
			word := leadingLetters(b[2:])
			level := levelInAnyCase(word)
			if len(b) > 2+len(word) && b[2+len(word)] == ':' && level != Unknown {
				h.Level = level
				return 3 + len(word)
			}
		}
		return 0
	}
	inner := bytes.TrimSpace(b[1:end])
	if h.Level == Unknown && len(inner) > 0 {
		if h.Level = groupLevel(inner); h.Level != Unknown && len(inner) > 2 && inner[1] == ' ' {
			inner = inner[2:] // "I 2026-11-20 10:00:05,123"
		}
	}
	if h.Level == Unknown || !h.Dated { // its names and the number of its fields say nothing about the line
		names, fields, level := h.nameCount, h.fieldCount, h.Level
		h.nameCount = 0
		const inGroup = true
		h.readFields(inner, inGroup)
		h.nameCount, h.fieldCount = names, fields
		if level != Unknown {
			h.Level = level // what was read before the group's fields counts
		}
	}
	h.isHeader = true
	return end + 1
}

// groupLevel is the level that a group in brackets, which is not empty, has as its only part, as the last behind a
// colon, or as a letter before a space: "error", "E", "core:error", "W socket.cpp:1"; Unknown if it has none.
func groupLevel(inner []byte) Level {
	if len(inner) == 1 {
		return letterLevel(inner[0])
	}
	if level := levelInAnyCase(inner); level != Unknown {
		return level
	}
	if n := bytes.LastIndexByte(inner, ':'); n >= 0 {
		if level := levelInAnyCase(inner[n+1:]); level != Unknown {
			return level
		}
	}
	if inner[1] == ' ' && letterLevel(inner[0]) != Unknown {
		return letterLevel(inner[0])
	}
	return Unknown
}

// readPriority reads the priority of syslog that b begins with, such as "<11>" or "<11>1" (RFC 5424), and returns its
// length. It is a facility, from 0 to 23, times 8 and a severity, and does not count as a field. Other words in such
// brackets are skipped, if a time or level was read before; otherwise it returns 0.
func (h *header) readPriority(b []byte) int {
	end := bytes.IndexByte(b[:min(len(b), 40)], '>')
	if end < 0 {
		return 0
	}
	digits := countDigits(b[1:])
	if digits == 0 || digits > 3 || digits+1 != end {
		if !h.isHeader || bytes.IndexByte(b[:end], ' ') >= 0 {
			return 0
		}
		return end + 1
	}
	if h.fieldCount > 0 || valueOf(b[1:end]) > 191 {
		return 0
	}
	h.Level = syslogLevel(valueOf(b[1:end]) & 7)
	h.fieldCount--
	if len(b) > end+2 && b[end+1] == '1' && b[end+2] == ' ' { // the version of the protocol
		return end + 2
	}
	return end + 1
}
