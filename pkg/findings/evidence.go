package findings

import (
	"fmt"
	"net/url"
	"time"
)

// evidence returns the text between two offsets of a log, with its place and its time.
func (b *builder) evidence(l *logText, from, to int) Evidence {
	e := Evidence{Source: "log", NodeID: l.file.Node.String(), File: l.file.Path, Text: l.text[from:to],
		Link: b.link("#/logs/viewer?nodeId=%s&fileName=%s", l.file.Node, url.QueryEscape(l.file.Path))}
	if l.file.Path == "" { // Ray's message about a job has it
		e = Evidence{Source: "snapshot", Text: e.Text}
	}
	e.Line = lineNumber(l.text, l.marks, from)
	if t := b.logs.timeOf(e.Text); t != 0 {
		e.Time = timestamp(t)
	}
	return e
}

// lineEvidence returns the lines of a match as evidence.
func (b *builder) lineEvidence(m match) Evidence {
	from, to := m.lineBounds()
	return b.evidence(m.log, from, to)
}

// How many lines at the end of a log are shown of a worker, of the GCS and of a driver.
const workerTail, gcsTail, driverTail = 5, 5, 12

// tailEvidence returns the last n lines of a log as evidence, which is empty if the lines are blank.
func (b *builder) tailEvidence(l *logText, n int) Evidence {
	return b.evidence(l, l.lastLinesStart(n), len(l.text))
}

// timestamp returns Unix nanoseconds as RFC 3339 with milliseconds; "" for 0, a time that is not known.
func timestamp(ns int64) string {
	if ns <= 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000Z")
}

// clock returns a time (Unix ns) as titles have it: only the time of the day, unless the session lasted longer than a
// day.
func (b *builder) clock(ns int64) string {
	form := time.TimeOnly
	if max(b.sessionEnd(), ns)-b.session.Start > int64(24*time.Hour) {
		form = time.DateTime
	}
	return time.Unix(0, ns).UTC().Format(form + " UTC")
}

// Links are paths in the history server: the dashboard's own pages, below the session's address.

func (b *builder) link(format string, args ...any) string {
	return b.base + fmt.Sprintf(format, args...)
}
