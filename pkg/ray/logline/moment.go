package logline

import (
	"bytes"
	"time"
)

// readMoment reads the time that b begins with. n is how many bytes it has; 0 if b begins with none. bracketed says
// that a bracket is before it, which makes some forms likelier.
func readMoment(b []byte, bracketed bool) (m moment, n int) {
	if len(b) < len("0:00:00") {
		return m, 0
	}
	digits := countDigits(b)
	switch {
	case digits == 0:
		n = m.readWithMonthName(b)
	case digits == 4 && (b[4] == '-' || b[4] == '/' || b[4] == '.'):
		n = m.readNumbers(b, yearFirst)
	case digits == 6 && bracketed && b[6] == ' ': // tornado: "[E 261120 10:00:05 web:123]"
		m.order, m.date = yearFirst, [3]int{valueOf(b[:2]), valueOf(b[2:4]), valueOf(b[4:6])}
		n = m.readClockBehind(b, 6)
	case digits == 8: // "20261120 10:00:05", "20261120T100005"
		m.order, m.date = yearFirst, [3]int{valueOf(b[:4]), valueOf(b[4:6]), valueOf(b[6:8])}
		n = m.readClockBehind(b, 8)
	case digits <= 2 && len(b) > digits && b[digits] == ':':
		n = m.readClock(b)
	case digits <= 2 && (b[digits] == '/' || b[digits] == '-' || b[digits] == '.' || b[digits] == ' '):
		if n = m.readDayMonthName(b, digits); n == 0 && b[digits] != ' ' {
			n = m.readNumbers(b, monthOrDayFirst)
			if m.order == twoDigits && bracketed {
				m.order = twoDigitsMonthFirst
			}
		}
	case digits >= 10:
		n = m.readEpoch(b, digits, bracketed)
	}
	if n == 0 || n < len(b) && (isDigit(b[n]) || isLetter(b[n]) || b[n] == '<' || b[n] == '%' || b[n] == '=') {
		return m, 0 // the numbers are a part of something else, such as the time left in a progress bar: "00:01<00:05"
	}
	return m, n
}

// readNumbers reads a date of two or three numbers, with the same byte between them, and the time of day behind it.
// form is the order that the numbers must have: yearFirst, or monthOrDayFirst if it depends on them. n is how many
// bytes were read; 0 if b does not begin with such a date. A byte must follow b's first digits.
func (m *moment) readNumbers(b []byte, form order) (n int) {
	between := b[countDigits(b)]
	parts := 0
	var sizes [3]int
	for parts < 3 {
		size := countDigits(b[n:])
		if size == 0 || size > 4 {
			return 0
		}
		m.date[parts], sizes[parts] = valueOf(b[n:n+size]), size
		n += size
		parts++
		if parts == 3 || n+1 >= len(b) || b[n] != between || !isDigit(b[n+1]) {
			break
		}
		n++
	}
	switch {
	case parts == 3 && form == yearFirst:
		m.order = yearFirst
	case parts == 3 && sizes[2] == 4 && between == '.': // "20.11.2026"
		m.order = dayFirst
	case parts == 3 && sizes[2] == 4: // "11/20/2026", "20/11/2026"
		m.order = monthOrDayFirst
	case parts == 3 && sizes[0] == 2 && sizes[1] == 2 && sizes[2] == 2: // "26/11/20"
		m.order = twoDigits
	case parts == 2 && form != yearFirst && between != '.' && sizes[1] <= 2: // "11-20"; with a dot it is a number
		m.order = withoutYear
	default:
		return 0
	}
	return m.readClockBehind(b, n)
}

// readClockBehind reads the time of day behind the byte at the index at, which separates it from the date. n is where
// it ends; 0 if there is none.
func (m *moment) readClockBehind(b []byte, at int) (n int) {
	if at+1 >= len(b) {
		return 0
	}
	switch b[at] {
	case ' ', 'T', 't', '-', '_', ':':
		at++
	default:
		return 0
	}
	if n = m.readClock(b[at:]); n > 0 {
		return at + n
	}
	if countDigits(b[at:]) == 6 { // 20261120T100005
		m.hour, m.minute, m.second = valueOf(b[at:at+2]), valueOf(b[at+2:at+4]), valueOf(b[at+4:at+6])
		return at + 6 + m.readZone(b[at+6:])
	}
	return 0
}

