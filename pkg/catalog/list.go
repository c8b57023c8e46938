package catalog

import (
	"errors"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// list is the sorted list of sessions at one moment. It does not change.
type list struct {
	names  names
	blocks []*block
	rows   int // in all blocks
	quiet  time.Duration

	once    sync.Once
	counted summary // made by the first call of summary
}

// summary holds the counts that a list computes once.
type summary struct {
	namespaces []namespaceCounts
	duplicates map[place]bool // rows that are not shown, because another one is of the same session
}

// namespaceCounts are the counts for a namespace with sessions. A session that is stored in both layouts counts once.
type namespaceCounts struct {
	name               uint32
	clusters, sessions int
}

// place is the position of a row in a list.
type place struct{ block, row int32 }

// summary counts sessions, and finds those that are stored in both layouts, or twice in the newer one: of these only
// the row is shown that their address opens, which is that of the older layout, or else the first.
func (l *list) summary() *summary {
	l.once.Do(func() {
		s := summary{duplicates: make(map[place]bool)}
		clusters := l.names.clusters
		stored := make([]bool, len(clusters))
		for _, r := range l.everyRow() {
			stored[r.cluster] = true
		}
		// A cluster has a number for each form of its keys, and of these the same plain number. Only one that is stored
		// under several forms can have duplicates.
		forms := make([]int, len(clusters)) // how many forms are stored, by the cluster's plain number
		for number, c := range clusters {
			forms[c.plain] += boolToInt(stored[number])
		}
		type session struct {
			plain uint32
			name  string
		}
		sessions, shown := make([]int, len(clusters)), make(map[session]place)
		for p, r := range l.everyRow() {
			c := &clusters[r.cluster]
			if forms[c.plain] > 1 {
				key := session{c.plain, string(l.blocks[p.block].sessionName(int(p.row)))}
				other, known := shown[key]
				switch {
				case !known:
					shown[key] = p
				case c.version == layout.V16: // the older layout
					shown[key], s.duplicates[other] = p, true
				default:
					s.duplicates[p] = true
				}
				if known {
					continue
				}
			}
			sessions[c.plain]++
		}
		s.namespaces = l.countNamespaces(sessions)
		l.counted = s
	})
	return &l.counted
}

// everyRow returns all rows with their positions.
func (l *list) everyRow() iter.Seq2[place, *row] {
	return func(yield func(place, *row) bool) {
		for at, b := range l.blocks {
			for i := range b.rows {
				if !yield(place{int32(at), int32(i)}, &b.rows[i]) {
					return
				}
			}
		}
	}
}

// countNamespaces counts the clusters and sessions of each namespace. sessions has the number of sessions of each
// cluster, by the cluster's number; clusters without sessions do not count.
func (l *list) countNamespaces(sessions []int) (counts []namespaceCounts) {
	places := make(map[uint32]int)
	for number, n := range sessions {
		if n == 0 {
			continue
		}
		name := l.names.clusters[number].namespace
		at, ok := places[name]
		if !ok {
			at = len(counts)
			places[name] = at
			counts = append(counts, namespaceCounts{name: name})
		}
		counts[at].clusters++
		counts[at].sessions += n
	}
	return counts
}

// all returns the positions of all rows, without the second rows of sessions that are stored in both layouts.
func (l *list) all() iter.Seq[place] {
	return func(yield func(place) bool) {
		duplicates := l.summary().duplicates
		for p := range l.everyRow() {
			if (len(duplicates) == 0 || !duplicates[p]) && !yield(p) {
				return
			}
		}
	}
}

// parallel calls work for all blocks, with as many calls at a time as there are processors. A goroutine that is done
// takes the next block, because other processes may slow one processor down.
func (l *list) parallel(work func(at int)) {
	var workers sync.WaitGroup
	var next atomic.Int64
	failed := make([]error, min(runtime.GOMAXPROCS(0), len(l.blocks)))
	for worker := range failed {
		workers.Go(func() {
			failed[worker] = guard.CatchPanic("the list of sessions", func() error {
				for at := next.Add(1) - 1; at < int64(len(l.blocks)); at = next.Add(1) - 1 {
					work(int(at))
				}
				return nil
			})
		})
	}
	workers.Wait()
	if err := errors.Join(failed...); err != nil {
		panic(err) // in the goroutine of the caller, where a panic ends only one request
	}
}

// running returns the rows of running sessions. It looks only at the rows without an end, which are few.
func (l *list) running(now int64) iter.Seq[place] {
	return func(yield func(place) bool) {
		duplicates := l.summary().duplicates
		for at, b := range l.blocks {
			for _, i := range b.unended {
				p := place{int32(at), int32(i)}
				if b.rows[i].running(now, l.quiet) && !duplicates[p] && !yield(p) {
					return
				}
			}
		}
	}
}

func (l *list) row(p place) *row { return &l.blocks[p.block].rows[p.row] }

func (l *list) searchText(p place) string { return l.blocks[p.block].searchText(int(p.row)) }

func (l *list) ref(p place) layout.Session {
	return l.names.ref(l.row(p).cluster, string(l.blocks[p.block].sessionName(int(p.row))))
}

// entry returns a row as an Entry, which callers may keep.
func (l *list) entry(p place, now int64) Entry {
	return l.blocks[p.block].entry(&l.names, int(p.row), now, l.quiet)
}

// firstAfter returns the position of the first row after a key; a block beyond the last one if there is none.
func (l *list) firstAfter(k key) place {
	for at, b := range l.blocks {
		if compareRow(&l.names, b, len(b.rows)-1, k) > 0 {
			i, found := searchRows(&l.names, b, k)
			return place{int32(at), int32(i + boolToInt(found))}
		}
	}
	return place{block: int32(len(l.blocks))}
}
