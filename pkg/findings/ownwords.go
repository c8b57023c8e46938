package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// general holds exceptions that programs raise to say that they cannot go on, whatever the reason is.
var general = map[string]bool{"": true, "RuntimeError": true, "AssertionError": true, "Exception": true, "SystemExit": true}

// ownBugs holds exceptions that a program raises because of a mistake of its own. A driver that raised one of them did not end because tasks had
// failed.
var ownBugs = map[string]bool{
	"KeyError": true, "IndexError": true, "TypeError": true, "AttributeError": true, "NameError": true, "UnboundLocalError": true, "ZeroDivisionError": true,
	"ImportError": true, "ModuleNotFoundError": true, "SyntaxError": true, "IndentationError": true, "RecursionError": true, "NotImplementedError": true,
	"FileNotFoundError": true, "PermissionError": true, "IsADirectoryError": true, "NotADirectoryError": true, "UnicodeDecodeError": true, "MemoryError": true,
	"KeyboardInterrupt": true, "JSONDecodeError": true, "ConnectionError": true, "ConnectionRefusedError": true,
}

// aboutFailures matches what a program says about the failures of others: a summary, such as "3 of 8 shards failed" or "No best trial found".
var aboutFailures = lazyregexp.New(`(?i)\b(?:fail\w*|errors?|errored|unsuccessful|incomplete|aborted|crashed|died|dead|lost|missing|broken|unhealthy|` +
	`not (?:all|enough|complete|placed|ready|available)|none of|no (?:best|trial|result|successful|worker|healthy)\w*|only \d+ (?:of|out of)|\d+ ?(?:of|/|out of) ?\d+|could not|couldn't|cannot|unable|gave up|giving up)\b`)

// linkFailures links a driver that ended with words of its own to what had failed in its job before, and was not repaired by a retry: the driver
// tells only that it could not go on. If what it raised is its own mistake, only the failure's evidence is shown.
func (b *builder) linkFailures(f *finding, j *job, e *driverEnd) {
	if ownBugs[e.what.Type] {
		b.linkSwallowed(f, j, e)
		return
	}
	if j.id.Nil() || e.signal != "" || f.Kind == RuntimeEnv || f.Kind == Entrypoint {
		return
	}
	said := e.what.Message + " " + e.what.Rest
	if e.what.Type == "" {
		said = e.lastWords()
	}
	summary := aboutFailures().MatchString(said) && e.what.Type != "OutOfMemoryError"
	for _, other := range b.all {
		ofServe := other.Kind == Serve && e.log != nil && (len(b.jobs) == 1 || other.namedIn(output.OwnLines(e.log.text)))
		if other == f || other.ended || other.wanted || other.lasting == 0 || other.job != j.id && !ofServe || other.Kind == Pod {
			continue
		}
		if (other.Kind == Data || other.Kind == Train) && other.what.Type == "" {
			if len(other.because) == 0 {
				other.causedBy(f) // nothing says why the run failed
			}
			continue
		}
		// Soon after a failure an end without a reason of its own is its consequence; later only if the driver speaks of failures.
		if summary || other.Kind == Unschedulable && e.what.Function == "" || general[e.what.Type] && j.ended-other.last <= atTheEnd {
			f.causedBy(other)
		}
	}
}

// linkSwallowed links a driver that ended with a mistake of its own to a failure that it had caught shortly before and that left something out that it
// then lacked: what it lacked is named in the failure, or was None instead.
func (b *builder) linkSwallowed(f *finding, j *job, e *driverEnd) {
	if j.id.Nil() || e.what.Function != "" || e.what.Type != "KeyError" && e.what.Type != "TypeError" && e.what.Type != "AttributeError" {
		return
	}
	lacked := strings.Trim(e.what.Message, `'" `)
	for _, other := range b.all {
		if other.Kind != TaskFailed || other.ended || other.wanted || other.lasting == 0 || other.job != j.id || j.ended-other.last > atTheEnd {
			continue
		}
		if strings.Contains(e.what.Message, "NoneType") || e.what.Type == "KeyError" && len(lacked) > 2 && mentionsPart(other.what.Message, lacked) {
			f.causedBy(other)
		}
	}
}

// mentionsPart reports whether a text contains a name as a word, or as a part of a path.
func mentionsPart(text, name string) bool {
	return mentions(strings.ReplaceAll(text, "/", " "), name)
}
