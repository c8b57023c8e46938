package output

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

const (
	maxLastText  = 16 << 10 // bytes at the end of a log that are looked at
	maxLastLines = 12       // lines of the program's own among them
)

var (
	// ofRay matches lines that Ray prints into the log of a job.
	ofRay = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t(?:INFO|DEBUG|WARNING) \S+\.py:\d+ -- |^Running entrypoint for job |^\[notice\] |^WARNING: There was an error checking the latest version of pip`)
	// names an error: what shells, pip, argparse, compilers and most programs print before they end with an exit code.
	saysError = lazyregexp.New(`(?i)\b(?:error|fatal|critical|panic|exception|cannot|can't|could not|couldn't|unable to|failed|failure|invalid|unrecognized|unrecognised|` +
		`denied|refused|aborted|aborting|missing|killed|unbound variable|(?:no|not) (?:such|found|matching|space|enough|set|defined|permitted|exist|a valid)\b|` +
		`not found|does not exist|doesn't exist|no module named|syntax error|segmentation fault|core dumped)`)
	noError = lazyregexp.New(`(?i)\b(?:0|no) (?:errors?|failures?|failed)\b`)
	letters = lazyregexp.New(`\pL`)
)

// LastWords returns the line at the end of a program's output that says best why the program ended: of its own last lines the last one that
// speaks of an error, or else the last one; before these what the runtime of its language says of a crash. Lines of Ray and of its workers do not count. It returns "" if there is no line.
func LastWords(log string) string {
	if said, _ := Crash(log); said != "" {
		return said
	}
	if len(log) > maxLastText {
		log = log[len(log)-maxLastText:]
	}
	lines := strings.Split(OwnLines(log), "\n")
	last, looked := "", 0
	for i := len(lines) - 1; i >= 0 && looked < maxLastLines; i-- {
		line := strings.TrimSpace(Printable(shownOf(lines[i])))
		if ofRay().MatchString(line) || !letters().MatchString(line) || frameLine().MatchString(line) {
			continue
		}
		looked++
		if last == "" {
			last = line
		}
		if saysError().MatchString(line) && !noError().MatchString(line) {
			return Clip(line, MaxTitle)
		}
	}
	return Clip(last, MaxTitle)
}

// shownOf returns what a terminal shows of a line: the text after its last carriage return.
func shownOf(line string) string {
	line = strings.TrimRight(line, "\r ")
	return line[strings.LastIndexByte(line, '\r')+1:]
}
