package logline

import (
	"bytes"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// Encoding is how a log's text is stored.
type Encoding int8

// The encodings in which a line end is not one byte. All others are read as they are: their levels, times and line ends
// are those of ASCII.
const (
	Bytes Encoding = iota
	UTF16LE
	UTF16BE
)

// sampleBytes is how many bytes of a text are looked at to tell its encoding.
const sampleBytes = 64

// EncodingOf tells the encoding of a text from its first bytes. It is UTF-16 if they have a byte order mark, or if at
// least three of four characters have a first byte of zero and none a second, or the reverse, as texts in English have.
func EncodingOf(first []byte) Encoding {
	switch {
	case bytes.HasPrefix(first, []byte{0xff, 0xfe}):
		return UTF16LE
	case bytes.HasPrefix(first, []byte{0xfe, 0xff}):
		return UTF16BE
	}
	const enough = 8
	if len(first) < enough {
		return Bytes
	}
	chars := min(len(first), sampleBytes) / 2 // of two bytes each
	zeros := [2]int{}                         // of the first and of the second bytes
	for i, c := range first[:2*chars] {
		if c == 0 {
			zeros[i%2]++
		}
	}
	switch most := chars - chars/4; {
	case zeros[0] == 0 && zeros[1] >= most:
		return UTF16LE
	case zeros[1] == 0 && zeros[0] >= most:
		return UTF16BE
	}
	return Bytes
}

// Append appends a text of this encoding as UTF-8, without byte order marks. The text must begin with a whole
// character; an odd last byte is ignored.
func (e Encoding) Append(to, text []byte) []byte {
	if e == Bytes {
		return append(to, text...)
	}
	for i := 0; i+1 < len(text); i += 2 {
		r := rune(e.unit(text[i:]))
		if utf16.IsSurrogate(r) && i+3 < len(text) {
			if pair := utf16.DecodeRune(r, rune(e.unit(text[i+2:]))); pair != utf8.RuneError {
				r = pair
				i += 2
			}
		}
		if r != 0xfeff { // a byte order mark
			to = utf8.AppendRune(to, r)
		}
	}
	return to
}

// LineEnd returns where the first line end of a text of this encoding is, and where the next line begins; -1 and -1 if
// there is none. The text must begin with a whole character.
func (e Encoding) LineEnd(text []byte) (end, next int) {
	if e == Bytes {
		if end = bytes.IndexByte(text, '\n'); end < 0 {
			return -1, -1
		}
		return end, end + 1
	}
	for end = 0; ; end += 2 {
		n := bytes.IndexByte(text[end:], '\n')
		if n < 0 {
			return -1, -1
		}
		if end = (end + n) &^ 1; end+1 >= len(text) {
			return -1, -1
		}
		if e.unit(text[end:]) == '\n' {
			return end, end + 2
		}
	}
}

// EndsLine says whether two bytes are a line end of an encoding of two bytes.
func (e Encoding) EndsLine(first, second byte) bool { return e.unit([]byte{first, second}) == '\n' }

// unit returns the two bytes that b begins with as one unit of UTF-16.
func (e Encoding) unit(b []byte) uint16 {
	if e == UTF16BE {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return uint16(b[1])<<8 | uint16(b[0])
}

// NewReader returns a reader of a log as UTF-8, if it is UTF-16, and else of its bytes. It passes errors on where they
// come.
func NewReader(in io.Reader) io.Reader { return &decoder{in: in} }

// decoder reads a log in its encoding.
type decoder struct {
	in       io.Reader
	known    bool
	encoding Encoding
	raw      []byte // read, not decoded
	decoded  []byte // decoded, not returned
	err      error  // comes after decoded
}

const decodeBlock = 32 << 10

// Read implements io.Reader: it returns the text in UTF-8. An error comes once the text before it is returned, and only
// once, because reading may go on behind a gap.
func (d *decoder) Read(p []byte) (n int, err error) {
	if d.known && d.encoding == Bytes && len(d.decoded) == 0 && d.err == nil {
		return d.in.Read(p)
	}
	for len(d.decoded) == 0 && d.err == nil && len(p) > 0 {
		d.next()
	}
	n = copy(p, d.decoded)
	if d.decoded = d.decoded[n:]; len(d.decoded) == 0 {
		err, d.err = d.err, nil
	}
	return n, err
}

// next reads and decodes a block. The encoding is known once sampleBytes were read, or the text has ended. After an
// error that is not the end, reading may go on: the text behind a gap follows.
func (d *decoder) next() {
	if d.raw == nil {
		d.raw = make([]byte, 0, decodeBlock)
	}
	n, err := d.in.Read(d.raw[len(d.raw):cap(d.raw)])
	d.raw, d.err = d.raw[:len(d.raw)+n], err
	if !d.known {
		if len(d.raw) < sampleBytes && err == nil {
			return
		}
		d.known, d.encoding = true, EncodingOf(d.raw)
	}
	whole := len(d.raw)
	if d.encoding != Bytes && err == nil {
		if whole &^= 1; whole >= 2 && d.encoding.unit(d.raw[whole-2:])>>10 == 0xd800>>10 {
			whole -= 2 // the second half of the character follows
		}
	}
	d.decoded = d.encoding.Append(d.decoded[:0], d.raw[:whole])
	d.raw = append(d.raw[:0], d.raw[whole:]...)
}

// UTF8 returns a line as UTF-8. A line that is not valid UTF-8 is taken for damaged UTF-8 if most of it is valid, for
// GBK if all of its bytes above ASCII are pairs of Chinese characters, and else for Windows-1252, of which Latin-1 is a
// part.
func UTF8(line []byte) []byte {
	if utf8.Valid(line) {
		return line
	}
	if mostlyUTF8(line) {
		return bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	decoder := charmap.Windows1252.NewDecoder()
	if isGBK(line) {
		decoder = simplifiedchinese.GBK.NewDecoder()
	}
	text, err := decoder.Bytes(line)
	if err != nil {
		return bytes.ToValidUTF8(line, []byte("\uFFFD"))
	}
	return text
}

// mostlyUTF8 says whether a line has more than twice as many well-formed characters above ASCII as malformed bytes.
func mostlyUTF8(line []byte) bool {
	well, not := 0, 0
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1:
			not++
		case size > 1:
			well++
		}
		line = line[size:]
	}
	return well > 2*not
}

// isGBK says whether all bytes above ASCII come in pairs within the range in which GB 2312 has its characters.
func isGBK(line []byte) bool {
	for i := 0; i < len(line); i++ {
		if line[i] < 0x80 {
			continue
		}
		if line[i] < 0xa1 || line[i] == 0xff || i+1 == len(line) || line[i+1] < 0xa1 || line[i+1] == 0xff {
			return false
		}
		i++
	}
	return true
}
