package scrape

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/ray/jsontext"
)

// maxLine bounds one line. Ray's longest have about 500 bytes.
const maxLine = 64 << 10

// readExposition reads Prometheus's text format, and adds metrics and samples to t. lines counts the samples'
// lines, and bad the lines that are invalid or too long, which are skipped. It ignores the additions of OpenMetrics:
// timestamps, exemplars and units. The error is that of r. Source:
// prometheus.io/docs/instrumenting/exposition_formats.
func readExposition(r io.Reader, t *table) (lines, bad int, err error) {
	in := bufio.NewReaderSize(r, maxLine)
	var m samples.Metric // what the comments before this line describe
	flush := func() {
		if m.Name != "" {
			t.metric(m)
		}
		m = samples.Metric{}
	}
	defer flush()
	for {
		line, err := in.ReadSlice('\n') // the last line may have no end: then err is io.EOF
		tooLong := false
		for errors.Is(err, bufio.ErrBufferFull) {
			tooLong = true
			_, err = in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return lines, bad, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case tooLong:
			bad++
		case len(line) == 0:
		case line[0] == '#': // such as "# HELP ray_tasks Current number of tasks"
			if name, what, text := parseComment(line); name != "" {
				if name != m.Name { // it begins another metric
					flush()
					m.Name = name
				}
				switch {
				case what == "HELP" && m.Help == "":
					m.Help = unescape(text)
				case what == "TYPE" && m.Type == "":
					m.Type = text
				}
			}
		default: // such as "ray_tasks{State=\"RUNNING\"} 17"
			flush()
			lines++
			if sampleLine(line, t) != nil {
				bad++
			}
		}
		if err != nil {
			return lines, bad, nil
		}
	}
}

// parseComment reads "# HELP name text" and "# TYPE name type"; other comments have no name.
func parseComment(line []byte) (name, what, text string) {
	words := strings.SplitN(string(line), " ", 4)
	if len(words) < 4 || words[0] != "#" || (words[1] != "HELP" && words[1] != "TYPE") {
		return "", "", ""
	}
	return strings.ToValidUTF8(words[2], "\uFFFD"), words[1], strings.ToValidUTF8(words[3], "\uFFFD")
}

// errLine says that a line is invalid.
var errLine = errors.New("not a line of Prometheus's text format")

// sampleLine reads a line such as `name{label="value",…} value …`, and adds its sample to t: the spelling is the name
// with its labels, as it is written. The error is errLine if it is no such line.
func sampleLine(line []byte, t *table) error {
	spelling := line[:nameEnd(line)]
	if len(spelling) == 0 {
		return errLine
	}
	rest := bytes.TrimLeft(line[len(spelling):], " \t")
	if len(rest) > 0 && rest[0] == '{' {
		n := bracesEnd(rest)
		if n < 0 {
			return errLine
		}
		spelling = line[:len(line)-len(rest)+n]
		rest = rest[n:]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if i := bytes.IndexAny(rest, " \t"); i >= 0 {
		rest = rest[:i]
	}
	value, err := strconv.ParseFloat(string(rest), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range it is an infinity or 0, as for Prometheus
		return errLine
	}
	return t.sample(spelling, value)
}

// nameEnd returns where the metric's name ends with which a line begins; 0 if it begins with none.
func nameEnd(line []byte) int {
	for i, c := range line {
		if c != '_' && c != ':' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(line)
}

// bracesEnd returns the length of the `{…}` that s begins with, whose strings may contain braces; -1 if it has no end.
func bracesEnd(s []byte) int {
	quoted := false
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}

// maxLabels bounds the labels of one series.
const maxLabels = 128

// parseSpelling reads a series' name and labels from `name{label="value",…}`.
func parseSpelling(spelling []byte) (name string, labels []samples.Label, err error) {
	s := string(spelling)
	name, s, braces := strings.Cut(s, "{")
	name = strings.TrimRight(name, " \t")
	if !braces {
		return name, nil, nil
	}
	for {
		s = strings.TrimLeft(s, " \t,")
		if s == "}" {
			return name, labels, nil
		}
		end := nameEnd([]byte(s))
		label := s[:end]
		s = strings.TrimLeft(s[end:], " \t")
		if label == "" || !strings.HasPrefix(s, "=") || len(labels) == maxLabels {
			return "", nil, fmt.Errorf("%w: labels of %s", errLine, name)
		}
		s = strings.TrimLeft(s[1:], " \t")
		n := jsontext.StringEnd([]byte(s), 1) // where the closing quote is, as in JSON
		if !strings.HasPrefix(s, `"`) || n == len(s) {
			return "", nil, fmt.Errorf("%w: labels of %s", errLine, name)
		}
		labels = append(labels, samples.Label{Name: label, Value: unescape(s[1:n])})
		s = s[n+1:]
	}
}

var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`)

func unescape(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.Contains(s, `\`) {
		return s
	}
	return escapes.Replace(s)
}

// table adds the samples of an exposition to the encoder, up to a number of series of all endpoints and of this one.
type table struct {
	encoder *samples.Encoder
	max     int // of all endpoints' series
	share   int // of this one's
	taken   int // of the share
	// bytes that the table's definitions have, and may have: reads that each bring new ones must not add up
	defined, maxDefined int64
	dropped             int
}

const (
	// reserved is the part of a table that is kept free for each endpoint but the one that is read: none takes all.
	reserved = 8
	// maxSeries bounds a series' name and labels, in bytes; Ray's take about 300.
	maxSeries = 4 << 10
	// maxHelp bounds a metric's help, in bytes.
	maxHelp = 1 << 10
)

func (t *table) metric(m samples.Metric) {
	if len(m.Name)+len(m.Type) > maxSeries || t.defined >= t.maxDefined {
		return
	}
	m.Help = strings.ToValidUTF8(m.Help[:min(len(m.Help), maxHelp)], "")
	t.defined += int64(t.encoder.Metric(m))
}

// sample adds a sample of a target. spelling is its name and labels as the endpoint writes them. A sample of a new
// series is dropped and counted if the table or the target has too many series, or if their definitions take too many
// bytes.
func (t *table) sample(spelling []byte, value float64) error {
	if t.encoder.Sample(spelling, value) {
		return nil
	}
	if all, _ := t.encoder.Series(); all >= t.max || t.taken >= t.share || t.defined >= t.maxDefined ||
		len(spelling) > maxSeries {
		t.dropped++
		return nil
	}
	name, labels, err := parseSpelling(spelling)
	if err != nil {
		return err
	}
	t.defined += int64(t.encoder.Add(spelling, name, labels, value))
	t.taken++
	return nil
}
