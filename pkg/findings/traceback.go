package findings

import (
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

const (
	tracebackStart = "Traceback (most recent call last):"
	frame          = "  File " // begins the line below
	directCause    = "The above exception was the direct cause of the following exception:"
	whileHandling  = "During handling of the above exception, another exception occurred:"
)

// groupStart is the line that heads the traceback of several exceptions, and groupRaised the one that names them together.
var (
	groupStart  = expression(`(?m)^[ +|]*Exception Group Traceback \(most recent call last\):$`)
	groupRaised = expression(`(?m)^[ |]*((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*): (.* \(\d+ sub-exceptions?\))$`)
)

// lastGroup is the exception group that a log ends with, and the offset where its traceback begins; -1 if there is none.
func lastGroup(log string) (e exception, at int) {
	starts := groupStart().FindAllStringIndex(log, -1)
	for i := len(starts) - 1; i >= 0; i-- {
		// Groups in a group have a margin: the outermost begins with the first one.
		if from := starts[i][0]; i == 0 || !strings.HasPrefix(log[from:], "    ") {
			if m := groupRaised().FindStringSubmatch(log[from:]); m != nil {
				return exception{Type: m[2], Message: clip(m[3], maxMessage)}, from
			}
		}
	}
	return e, -1
}

// lastTraceback is the last traceback in a log with those that it was raised because of, and the offset where it begins; -1 if there is none.
// Those of exceptions that did not end their process count if there are no others.
func lastTraceback(log string) (text string, at int) {
	at = -1
	for end := len(log); ; {
		from := tracebackBefore(log, end)
		if from < 0 {
			break
		}
		if heading := asideHeading(log, from); heading >= 0 {
			if at < 0 {
				text, at = log[from:], from
			}
			end = heading
			continue
		}
		if margin := marginOf(log, from); margin != "" {
			return withoutMargin(log[:end], margin)
		}
		return withCauses(log[:end], from)
	}
	if at < 0 {
		text, at = otherTraceback(log)
	}
	return text, at
}

// asideHeading is where the heading begins of a traceback whose exception did not end its process: a destructor or a function of atexit raised
// it, or a coroutine that nobody waits for. It is -1 if the traceback is of another kind.
func asideHeading(log string, at int) int {
	from, to := lineBefore(log, at)
	if line := log[from:to]; strings.HasPrefix(line, "Exception ignored ") || strings.HasPrefix(line, "Error in atexit") {
		return from
	} else if strings.HasPrefix(line, "future: ") || strings.HasPrefix(line, "handle: ") {
		from, to = lineBefore(log, from)
	}
	if line := log[from:to]; strings.Contains(line, " exception was never retrieved") || strings.Contains(line, "Exception in callback ") {
		return from
	}
	return -1
}

// lineBefore is the line above an offset where a line begins.
func lineBefore(log string, at int) (from, to int) {
	to = max(0, at-1)
	return strings.LastIndexByte(log[:to], '\n') + 1, to
}

// withCauses is a traceback with those before it that it was raised because of.
func withCauses(log string, at int) (text string, from int) {
	for {
		before := strings.TrimRight(log[:at], "\r\n ")
		if !strings.HasSuffix(before, directCause) && !strings.HasSuffix(before, whileHandling) {
			return log[at:], at
		}
		earlier := tracebackBefore(log, len(before))
		if earlier < 0 {
			return log[at:], at
		}
		at = earlier
	}
}

// tracebackBefore is where the last traceback before an offset begins: at a line's start, below what a launcher put there too, or after
// something that was printed without a line end, such as a progress bar.
func tracebackBefore(log string, end int) int {
	for {
		at := strings.LastIndex(log[:end], tracebackStart)
		if at <= 0 || log[at-1] == '\n' || unended(log, at) || marginOf(log, at) != "" {
			return at
		}
		end = at
	}
}

// unended says that a traceback begins after what was printed without a line end. After a space it is part of a message.
func unended(log string, at int) bool {
	line := log[strings.LastIndexByte(log[:at], '\n')+1 : at]
	return (strings.Contains(line, "\r") || !strings.HasSuffix(line, " ")) && strings.HasPrefix(below(log, at), frame)
}

// below is what follows the line that ends with tracebackStart; "" if the line goes on.
func below(log string, at int) string {
	rest := log[at+len(tracebackStart):]
	if next, ends := strings.CutPrefix(strings.TrimPrefix(rest, "\r"), "\n"); ends {
		return next
	}
	return ""
}

const maxMargin = 64

// marginOf is what a launcher put before each line of the traceback that begins at an offset, such as "[rank0]: "; "" if there is none. What Ray
// puts before what workers print, "(f pid=12) ", is not taken for one: it is not the driver's.
func marginOf(log string, at int) string {
	margin := log[strings.LastIndexByte(log[:at], '\n')+1 : at]
	if len(margin) > maxMargin || strings.Trim(margin, " |+") == "" || strings.Contains(margin, "(") || !strings.HasPrefix(below(log, at), margin+frame) {
		return ""
	}
	return margin
}

// withoutMargin is the last traceback of the lines that begin with a margin, without it, and the offset of its first line.
func withoutMargin(log, margin string) (text string, from int) {
	var lines strings.Builder
	var starts []int
	at := 0
	for line := range strings.Lines(log) {
		if inner, has := strings.CutPrefix(line, strings.TrimRight(margin, " ")); has {
			lines.WriteString(strings.TrimPrefix(inner, " "))
			starts = append(starts, at)
		}
		at += len(line)
	}
	inner := lines.String()
	last := strings.LastIndex(inner, "\n"+tracebackStart) + 1
	text, in := withCauses(inner, last)
	return text, starts[strings.Count(inner[:in], "\n")]
}

// ofWorker is how Ray begins a line in a driver's log that a worker, of any job, printed.
var ofWorker = expression(`(?m)^(?:\x1b\[\d+m)?\((?:raylet|autoscaler|[^\n]{1,300}? pid=\d+)[^()\n]{0,100}\).*(?:\n|\z)`)

// ownLines is a part of a driver's log without what workers printed.
func ownLines(text string) string { return ofWorker().ReplaceAllString(text, "") }

var (
	// notCompiled is how Python tells that it cannot compile what it should run.
	notCompiled = expression(`(?m)^  File "[^"\n]+", line \d+\n(?:    .*\n){0,3}(?:Syntax|Indentation|Tab)Error: .*$`)
	boxStart    = expression(`(?m)^╭─+ Traceback \(most recent call last\) ─+╮$`)
)

// boxed says that a line is part of a box that the library rich draws around a traceback's frames.
func boxed(line string) bool {
	return slices.ContainsFunc([]string{"│", "╭", "╰"}, func(edge string) bool { return strings.HasPrefix(line, edge) })
}

// otherTraceback is what a log without a traceback of the usual form tells of an exception, and its offset; -1 if that is nothing.
func otherTraceback(log string) (text string, at int) {
	if boxes := boxStart().FindAllStringIndex(log, -1); boxes != nil {
		at = boxes[len(boxes)-1][0]
		return log[at:], at
	}
	if m := notCompiled().FindStringIndex(log); m != nil {
		return log[m[0]:m[1]], m[0]
	}
	at = strings.LastIndex(log, tracebackStart+`\n`) // in a line of JSON
	if at < 0 {
		return "", -1
	}
	at = strings.LastIndexByte(log[:at], '\n') + 1
	line, _, _ := strings.Cut(log[at:], "\n")
	fields, err := pyjson.ParseObject([]byte(line))
	if err != nil {
		return "", -1
	}
	for name := range fields.All() {
		if told := fields.String(name); strings.Contains(told, tracebackStart) {
			text, _ = withCauses(told, max(0, tracebackBefore(told, len(told))))
			return text, at
		}
	}
	return "", -1
}
