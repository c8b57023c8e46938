package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/internal/jsonstream"
)

// maxLine is the longest line that is checked, in bytes: a collector takes no larger batch.
const maxLine = 64 << 20

// maxReported is how many bad lines of one stream are reported one by one.
const maxReported = 10

// checkLines checks that events are JSON Lines, or JSON arrays as KubeRay writes them, and calls damaged for each error
// in them. The returned error is the reader's.
func checkLines(r io.Reader, damaged func(format string, args ...any)) error {
	b := bufio.NewReaderSize(r, 256<<10)
	if first, err := b.Peek(1); err == nil && first[0] == '[' {
		return checkArrays(b, damaged)
	}
	lines, bad := 0, 0
	scanner := bufio.NewScanner(b)
	scanner.Buffer(nil, maxLine)
	cut := false // the last line has no newline
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		// Blank lines are skipped at once: a few kilobytes may decode to hundreds of millions of them.
		rest := bytes.TrimLeft(data, " \t\r\n")
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
		if bad++; bad <= maxReported {
			what := "is not JSON"
			if cut {
				what = "is cut"
			}
			damaged("line %d %s: %.80q", lines, what, line)
		}
	}
	if bad > maxReported {
		damaged("%d of %d lines are not JSON", bad, lines)
	}
	if err := scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		damaged("line %d is longer than %d bytes", lines+1, maxLine)
	} else if err != nil {
		return err
	}
	return nil
}

// checkArrays checks arrays of events, one after the other, because KubeRay appends arrays to arrays. It calls damaged
// for the first error in them. The returned error is the reader's.
func checkArrays(r io.Reader, damaged func(format string, args ...any)) error {
	stream := jsonstream.New(r, maxLine)
	n := 0
	var err error
	for err == nil {
		err = checkArray(stream, &n)
	}
	if stream.Failed() != nil {
		return stream.Failed()
	}
	if !errors.Is(err, io.EOF) {
		damaged("the array is damaged after %d events, at byte %d: %v", n, stream.Offset(), err)
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// checkArray checks one array, and adds the number of its events to events. The error is io.EOF if no array follows.
func checkArray(stream *jsonstream.Reader, events *int) error {
	begin, err := stream.Token()
	if err != nil {
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("%v is no array", begin)
	}
	for stream.More() {
		var text json.RawMessage
		if err := stream.Value(&text); err != nil {
			return err
		}
		if len(text) > maxLine {
			return jsonstream.ErrLarge
		}
		*events++
	}
	if _, err = stream.Token(); errors.Is(err, io.EOF) { // the end of the array
		return io.ErrUnexpectedEOF
	}
	return err
}
