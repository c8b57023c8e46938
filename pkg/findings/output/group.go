package output

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

var (
	// groupStart matches the first line of an exception group's traceback, groupRaised the line that names the group (PEP 654).
	groupStart  = lazyregexp.New(`(?m)^[ +|]*Exception Group Traceback \(most recent call last\):$`)
	groupRaised = lazyregexp.New(`(?m)^[ |]*((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*): (.* \(\d+ sub-exceptions?\))$`)
	// groupPart matches the line above each exception in a group, and the line below the last one.
	groupPart = lazyregexp.New(`^[ |]*\+(?:-\+)?-{3,}(?: (?:\d+|\.\.\.) -{3,})?$`)
	isGroup   = lazyregexp.New(` \(\d+ sub-exceptions?\)$`)
)

const (
	maxGroupText = 64 << 10 // bytes of a group's text that are read
	maxInGroup   = 1000     // exceptions in a group that are counted
)

// LastGroup returns the first exception in the last exception group of a log, and the offset where the group's traceback begins; -1 if there is
// none. A group in which no exception is found is an exception itself.
func LastGroup(log string) (e Exception, at int) {
	starts := groupStart().FindAllStringIndex(log, -1)
	end := len(log)
	for i := len(starts) - 1; i >= 0; i-- {
		// Tracebacks of groups inside a group are indented by four spaces or more, the traceback of the outermost group is not. The line that
		// names it comes before the tracebacks inside.
		from := starts[i][0]
		if i == 0 || !strings.HasPrefix(log[from:], "    ") {
			if m := groupRaised().FindStringSubmatch(log[from:end]); m != nil {
				if e = inGroup(log[from:]); e.Type == "" {
					e = Exception{Type: m[2], Message: Clip(m[3], MaxMessage)}
				}
				return e, from
			}
		}
		end = from
	}
	return e, -1
}

// inGroup returns the first exception in the group whose traceback a text begins with. Groups in a group are not counted, but what is in them.
func inGroup(text string) (e Exception) {
	var part strings.Builder
	inside, found := false, 0
	finish := func() {
		defer part.Reset()
		if !inside {
			return
		}
		what := ofParts(part.String())
		if what.Type == "" || isGroup().MatchString(what.Message) {
			return
		}
		if found++; found == 1 {
			e = what
		}
	}
	first := true
	for line := range strings.Lines(text[:min(len(text), maxGroupText)]) {
		line = strings.TrimRight(line, "\r\n")
		if groupPart().MatchString(line) {
			finish()
			inside = true
			continue
		}
		inner, bar := strings.CutPrefix(strings.TrimLeft(line, " "), "|")
		if !bar && !first || found >= maxInGroup {
			break // the group is over
		}
		first = false
		part.WriteString(strings.TrimPrefix(inner, " ") + "\n")
	}
	finish()
	e.More = max(0, found-1)
	return e
}
