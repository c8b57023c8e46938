package tasktable

import (
	"sync"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

const (
	pageBits = 7
	pageRows = 1 << pageBits
)

// page is pageRows rows of the task table, column by column. A row is one attempt of a task.
//
// The columns here are those that filters and summaries of whole sessions read. All others are in pageCells, which is
// nil in pages of an index of which only the scan columns were read: see rows.
type page struct {
	job      [pageRows]rayid.Job
	def      [pageRows]defID          // 0 without a definition event
	reprName [pageRows]stringtable.ID // of the actor, as Python's repr shows it; 0 if no event has it
	flags    [pageRows]rowFlags
	// final is the state at the end of the session plus one; 0 if it was not computed, see Table.Finish.
	final [pageRows]taskstate.State

	*pageCells
}

// pageCells are the other columns of a page. Nothing in them but arenas is a pointer.
type pageCells struct {
	// arenas are the page's own arenas; nil if its rows refer to those of the table. It is the first field, so that the
	// garbage collector does not scan the rest of the page.
	arenas *arenas

	id      [pageRows]rayid.Task
	attempt [pageRows]int32

	// From the definition; 0 without one.
	parent [pageRows]stringtable.ID // task, binary
	actor  [pageRows]stringtable.ID // actor, binary

	// From life cycle events; 0 if none has the value.
	node   [pageRows]stringtable.ID // binary
	worker [pageRows]stringtable.ID // binary
	pid    [pageRows]int32
	// times are when the states of commonStates were entered, Unix nanoseconds; valid where flags say so.
	times [numCommonStates][pageRows]int64
	// rare refers to the list of the transitions to other states, in arenas.transitions.
	rare [pageRows]arenaRef
	// failure refers to the error in arenas.failures.
	failure [pageRows]arenaRef

	// Where the attempt's lines are in its worker's log; valid where flags say so. Offsets in bytes.
	stdoutFile  [pageRows]stringtable.ID
	stderrFile  [pageRows]stringtable.ID
	stdoutStart [pageRows]int64
	stdoutEnd   [pageRows]int64
	stderrStart [pageRows]int64
	stderrEnd   [pageRows]int64

	// profiler is the component that sent profile events: an index into the table's profilers, 0 for none; profile
	// refers to its last block in arenas.bytes.
	profiler [pageRows]profilerID
	profile  [pageRows]arenaRef
}

// emptyPages are pages to be used again: a load that writes runs fills one page after the other, and Freeze copies the
// rows of all.
var emptyPages = sync.Pool{New: func() any { return &page{pageCells: new(pageCells)} }}

func newPage() *page { return emptyPages.Get().(*page) }

// free gives a page, which nothing may refer to any more, to newPage.
func (p *page) free() {
	p.clear()
	emptyPages.Put(p)
}

func (p *page) clear() {
	*p.pageCells = pageCells{}
	*p = page{pageCells: p.pageCells}
}

// rowFlags say which of a row's values are there.
type rowFlags uint16

const (
	// The first bits, one for each of commonStates, say that the state was entered. The bit after them is not used.
	hasTime rowFlags = 1

	// The next bits are eventjson.TaskFlags.
	flagsShift              = numCommonStates + 1
	hasLogInfo     rowFlags = rowFlags(eventjson.HasLogInfo) << flagsShift
	hasStdoutStart rowFlags = rowFlags(eventjson.HasStdoutStart) << flagsShift
	hasStdoutEnd   rowFlags = rowFlags(eventjson.HasStdoutEnd) << flagsShift
	hasStderrStart rowFlags = rowFlags(eventjson.HasStderrStart) << flagsShift
	hasStderrEnd   rowFlags = rowFlags(eventjson.HasStderrEnd) << flagsShift
	hasPaused      rowFlags = rowFlags(eventjson.HasPaused) << flagsShift
	isPaused       rowFlags = rowFlags(eventjson.IsPaused) << flagsShift

	// derivedLog says that log files and starts come from DeriveLogs, not from an event.
	derivedLog = isPaused << 1
)

// The states that nearly every attempt passes, in the order of Ray's numbers. Their times are columns, those of the
// others lie in an arena.
const (
	argsColumn = iota
	nodeColumn
	submittedColumn
	runningColumn
	finishedColumn
	numCommonStates
)

var commonStates = [numCommonStates]taskstate.State{
	argsColumn: taskstate.PendingArgsAvail, nodeColumn: taskstate.PendingNodeAssignment,
	submittedColumn: taskstate.SubmittedToWorker, runningColumn: taskstate.Running, finishedColumn: taskstate.Finished,
}

// commonColumn is a state's place in commonStates, -1 if it has none. It is called for each transition, and a switch is
// faster than a search.
func commonColumn(s taskstate.State) int {
	switch s {
	case taskstate.PendingArgsAvail:
		return argsColumn
	case taskstate.PendingNodeAssignment:
		return nodeColumn
	case taskstate.SubmittedToWorker:
		return submittedColumn
	case taskstate.Running:
		return runningColumn
	case taskstate.Finished:
		return finishedColumn
	}
	return -1
}

func (p *page) entered(i, column int) bool { return p.flags[i]&(hasTime<<column) != 0 }

// copyRow copies row i of q to row j of p.
func (p *page) copyRow(j int, q *page, i int) {
	p.id[j], p.attempt[j], p.job[j] = q.id[i], q.attempt[i], q.job[i]
	p.def[j], p.parent[j], p.actor[j] = q.def[i], q.parent[i], q.actor[i]
	p.node[j], p.worker[j], p.pid[j], p.reprName[j], p.flags[j] = q.node[i], q.worker[i], q.pid[i], q.reprName[i],
		q.flags[i]
	for c := range p.times {
		p.times[c][j] = q.times[c][i]
	}
	p.rare[j], p.failure[j] = q.rare[i], q.failure[i]
	p.stdoutFile[j], p.stderrFile[j] = q.stdoutFile[i], q.stderrFile[i]
	p.stdoutStart[j], p.stdoutEnd[j], p.stderrStart[j], p.stderrEnd[j] = q.stdoutStart[i], q.stdoutEnd[i],
		q.stderrStart[i], q.stderrEnd[i]
	p.profiler[j], p.profile[j] = q.profiler[i], q.profile[i]
}
