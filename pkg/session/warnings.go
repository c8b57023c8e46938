package session

import (
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
)

// maxWarnings is how many single warnings a session keeps; others are counted.
const maxWarnings = 100

// warnings collects sentences about what could not be read.
type warnings struct {
	list []string
	more int
}

// add adds a warning. Beyond maxWarnings they are only counted.
func (w *warnings) add(format string, args ...any) {
	if len(w.list) == maxWarnings {
		w.more++
		return
	}
	w.list = append(w.list, fmt.Sprintf(format, args...))
}

// addOnce adds a warning, unless the same one was added before.
func (w *warnings) addOnce(warning string) {
	if !slices.Contains(w.list, warning) {
		w.list = append(w.list, warning)
	}
}

// takeBack removes a warning, if it was added.
func (w *warnings) takeBack(warning string) {
	w.list = slices.DeleteFunc(w.list, func(s string) bool { return s == warning })
}

// addReplayed warns of what was damaged in a stream that was just read.
func (w *warnings) addReplayed(key string, r replayed) {
	if r.damaged > 0 {
		w.add("%s: %s skipped", key, human.Count(r.damaged, "damaged part"))
	}
	cut := key + ": the last event is cut"
	w.takeBack(cut) // its rest may have come
	if r.cut {
		w.add("%s", cut)
	}
}

// all returns the warnings, sorted, and then one for each count of c that is not 0. The first damage of them are about
// damaged or missing data; those behind are about what this version does not know.
func (w *warnings) all(c eventjson.Counts) (all []string, damage int) {
	all = slices.Sorted(slices.Values(w.list))
	if w.more > 0 {
		all = append(all, fmt.Sprintf("and %s", human.Count(w.more, "more warning")))
	}
	for _, n := range []struct {
		events int64
		what   string // behind "1 event " or "2 events "
	}{
		{c.Foreign, "of another session skipped"},
		{c.Damaged, "without the ID of the task, actor or other thing skipped"},
		{c.BadTimes, "with an invalid time"},
	} {
		if n.events > 0 {
			all = append(all, human.Count(int(n.events), "event")+" "+n.what)
		}
	}
	damage = len(all)
	if c.Unknown > 0 {
		all = append(all, human.Count(int(c.Unknown), "event")+" of an unknown type skipped")
	}
	return all, damage
}
