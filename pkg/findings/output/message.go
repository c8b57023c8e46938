package output

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/logline"
)

// counted matches what pydantic says before it tells which fields are wrong.
var counted = lazyregexp.New(`^\d+ validation errors? for `)

// goesOn reports whether the first line of a message says little without the next one: "Version mismatch: the cluster was started with:".
func goesOn(first string) bool {
	first = strings.TrimSpace(first)
	return first == "" || strings.HasSuffix(first, ":") || counted().MatchString(first)
}

// restOfMessage joins the lines that a message goes on with: up to an empty line, frames, another traceback, or a record of a log.
func restOfMessage(text string) string {
	var rest []string
	size := 0
	for line := range strings.Lines(text[:min(len(text), 4*MaxText)]) {
		line = strings.TrimRight(line, "\r\n")
		said := strings.Join(strings.Fields(Printable(line)), " ")
		switch {
		case said == "" && size == 0:
			continue
		case said == "", said == directCause, said == whileHandling, frameLine().MatchString(line), boxed(line), remote().MatchString(line), ofWorker().MatchString(line),
			strings.Contains(line, TracebackStart), logline.Parse([]byte(line), &logline.Clock{}).Begins():
			return Clip(strings.Join(rest, " "), MaxMessage)
		case marksLine().MatchString(line):
			continue
		}
		rest = append(rest, said)
		if size += len(said) + 1; size > MaxMessage {
			break
		}
	}
	return Clip(strings.Join(rest, " "), MaxMessage)
}