// readClock reads a time of day such as "10:00:05", with a fraction, "AM" or "PM" and a zone if these follow. n is how
// many bytes it has; 0 if b does not begin with one.
func (m *moment) readClock(b []byte) (n int) {
	hour := countDigits(b)
	if hour < 1 || hour > 2 || len(b) < hour+3 || b[hour] != ':' || countDigits(b[hour+1:]) != 2 {
		return 0
	}
	m.hour, m.minute = valueOf(b[:hour]), valueOf(b[hour+1:hour+3])
	n = hour + 3
	if n+2 < len(b) && b[n] == ':' && countDigits(b[n+1:]) == 2 {
		m.second = valueOf(b[n+1 : n+3])
		n += 3
		n += m.readFraction(b[n:])
	} else if size, _ := readAMPM(b[n:]); size == 0 { // without seconds only "10:00AM"
		return 0
	}
	if size, add := readAMPM(b[n:]); size > 0 {
		m.hour = m.hour%12 + add
		n += size
	}
	return n + m.readZone(b[n:])
}

// readAMPM reads "AM" or "PM", with or without a blank before it. size is how many bytes it has, 0 if it is neither;
// hours is what has to be added to the clock's hour modulo 12.
func readAMPM(b []byte) (size, hours int) {
	at := 0
	if len(b) > 0 && b[0] == ' ' {
		at = 1
	}
	if len(b) < at+2 || b[at+1] != 'M' || len(b) > at+2 && isLetter(b[at+2]) {
		return 0, 0
	}
	switch b[at] {
	case 'A':
		return at + 2, 0
	case 'P':
		return at + 2, 12
	}
	return 0, 0
}

// readFraction reads the fraction of a second, ",123", ".123456" or ":123", into m.nano. n is how many bytes it has; 0
// if there is none.
func (m *moment) readFraction(b []byte) (n int) {
	if len(b) < 2 || b[0] != ',' && b[0] != '.' && b[0] != ':' || !isDigit(b[1]) {
		return 0
	}
	digits := countDigits(b[1:])
	if b[0] == ':' && digits != 3 && digits != 6 {
		return 0
	}
	for i := range 9 { // digits of nanoseconds
		m.nano *= 10
		if i < digits {
			m.nano += int(b[1+i] - '0')
		}
	}
	return 1 + digits
}

// readZone reads the zone of a time, "Z", "+02:00", " +0200", " UTC", " GMT+5:30" or, directly behind a time with its
// date, "+02". n is how many bytes it has; 0 if there is none.
func (m *moment) readZone(b []byte) (n int) {
	if len(b) > 0 && b[0] == 'Z' {
		m.hasZone = true
		return 1
	}
	n = len(b) - len(bytes.TrimPrefix(b, []byte{' '}))
	mayBeShort := n == 0 && m.order != noDate
	named := bytes.HasPrefix(b[n:], []byte("UTC")) || bytes.HasPrefix(b[n:], []byte("GMT"))
	if named {
		m.hasZone = true
		n += 3
	}
	east, size := readOffset(b[n:], mayBeShort, named)
	// What follows makes it a word, a number or a time of day.
	next := n + size
	goesOn := next < len(b) && (isLetter(b[next]) || b[next] == '.' || b[next] == ':' && n > 0 && !named)
	switch {
	case size > 0 && !goesOn:
		m.hasZone, m.east = true, east
		return next
	case named:
		return n
	}
	return 0
}

// readOffset reads an offset from UTC, "+02:00" or "-0330", and returns it in seconds. It may have no minutes if
// mayBeShort says so or, as "+5", if UTC stands before it (named). n is how many bytes it has; 0 if there is none.
func readOffset(b []byte, mayBeShort, named bool) (east, n int) {
	if len(b) < 2 || b[0] != '+' && b[0] != '-' {
		return 0, 0
	}
	digits := countDigits(b[1:])
	n = 1 + digits
	hours, minutes := valueOf(b[1:n]), 0
	switch hasMinutes := len(b) >= n+3 && b[n] == ':' && countDigits(b[n+1:]) == 2; {
	case digits == 4:
		hours, minutes = hours/100, hours%100
	case digits != 2 && (digits != 1 || !named), !hasMinutes && !mayBeShort && !named:
		return 0, 0
	case hasMinutes:
		minutes = valueOf(b[n+1 : n+3])
		n += 3
	}
	if hours > 14 || minutes > 59 { // none is further from UTC
		return 0, 0
	}
	if east = 3600*hours + 60*minutes; b[0] == '-' {
		east = -east
	}
	return east, n
}

// readEpoch reads a number of seconds since 1970 that has a fraction or, in brackets, any number of seconds,
// milliseconds, microseconds or nanoseconds. b begins with so many digits. n is how many bytes were read, 0 for none.
func (m *moment) readEpoch(b []byte, digits int, bracketed bool) (n int) {
	n = digits
	fraction := digits == 10 && len(b) > 11 && b[10] == '.' && isDigit(b[11])
	if fraction {
		n += 1 + countDigits(b[11:])
	}
	if !fraction && !bracketed {
		return 0
	}
	m.epoch = epochNs(b[:n])
	if m.epoch == 0 {
		return 0
	}
	return n
}

