package explain

import (
	"iter"
	"slices"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxQueue is how many sessions of a namespace wait, and maxLooked how many sessions one look considers.
const maxQueue, maxLooked = 50, 100_000

// queue has the sessions that are explained next: namespaces take turns, and of one the most urgent session comes
// first.
type queue struct {
	waiting map[string][]catalog.Entry // by namespace
	served  map[string]uint64          // when it was a namespace's turn
	turns   uint64
}

// fill replaces the queue by those of all sessions that are due.
func (q *queue) fill(all iter.Seq[catalog.Entry], due func(catalog.Entry) bool) {
	q.waiting = make(map[string][]catalog.Entry)
	n := 0
	for e := range all {
		if n++; n > maxLooked {
			break
		}
		if waiting := q.waiting[e.Ref.Namespace]; len(waiting) < maxQueue && due(e) {
			q.waiting[e.Ref.Namespace] = append(waiting, e)
		}
	}
	for namespace := range q.served {
		if q.waiting[namespace] == nil {
			delete(q.served, namespace)
		}
	}
}

// remove removes a session.
func (q *queue) remove(ref layout.Session) {
	waiting := q.waiting[ref.Namespace]
	if waiting = slices.DeleteFunc(waiting, func(e catalog.Entry) bool { return e.Ref == ref }); len(waiting) > 0 {
		q.waiting[ref.Namespace] = waiting
	} else {
		delete(q.waiting, ref.Namespace)
	}
}

func (q *queue) any() bool { return len(q.waiting) > 0 }

// next takes the first session of the namespace whose last turn was longest ago; there must be one. Sessions whose
// outcome is not known come before all that are only explained again.
func (q *queue) next() catalog.Entry {
	var best string
	var first *catalog.Entry
	for namespace, all := range q.waiting {
		e := &all[0]
		if first == nil || q.before(e, namespace, first, best) {
			best, first = namespace, e
		}
	}
	e := *first
	if rest := q.waiting[best][1:]; len(rest) > 0 {
		q.waiting[best] = rest
	} else {
		delete(q.waiting, best)
	}
	q.turns++
	q.served[best] = q.turns
	return e
}

// before says whether the first session of a namespace is explained before that of another one.
func (q *queue) before(a *catalog.Entry, aNamespace string, b *catalog.Entry, bNamespace string) bool {
	if known := a.Outcome != ""; known != (b.Outcome != "") {
		return !known
	}
	if q.served[aNamespace] != q.served[bNamespace] {
		return q.served[aNamespace] < q.served[bNamespace]
	}
	return a.Start.After(b.Start)
}
