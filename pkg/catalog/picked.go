package catalog

import (
	"iter"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// Picked are some sessions of a listing. It takes eight bytes for each.
type Picked struct {
	list   *list
	places []place
	now    int64
}

// ByPackDay gives the sessions that a filter passes, by layout.PackDay.
func (l Listing) ByPackDay(f Filter, now time.Time) map[time.Time]Picked {
	days := make(map[time.Time]Picked)
	for p := range places(l.match(&f, now)) {
		day := layout.PackDay(layout.Session{Name: string(l.list.blocks[p.block].name(int(p.row)))})
		picked := days[day]
		days[day] = Picked{l.list, append(picked.places, p), now.UnixMicro()}
	}
	return days
}

// Len is their number.
func (p Picked) Len() int { return len(p.places) }

// All gives them, newest first.
func (p Picked) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, at := range p.places {
			if !yield(p.list.entry(at, p.now)) {
				return
			}
		}
	}
}
