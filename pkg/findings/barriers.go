package findings

import (
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// barrier matches what Data's and Train's own actors log while they wait for some of those that must come together: the
// readers of a dataset that was split (stream_split_iterator.py), the ranks of a run (sync_actor.py).
var barrier = lazyregexp.New(`\((SplitCoordinator|SynchronizationActor)( pid=\d+)[^)\n]{0,60}\)(?:\x1b\[0m)? ` +
	`(StreamSplitDataIterator\([^)\n]{1,60}\) blocked waiting on other clients\b[^.\n]{0,40}|` +
	`The workers have been waiting for [^\n]{1,40} for the following ranks to join the [^\n]{1,100}: \[[\d, ]{1,200}\])`)

// tellBarrier adds to the title about a wait which readers or ranks had not come to where the others waited, as the
// job's log tells last.
func (f *finding) tellBarrier(log *logText) {
	if who, said := waitsAtBarrier(log.text); who != "" && (f.Kind == Timeout || f.Kind == Unended) {
		f.appendTitle("; " + who + " printed: " + output.Clip(said, output.MaxMessage))
	}
}

// waitsAtBarrier returns which of Ray's actors was the last in a driver's log to say for whom it waited, and what it
// said; both are "" if none did, or if the log shows that the wait was over.
func waitsAtBarrier(log string) (who, said string) {
	all := barrier().FindAllStringSubmatchIndex(log, -1)
	if all == nil {
		return "", ""
	}
	last := all[len(all)-1]
	actor, after := log[last[2]:last[5]], log[last[1]:]
	switch who = log[last[2]:last[3]]; {
	case who == "SplitCoordinator" && strings.Contains(after, "("+actor),
		strings.Contains(after, "Reporting training result"):
		return "", ""
	}
	return who, log[last[6]:last[7]]
}
