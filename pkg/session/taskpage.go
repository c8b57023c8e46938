package session

import "github.com/rayhistory/historyserver/pkg/rayid"

const (
	pageBits = 7
	pageRows = 1 << pageBits
)

// taskPage is pageRows rows of the task table, column by column. A row is one attempt of a task.
//
// The columns here are those that filters and summaries of whole sessions look at. All others are in taskCells, which is nil in pages of
// an index that hold just these: see pagedRows.
type taskPage struct {
	job      [pageRows]rayid.Job
	def      [pageRows]defID  // 0 where no definition came
	reprName [pageRows]textID // of the actor, as Python's repr shows it; 0 where no event told
	flags    [pageRows]rowFlags
	// final is the state at the end of the session plus one; 0 where that was not worked out.
	final [pageRows]taskState

	*taskCells
}

// taskCells are the other columns of a page. Nothing in them but arenas is a pointer.
type taskCells struct {
	// arenas are those that the rows refer to where these are the page's own, not the table's. It is first, so that the garbage collector
	// looks at no more of the page.
	arenas *taskArenas

	id      [pageRows]rayid.Task
	attempt [pageRows]int32

	// From the definition, 0 where none came.
	parent [pageRows]textID // task, binary
	actor  [pageRows]textID // actor, binary

	// From the life cycle, 0 where no event told.
	node   [pageRows]textID // binary
	worker [pageRows]textID // binary
	pid    [pageRows]int32
	// times are when the states of commonStates were entered, Unix nanoseconds; valid where flags say so.
	times [numCommonStates][pageRows]int64
	// rest heads the transitions to other states: an index into the shard's transitions plus one.
	rest [pageRows]uint32
	// failure is an index into the shard's failures plus one.
	failure [pageRows]uint32

	// Where the attempt's lines are in its worker's log; valid where flags say so. Offsets in bytes.
	stdoutFile  [pageRows]textID
	stderrFile  [pageRows]textID
	stdoutStart [pageRows]int64
	stdoutEnd   [pageRows]int64
	stderrStart [pageRows]int64
	stderrEnd   [pageRows]int64

	// profiler is the component that sent profile events: an index into the table's profilers, 0 for none; profile heads its blocks in
	// the shard's arena, plus one.
	profiler [pageRows]profilerID
	profile  [pageRows]uint32
}

func newTaskPage() *taskPage { return &taskPage{taskCells: new(taskCells)} }

// rowFlags say which of a row's values are there.
type rowFlags uint16

const (
	// The first bits, by place in commonStates, say that the state was entered.
	hasTime        rowFlags = 1
	hasLogInfo     rowFlags = 1 << (numCommonStates + iota)
	hasStdoutStart          // stdout_start was told; the next ones likewise
	hasStdoutEnd
	hasStderrStart
	hasStderrEnd
	hasPaused // is_debugger_paused was told
	isPaused
	derivedLog // the files and the starts were not told, see deriveLogs
)

func (p *taskPage) entered(i, column int) bool { return p.flags[i]&(hasTime<<column) != 0 }

// copyRow copies row i of q to row j of p.
func (p *taskPage) copyRow(j int, q *taskPage, i int) {
	p.id[j], p.attempt[j], p.job[j] = q.id[i], q.attempt[i], q.job[i]
	p.def[j], p.parent[j], p.actor[j] = q.def[i], q.parent[i], q.actor[i]
	p.node[j], p.worker[j], p.pid[j], p.reprName[j], p.flags[j] = q.node[i], q.worker[i], q.pid[i], q.reprName[i], q.flags[i]
	for c := range p.times {
		p.times[c][j] = q.times[c][i]
	}
	p.rest[j], p.failure[j] = q.rest[i], q.failure[i]
	p.stdoutFile[j], p.stderrFile[j] = q.stdoutFile[i], q.stderrFile[i]
	p.stdoutStart[j], p.stdoutEnd[j], p.stderrStart[j], p.stderrEnd[j] = q.stdoutStart[i], q.stdoutEnd[i], q.stderrStart[i], q.stderrEnd[i]
	p.profiler[j], p.profile[j] = q.profiler[i], q.profile[i]
}
