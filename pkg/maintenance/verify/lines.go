package verify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxLine is the longest line that is looked at: a collector takes no larger batch.
const maxLine = 64 << 20

// maxTold is how many bad lines of one stream are reported.
const maxTold = 10

// checkLines reads events: JSON Lines, or a JSON array as KubeRay writes. Errors are the reader's.
func checkLines(r io.Reader, damaged func(format string, args ...any)) error {
	b := bufio.NewReaderSize(r, 256<<10)
	if first, err := b.Peek(1); err == nil && first[0] == '[' {
		return checkArray(b, damaged)
	}
	lines, bad := 0, 0
	scanner := bufio.NewScanner(b)
	scanner.Buffer(nil, maxLine)
	cut := false // the last line lacks its end
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		n, line, err := bufio.ScanLines(data, atEOF)
		cut = atEOF && n == len(line)
		return n, line, err
	})
	for scanner.Scan() {
		lines++
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 || json.Valid(line) {
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

func checkArray(r io.Reader, damaged func(format string, args ...any)) error {
	source := &remembering{r: r}
	d := json.NewDecoder(source)
	_, err := d.Token()
	n := 0
	for err == nil && d.More() {
		var event json.RawMessage
		if err = d.Decode(&event); err == nil {
			n++
		}
	}
	if err == nil {
		_, err = d.Token() // the end of the array
	}
	if source.err != nil {
		return source.err
	}
	if err != nil {
		damaged("the array is damaged after %d events, at byte %d: %v", n, d.InputOffset(), err)
	}
	_, err = io.Copy(io.Discard, r)
	return err
}

// remembering keeps the reader's own error apart from the decoder's.
type remembering struct {
	r   io.Reader
	err error
}

func (m *remembering) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		m.err = err
	}
	return n, err
}
