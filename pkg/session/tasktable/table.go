package tasktable

import (
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Table is a session's task attempts, a row each, in the order Ray lists them: by task ID, the last attempt first.
// Columns are arrays, and repeated values are interned. A Table does not change once it is finished; all methods are
// safe for concurrent use.
type Table struct {
	pages []*page
	n     int
	// paged holds the rows if they come from an index or a File; then pages is empty.
	paged *pagedRows

	strings   stringtable.View
	defs      stringtable.List[eventjson.Definition]
	profilers stringtable.List[eventjson.Profiler]
	states    *taskstate.Registry
	arenas    [numShards]arenas
	paused    [numShards]map[attemptKey]pausedAt

	ends Ends

	interners *Builder // shared with the tables that this one was made from or that are made from it
}

func (t *Table) add(q *page, i int) {
	if t.n>>pageBits == len(t.pages) {
		t.pages = append(t.pages, newPage())
	}
	p, j := t.row(t.n)
	p.copyRow(j, q, i)
	t.n++
}

func (t *Table) row(n int) (*page, int) { return t.page(n >> pageBits), n & (pageRows - 1) }

func (t *Table) page(k int) *page {
	if t.paged != nil {
		return t.paged.page(k, true)
	}
	return t.pages[k]
}

// scanPage is page, but reads only the scan columns if the rows are not in memory.
func (t *Table) scanPage(k int) *page {
	if t.paged != nil {
		return t.paged.page(k, false)
	}
	return t.pages[k]
}

// find returns the rows [from, to) of a task.
func (t *Table) find(id rayid.Task) (from, to int) {
	after := func(limit int) int {
		lo, hi := 0, t.n
		if t.paged != nil {
			lo, hi = t.paged.span(&id, limit == 1)
		}
		for lo < hi {
			mid := (lo + hi) / 2
			p, i := t.row(mid)
			if compareIDs(&p.id[i], &id) < limit {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return lo
	}
	return after(0), after(1)
}

// InMemory reports whether all rows are in memory. Those of an index, or of a session too large for memory, are read on
// demand.
func (t *Table) InMemory() bool { return t.paged == nil }

// Err says that some rows could not be read, because the index is damaged or gone. Then lists and counts are
// incomplete.
func (t *Table) Err() error {
	if t.paged == nil {
		return nil
	}
	return t.paged.failure()
}

// Len is the number of rows.
func (t *Table) Len() int { return t.n }

func (t *Table) MemoryBytes() int64 {
	b := t.interners
	n := int64(len(t.pages))*pageMemory + b.Strings.MemoryBytes() + b.defs.MemoryBytes() + b.profilers.MemoryBytes()
	for i := range t.arenas {
		n += t.arenas[i].memory() + int64(len(t.paused[i]))*pausedBytes
	}
	if t.paged != nil {
		n += t.paged.memory()
	}
	return n + int64(len(t.ends.Workers))*128 + int64(len(t.ends.Jobs))*32
}
