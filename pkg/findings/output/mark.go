package output

import (
	"bytes"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// A mark is what Ray puts before each line that it copies from another process to a driver's log (print_worker_logs in
// worker.py of Ray): "(raylet) ", or the name of what ran there, if it had one, and the process's ID: "(f pid=12) ". Of
// the GCS it is "(pid=gcs_server) ". It has a colour, or the address of another node. Without both it looks like what
// programs put before the lines of processes of their own, as vLLM does: ColourMark tells them apart.
const (
	process = `(?:([^\n]{1,300}?),? )?pid=(?:\d+|gcs_server)`
	mark    = `(?m)^(?:\x1b\[\d+m\((?:raylet|autoscaler|` + process + `)|\((?:raylet|autoscaler|` + process +
		`, ip=))[^()\n]{0,100}\)(?:\x1b\[0m)? ?`
	ownMark = `(?:\x1b\[[\d;]+m)?\((?:[^\n]{1,300}? )?pid=(\d+)\)(?:\x1b\[[\d;]+m)? ?` // of a program
)

var (
	workerMark = lazyregexp.New(mark)
	// copiedLine matches a line from another process, with its mark and its end, and below Ray's line about a raylet
	// that has ended the last lines of its log.
	copiedLine = lazyregexp.New(mark + `(?:.* lines of the Raylet logs:(?:\n    .*)*|.*)(?:\n|\z)`)
	// processMark matches what a program puts before the lines of a process of its own: "(EngineCore pid=7) ". Its
	// group is the ID. A mark of Ray without a colour looks the same.
	processMark = lazyregexp.New(`(?m)^` + ownMark)
	// marksAround matches the marks of a line, and what Ray puts behind it if several workers printed it: "[repeated 3x
	// across cluster] (Ray deduplicates logs by default.)".
	marksAround = lazyregexp.New(mark + `(?:` + ownMark + `)?|(?:\x1b\[\d+m)? ?\[repeated \d+x across cluster\].*$`)
)

// OwnLines returns a part of a driver's log without the lines that Ray copied from other processes.
func OwnLines(text string) string { return copiedLine().ReplaceAllString(text, "") }

// rayletLine matches a line that Ray copied from a raylet into a driver's log: what worker processes print before they
// have a job is there, too.
var rayletLine = lazyregexp.New(`(?m)^(?:\x1b\[\d+m)?\(raylet[^()\n]{0,100}\)(?:\x1b\[0m)? ?([^\[\n][^\n]*)$`)

// pushedByRay matches the messages about nodes, disks and other workers that Ray prints under a raylet's name.
var pushedByRay = lazyregexp.New(`^(?:The node with node id\b|\s*\([123]\)|A worker died or was killed\b|` +
	`\d+ Workers? \(tasks|(?:Task|Actor) .* failed\. There |Raylet is terminated\b|(?i:warning: )|[\w/]+\.cc:\d+: |` +
	`Spilled |Restored )`)

// SaidByRaylet returns the last error of worker processes that Ray copied from a raylet into a driver's log; "" if
// there is none. Lines of the raylet itself begin with "[", or are messages of Ray.
func SaidByRaylet(log string) string {
	var printed strings.Builder
	for _, m := range rayletLine().FindAllStringSubmatch(lastText(log), -1) {
		if !pushedByRay().MatchString(m[1]) {
			printed.WriteString(m[1] + "\n")
		}
	}
	return ToolError(printed.String())
}

// MarkWithin returns where a mark with a colour begins in a text behind something else in its line, which begins with
// no mark; -1 if there is none. Ray prints so where a program has not ended its line.
func MarkWithin(text []byte) int {
	const colour, maxMark = len("\x1b[36m"), 512
	isMark := func(from int) bool {
		m := workerMark().FindIndex(text[from:min(len(text), from+maxMark)])
		return m != nil && m[0] == 0
	}
	for at := colour; ; at++ {
		n := bytes.Index(text[min(at, len(text)):], []byte("m("))
		if n < 0 {
			return -1
		}
		at += n
		from := at + 1 - colour
		line := bytes.LastIndexByte(text[:max(0, from)], '\n') + 1
		if from > line && text[from] == '\x1b' && isMark(from) && !isMark(line) {
			return from
		}
	}
}

// AsCopied returns what a worker printed last, as Ray copies it to a driver's log: each line behind a mark.
func AsCopied(printed, who string) string {
	var copied strings.Builder
	for line := range strings.Lines(lastText(printed)) {
		copied.WriteString("\x1b[36m(" + who + " pid=0)\x1b[0m " + line)
	}
	return copied.String()
}

// withoutMarks returns a part of a driver's log without Ray's marks and the notes behind lines that several workers
// printed.
func withoutMarks(text string) string { return marksAround().ReplaceAllString(text, "") }

// OfOwnProcess reports whether a text begins with the name of a process that a program itself started, as a mark before
// the first line.
func OfOwnProcess(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	return processMark().MatchString(line) && !workerMark().MatchString(line)
}

// ColourMark returns a line with a colour before it if it begins with a mark of Ray without a colour
// (RAY_COLOR_PREFIX=0), so that it is recognised as one. It is Ray's if workers has the ID of the process in it.
func ColourMark(line []byte, workers map[string]bool) []byte {
	if m := processMark().FindSubmatch(line); m != nil && line[0] == '(' && workers[string(m[1])] {
		return append([]byte("\x1b[36m"), line...)
	}
	return line
}
