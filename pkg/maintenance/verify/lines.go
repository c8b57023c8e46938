package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line that is looked at: a collector takes no larger batch.
const maxLine = 64 << 20

// maxTold is how many bad lines of one stream are reported.
const maxTold = 10

// checkLines reads events: JSON Lines, or JSON arrays as KubeRay writes. Errors are the reader's.
func checkLines(r io.Reader, damaged func(format string, args ...any)) error {
	b := bufio.NewReaderSize(r, 256<<10)
	if first, err := b.Peek(1); err == nil && first[0] == '[' {
		return checkArrays(b, damaged)
	}
	lines, bad := 0, 0
	scanner := bufio.NewScanner(b)
	scanner.Buffer(nil, maxLine)
	cut := false // the last line lacks its end
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		rest := bytes.TrimLeft(data, " \t\r\n") // a few kilobytes may decode to hundreds of millions of empty lines
		blank := len(data) - len(rest)
		lines += bytes.Count(data[:blank], []byte{'\n'})
		n, line, err := bufio.ScanLines(rest, atEOF)
		cut = atEOF && n == len(line)
		return blank + n, line, err
	})
	for scanner.Scan() {
		lines++
		line := bytes.TrimSpace(scanner.Bytes())
		if json.Valid(line) {
			continue
		}
		if bad++; bad <= maxTold {
			what := "is not JSON"
			if cut {
				what = "is cut"
			}
			damaged("line %d %s: %.80q", lines, what, line)
		}
	}
	if bad > maxTold {
		damaged("%d of %d lines are not JSON", bad, lines)
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		damaged("line %d is longer than %d bytes", lines+1, maxLine)
	} else if err != nil {
		return err
	}
	return nil
}

// errLong is an event that is longer than maxLine.
var errLong = fmt.Errorf("an event is longer than %d bytes", maxLine)

// checkArrays reads arrays of events: KubeRay appends arrays to arrays.
func checkArrays(r io.Reader, damaged func(format string, args ...any)) error {
	source := &source{r: r}
	d := json.NewDecoder(source)
	n := 0
	var err error
	for err == nil {
		err = checkArray(d, func() {
			n++
			source.checked = d.InputOffset()
		})
	}
	if source.err != nil {
		return source.err
	}
	if !errors.Is(err, io.EOF) {
		damaged("the array is damaged after %d events, at byte %d: %v", n, d.InputOffset(), err)
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// checkArray reads one array and calls event for each of its events. io.EOF says that no array follows.
func checkArray(d *json.Decoder, event func()) error {
	begin, err := d.Token()
	if err != nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("%v is no array", begin)
	}
	for d.More() {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return err
		}
		if len(text) > maxLine {
			return errLong
		}
		event()
	}
	if _, err = d.Token(); errors.Is(err, io.EOF) { // the end of the array
		return io.ErrUnexpectedEOF
	}
	return err
}

// source keeps the reader's own error apart from the decoder's, and bounds what the decoder holds.
type source struct {
	r             io.Reader
	err           error
	read, checked int64 // bytes
}

// Read implements io.Reader. A line that is too long is an error.
func (s *source) Read(p []byte) (int, error) {
	if s.read-s.checked > maxLine {
		return 0, errLong
	}
	n, err := s.r.Read(p)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
