package explain

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxQueue is how many sessions of a namespace may wait, and maxLooked how many sessions refill considers.
const maxQueue, maxLooked = 50, 100_000

// queue has the sessions that are explained next: namespaces take turns, and of one the most urgent session comes
// first.
type queue struct {
	waiting []catalog.Entry
	served  map[string]uint64 // the number of each namespace's last turn; 0: it had none
	turns   uint64            // so far
}

// refill replaces the queue by those of all sessions for which due returns true, at most maxQueue of a namespace.
func (q *queue) refill(all iter.Seq[catalog.Entry], due func(catalog.Entry) bool) {
	q.waiting = nil
	waiting, n := make(map[string]int), 0 // by namespace
	for e := range all {
		if n++; n > maxLooked {
			break
		}
		if waiting[e.Ref.Namespace] < maxQueue && due(e) {
			waiting[e.Ref.Namespace]++
			q.waiting = append(q.waiting, e)
		}
	}
	maps.DeleteFunc(q.served, func(namespace string, _ uint64) bool { return waiting[namespace] == 0 })
}

// remove removes a session from the queue, if it is in it.
func (q *queue) remove(ref layout.Session) {
	q.waiting = slices.DeleteFunc(q.waiting, func(e catalog.Entry) bool { return e.Ref == ref })
}

// take removes the next session from the queue, which must not be empty, and returns it: the newest session of the
// namespace whose last turn was longest ago. Sessions without an outcome come before all that are only explained again.
func (q *queue) take() catalog.Entry {
	e := slices.MinFunc(q.waiting, func(a, b catalog.Entry) int {
		switch aKnown, bKnown := a.Outcome != "", b.Outcome != ""; {
		case aKnown && !bKnown:
			return 1
		case bKnown && !aKnown:
			return -1
		}
		return cmp.Or(cmp.Compare(q.served[a.Ref.Namespace], q.served[b.Ref.Namespace]), b.Start.Compare(a.Start))
	})
	q.remove(e.Ref)
	q.turns++
	q.served[e.Ref.Namespace] = q.turns
	return e
}
