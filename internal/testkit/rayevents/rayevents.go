// Package rayevents has events of one session that few clusters send: of the platform, of placement groups and of
// submissions. They were made by hand from Ray's own protobuf classes, with all fields set, in the form in which Ray's
// aggregator agent posts them: see make.py.
package rayevents

import (
	_ "embed"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

//go:embed events.jsonl
var jsonl string

// Session is the session of the events.
var Session = layout.Session{Namespace: "ml", Cluster: "lab", Name: "session_2026-11-22_10-00-00_000000_1"}

// nodes are its nodes; the second one died at 10:20:30.
var nodes = [2]rayid.Node{fill(1), fill(2)}

func fill(b byte) (n rayid.Node) {
	for i := range n {
		n[i] = b
	}
	return n
}

// Lines are the events, JSON each.
func Lines() []string { return strings.Split(strings.TrimSuffix(jsonl, "\n"), "\n") }

// Of are the events of some types, by the beginning of their names: "PLATFORM".
func Of(types ...string) (lines []string) {
	for _, line := range Lines() {
		for _, t := range types {
			if strings.Contains(line, `"eventType": "`+t) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// At is a time of the session's day, "10:00:00", in Unix nanoseconds.
func At(clock string) int64 {
	t, err := time.Parse(time.DateTime, "2026-11-22 "+clock)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return t.UnixNano()
}

// Key is where the head's collector stores the events.
func Key() string {
	return layout.NodeEventsKey(layout.DefaultRoot, Session, nodes[0], time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC))
}
