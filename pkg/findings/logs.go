package findings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/logfiles"
)

// Of a long log only the end is read, so that the cost of a report does not depend on how much a session logged.
const (
	maxWholeLog = 4 << 20  // a log up to this size is read whole, and its lines have numbers
	maxLogEnd   = 1 << 20  // bytes that are read from the end of a longer log
	maxLogBytes = 24 << 20 // bytes of all logs of one report
	maxLogs     = 400      // number of logs of one report
)

// logText is a log, or the end of a long one.
type logText struct {
	file  logfiles.File
	text  string
	whole bool
}

// read returns a log. It returns an empty one if the log is not stored, or if the limits of the report are reached.
func (b *builder) read(ctx context.Context, file logfiles.File) (*logText, error) {
	if known := b.logs[file]; known != nil {
		return known, nil
	}
	l := &logText{file: file}
	b.logs[file] = l
	if len(b.logs) > maxLogs || b.logBytes+maxWholeLog > b.maxLogBytes {
		b.unread++
		return l, nil
	}
	f, err := b.s.Logs.Open(ctx, file.Node, file.Path)
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	start := int64(0)
	if l.whole = f.Size() <= maxWholeLog; !l.whole {
		start = f.Size() - maxLogEnd
	}
	data, err := f.ReadRange(ctx, start, f.Size())
	if err != nil {
		return nil, err
	}
	if !l.whole {
		if _, after, cut := bytes.Cut(data, []byte("\n")); cut {
			data = after
		}
	}
	b.logBytes += int64(len(data))
	l.text = string(data)
	return l, nil
}

// evidence returns the text between two offsets of the log.
func (b *builder) evidence(l *logText, from, to int) Evidence {
	e := Evidence{Source: "log", NodeID: l.file.Node.String(), File: l.file.Path, Text: l.text[from:to], Link: b.logLink(l.file)}
	if l.whole {
		e.Line = 1 + strings.Count(l.text[:from], "\n")
	}
	if t := b.logTime(e.Text); t != 0 {
		e.Time = stamp(t)
	}
	return e
}

// line returns where the line around an offset begins and ends.
func (l *logText) line(at int) (from, to int) {
	from = strings.LastIndexByte(l.text[:at], '\n') + 1
	if end := strings.IndexByte(l.text[at:], '\n'); end >= 0 {
		return from, at + end
	}
	return from, len(l.text)
}

// lastLines returns where the last n lines of the log begin.
func (l *logText) lastLines(n int) int {
	at := len(strings.TrimRight(l.text, "\n"))
	for range n {
		if at = strings.LastIndexByte(l.text[:at], '\n'); at < 0 {
			return 0
		}
	}
	return at + 1
}

// logTime returns the time at the beginning of a line of Ray's own logs, such as "[2026-11-22 00:33:28,988 W …", in Unix ns; 0 if there is none.
func (b *builder) logTime(line string) int64 {
	if len(line) < 24 || line[0] != '[' {
		return 0
	}
	return b.timeOf(line[1:24])
}

// timeOf parses a time in the cluster's time zone, such as "2026-11-22 00:52:37,023". It returns Unix ns; 0 if the text is no time.
func (b *builder) timeOf(s string) int64 {
	t, err := time.ParseInLocation("2006-01-02 15:04:05,000", s, b.zone)
	if err != nil {
		return 0
	}
	return t.UnixNano()
}

func stamp(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Links are paths in the history server: the dashboard's own pages, below the session's address.

func (b *builder) link(format string, args ...any) string {
	return b.base + fmt.Sprintf(format, args...)
}

func (b *builder) logLink(f logfiles.File) string {
	return b.link("#/logs/viewer?nodeId=%s&fileName=%s", f.Node, url.QueryEscape(f.Path))
}

// nodeFiles returns the logs of all nodes whose paths satisfy a condition, in order. Paths beyond the limit are not returned but counted as
// unread.
func (b *builder) nodeFiles(most int, is func(path string) bool) (files []logfiles.File) {
	for _, node := range b.s.Logs.Nodes() {
		for _, path := range b.s.Logs.Paths(node) {
			if is(path) {
				if len(files) == most {
					b.unread++
					continue
				}
				files = append(files, logfiles.File{Node: node, Path: path})
			}
		}
	}
	return files
}
