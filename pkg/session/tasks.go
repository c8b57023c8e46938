package session

import (
	"maps"
	"sync"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// taskTables are the tables of tasks while events come in. They may be used by several goroutines.
type taskTables struct {
	texts     *texts
	defs      *interned[definition, defID]
	profilers *interned[profiler, profilerID]
	states    *taskStates
	shards    [numShards]taskShard

	// Only the shards [begin, end) are kept; fitting guards these.
	fitting    sync.Mutex
	begin, end int
}

func newTaskTables() *taskTables {
	return &taskTables{end: numShards, texts: newTexts(), defs: newInterned[definition, defID](), profilers: newInterned[profiler, profilerID](), states: &taskStates{}}
}

// Tasks are a session's task attempts, a row each, in the order Ray lists them: by task ID, the last attempt first. Columns are arrays, what
// repeats is interned. Tasks never change; all methods may be used by several goroutines.
type Tasks struct {
	pages []*taskPage
	n     int
	// paged holds the rows, and pages none, where they come from an index.
	paged *pagedRows

	texts     textView
	defs      list[definition]
	profilers list[profiler]
	states    *taskStates
	arenas    [numShards]taskArenas
	paused    [numShards]map[attemptKey]int64

	// What ends the attempts that no event ended.
	jobEnds map[rayid.Job]int64
	deaths  map[textID]death

	interners *taskTables // shared with the tables this was made from, for those made from this
}

// freeze makes the rows that were built into a table. The shards' rows are given up, one shard after another, so that memory does not
// double.
func (t *taskTables) freeze() *Tasks {
	out := &Tasks{states: t.states, interners: t}
	for i := range t.shards {
		s := &t.shards[i]
		for _, n := range s.order() {
			p, at := s.row(int(n))
			out.add(p, at)
		}
		out.arenas[i], out.paused[i] = s.taskArenas, s.paused
		s.pages, s.slots, s.n, s.sorted = nil, nil, 0, 0
	}
	out.texts, out.defs, out.profilers = t.texts.view(), t.defs.view(), t.profilers.view()
	return out
}

func (t *Tasks) add(q *taskPage, i int) {
	if t.n>>pageBits == len(t.pages) {
		t.pages = append(t.pages, newTaskPage())
	}
	p, j := t.row(t.n)
	p.copyRow(j, q, i)
	t.n++
}

func (t *Tasks) row(n int) (*taskPage, int) {
	if t.paged != nil {
		return t.paged.page(n>>pageBits, true), n & (pageRows - 1)
	}
	return t.pages[n>>pageBits], n & (pageRows - 1)
}

// scanRow is row, but of an index it gives the scan columns only.
func (t *Tasks) scanRow(n int) (*taskPage, int) {
	if t.paged != nil {
		return t.paged.page(n>>pageBits, false), n & (pageRows - 1)
	}
	return t.pages[n>>pageBits], n & (pageRows - 1)
}

// InMemory says whether all rows are: those of an index, or of a session too large for memory, are read when they are looked at.
func (t *Tasks) InMemory() bool { return t.paged == nil }

// Err says that some of the rows could not be read: an index was damaged or went away. Lists and counts are not complete then.
func (t *Tasks) Err() error {
	if t.paged == nil {
		return nil
	}
	return t.paged.failure()
}

// thaw copies the rows back into shards, for more events to be merged.
func (t *Tasks) thaw() *taskTables {
	b := t.interners
	for i := range b.shards {
		b.shards[i].shardRows = shardRows{taskArenas: t.arenas[i], paused: maps.Clone(t.paused[i])}
	}
	for n := range t.n {
		p, i := t.row(n)
		s := &b.shards[shardOf(&p.id[i])]
		q, j := s.find(&p.id[i], p.attempt[i])
		q.copyRow(j, p, i)
		q.forgetDerivedLog(j)
		s.sorted++
	}
	return b
}

// Len is the number of rows.
func (t *Tasks) Len() int { return t.n }

func (t *Tasks) memory() int64 {
	b := t.interners
	n := int64(len(t.pages))*pageMemory + b.texts.memory() + b.defs.memory() + b.profilers.memory()
	for i := range t.arenas {
		n += t.arenas[i].memory()
	}
	if t.paged != nil {
		n += t.paged.memory()
	}
	return n + int64(len(t.deaths))*128 + int64(len(t.jobEnds))*32
}

func (a *taskArenas) memory() int64 {
	return a.transitions.memory() + a.failures.memory() + a.bytes.memory()
}