// epochNs reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970: how many digits it has tells
// which. It returns Unix ns; 0 if that is not a likely time.
func epochNs(b []byte) int64 {
	digits := countDigits(b)
	var unit int64
	switch digits {
	case 10:
		unit = 1e9
	case 13:
		unit = 1e6
	case 16:
		unit = 1e3
	case 19:
		unit = 1
	default:
		return 0
	}
	var n int64
	for _, c := range b[:digits] {
		if n > (1<<63-1-9)/10 { // more than int64 holds
			return 0
		}
		n = 10*n + int64(c-'0')
	}
	if n > (1<<63-1)/unit {
		return 0
	}
	n *= unit
	if digits < len(b) && b[digits] == '.' {
		for _, c := range b[digits+1:] {
			if !isDigit(c) {
				break
			}
			unit /= 10
			n += unit * int64(c-'0')
		}
	}
	if year := time.Unix(0, n).UTC().Year(); year < 2001 || year > 2200 {
		return 0
	}
	return n
}

// monthByName returns the number of the month whose English name of three letters b begins with; 0 if there is none.
func monthByName(b []byte) int {
	if len(b) < 3 {
		return 0
	}
	for i, name := range [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
		"Dec"} {
		if string(b[:3]) == name {
			return i + 1
		}
	}
	return 0
}

// readWithMonthName reads a time with the name of a month: "Nov 20 10:00:05", "Fri Nov 20 10:00:05 2026",
// "Fri, 20 Nov 2026 10:00:05" or "Nov 20, 2026 10:00:05 AM". n is how many bytes it has; 0 if b begins with none.
func (m *moment) readWithMonthName(b []byte) (n int) {
	// "Fri " or "Fri, "
	if len(b) > 5 && bytes.Contains([]byte("MonTueWedThuFriSatSun"), b[:3]) && (b[3] == ' ' || b[3] == ',') {
		n = 4
		if b[4] == ' ' {
			n = 5
		}
	}
	if digits := countDigits(b[n:]); n > 0 && digits > 0 && digits <= 2 { // "Fri, 20 Nov 2026 10:00:05"
		if size := m.readDayMonthName(b[n:], digits); size > 0 {
			return n + size
		}
		return 0
	}
	monthNumber := monthByName(b[n:])
	if monthNumber == 0 || len(b) < n+6 || b[n+3] != ' ' {
		return 0
	}
	n += 4
	if b[n] == ' ' {
		n++
	}
	digits := countDigits(b[n:])
	if digits < 1 || digits > 2 {
		return 0
	}
	m.order, m.date = withoutYear, [3]int{monthNumber, valueOf(b[n : n+digits]), 0}
	n += digits
	year := bytes.TrimPrefix(b[n:], []byte{','})
	if len(year) > 4 && year[0] == ' ' && countDigits(year[1:]) == 4 { // "Nov 20, 2026 10:00:05", "Nov 20 2026 …"
		m.order, m.date[2] = monthFirst, valueOf(year[1:5])
		n = len(b) - len(year) + 5
	}
	if len(b) <= n || b[n] != ' ' {
		return 0
	}
	size := m.readClock(b[n+1:])
	if size == 0 {
		return 0
	}
	n += 1 + size
	// behind the time of day: "Nov 20 10:00:05 2026"
	if m.order == withoutYear && len(b) >= n+5 && b[n] == ' ' && countDigits(b[n+1:]) == 4 {
		if year := valueOf(b[n+1 : n+5]); year > 1970 {
			m.order, m.date[2] = monthFirst, year
			n += 5
			n += m.readZone(b[n:])
		}
	}
	return n
}

// readDayMonthName reads "20 Nov 2026 10:00:05" and "20/Nov/2026:10:00:05 +0000", of whose day so many digits are
// there. n is how many bytes it has; 0 if b does not begin with one.
func (m *moment) readDayMonthName(b []byte, digits int) (n int) {
	if n = digits + 1; len(b) < n+8 {
		return 0
	}
	between, monthNumber := b[digits], monthByName(b[n:])
	if monthNumber == 0 || b[n+3] != between || countDigits(b[n+4:]) != 4 {
		return 0
	}
	m.order, m.date = dayFirst, [3]int{valueOf(b[:digits]), monthNumber, valueOf(b[n+4 : n+8])}
	return m.readClockBehind(b, n+8)
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// countDigits is how many digits b begins with, at most 20.
func countDigits(b []byte) (n int) {
	for n < len(b) && n < 20 && isDigit(b[n]) {
		n++
	}
	return n
}

// valueOf returns the number that decimal digits spell.
func valueOf(digits []byte) (n int) {
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}
