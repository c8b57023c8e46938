package explain

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxQueue is how many sessions of a namespace wait, and maxLooked how many sessions one look considers.
const maxQueue, maxLooked = 50, 100_000

// queue has the sessions that are explained next: namespaces take turns, and of one the most urgent session comes
// first.
type queue struct {
	waiting []catalog.Entry
	served  map[string]uint64 // when it was a namespace's turn
	turns   uint64
}

// fill replaces the queue by those of all sessions that are due.
func (q *queue) fill(all iter.Seq[catalog.Entry], due func(catalog.Entry) bool) {
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

// remove removes a session.
func (q *queue) remove(ref layout.Session) {
	q.waiting = slices.DeleteFunc(q.waiting, func(e catalog.Entry) bool { return e.Ref == ref })
}

// next takes the newest session of the namespace whose last turn was longest ago; there must be one. Sessions whose
// outcome is not known come before all that are only explained again.
func (q *queue) next() catalog.Entry {
	e := slices.MinFunc(q.waiting, func(a, b catalog.Entry) int {
		switch known := a.Outcome != ""; {
		case known == (b.Outcome != ""):
			return cmp.Or(cmp.Compare(q.served[a.Ref.Namespace], q.served[b.Ref.Namespace]), b.Start.Compare(a.Start))
		case known:
			return 1
		}
		return -1
	})
	q.remove(e.Ref)
	q.turns++
	q.served[e.Ref.Namespace] = q.turns
	return e
}
