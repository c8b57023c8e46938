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
	*rows

	strings   stringtable.View
	defs      stringtable.List[eventjson.Definition]
	profilers stringtable.List[eventjson.Profiler]
	states    *taskstate.Registry
	arenas    [numShards]arenas
	paused    [numShards]map[attemptKey]pausedAt

	ends Ends
	// logStartsMissing says that the log of some attempt has an end but no file, by the events.
	logStartsMissing bool

	builder *Builder // shared with the tables that this one was made from or that are made from it
}

// find returns the rows [from, to) of a task, one for each attempt, none if from is to. If rows cannot be read, t.Err
// says so and the result is wrong.
//
// Rows are in the order of their tasks' IDs. compareIDs returns -1, 0 or 1. So the first row that compares to the task
// as 0 or more is the task's first one, and the first that compares as 1 or more is the one behind its last.
func (t *Table) find(id rayid.Task) (from, to int) {
	firstRow := func(limit int) int { // the first one that compares to id as limit or more
		lo, hi := t.searchRange(&id, limit)
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
	return firstRow(0), firstRow(1)
}

// InMemory reports whether all rows are in memory. Those of an index, or of a session too large for memory, are read on
// demand.
func (t *Table) InMemory() bool { return t.source == nil }

// Err says that some rows could not be read, because the index is damaged or gone. Then lists and counts are
// incomplete.
func (t *Table) Err() error { return t.failure() }

// Len is the number of rows.
func (t *Table) Len() int { return t.n }

// MemoryBytes estimates the memory that the table takes.
func (t *Table) MemoryBytes() int64 {
	b := t.builder
	n := t.rows.memory() + b.Strings.MemoryBytes() + b.defs.MemoryBytes() + b.profilers.MemoryBytes()
	for i := range t.arenas {
		n += t.arenas[i].memory() + int64(len(t.paused[i]))*pausedBytes
	}
	const deathBytes, endBytes = 128, 32 // of an entry in these maps
	return n + int64(len(t.ends.Workers))*deathBytes + int64(len(t.ends.Jobs))*endBytes
}
