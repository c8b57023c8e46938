package index

import "github.com/rayhistory/historyserver/pkg/layout"

// maxRemembered bounds what is remembered of sessions: some hundred bytes of each.
const maxRemembered = 10_000

// remembered holds something of at most maxRemembered sessions. Any one is forgotten for a new one: then its work is
// done once more. It is a map without a lock of its own, because its owner changes it together with other fields.
type remembered[V any] map[layout.Session]V

func (r remembered[V]) set(ref layout.Session, v V) {
	if _, known := r[ref]; !known && len(r) >= maxRemembered {
		for other := range r {
			delete(r, other)
			break
		}
	}
	r[ref] = v
}
