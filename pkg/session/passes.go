package session

import (
	"context"
	"sync"
	"unsafe"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// A session whose rows would take more memory than its load may hold is read in passes: each keeps the tasks of some shards, and puts
// their rows into a file when it is through. How many shards a pass can keep shows on the way: when there is no more room, it drops the
// last of them, which a later pass begins with. So memory is bounded however large a session is, for the price of reading it several times.

// fit drops shards until the load, which holds so many bytes beside the tables, holds no more than it may. It tells dropped how many passes
// there are then to come if each keeps as much as this one.
func (t *taskTables) fit(room func(held int64) bool, beside int64, dropped func(passes int)) {
	if room == nil || !t.fitting.TryLock() {
		return
	}
	defer t.fitting.Unlock()
	for {
		held := t.memory()
		if room(held+beside) || held < leastHeld || t.end-t.begin == 1 {
			return
		}
		t.end--
		t.shards[t.end].reset(true)
		kept := t.end - t.begin
		dropped((numShards - t.end + kept - 1) / kept)
	}
}

// leastHeld is what tables may hold however little room there is: less would make many passes for nothing.
const leastHeld = 2 << 20

// only makes wholes the ones that are still to be read of all that were counted.
func (p *Progress) only(wholes []*whole) { p.beginPass(wholes)(0) }

// beginPass gives what is to be told how many more passes over wholes there will be after the one that begins.
func (p *Progress) beginPass(wholes []*whole) (expect func(more int)) {
	objects, bytes := int64(0), int64(0)
	for _, w := range wholes {
		objects += int64(len(w.chunks))
		bytes += w.size
	}
	objectsBefore, bytesBefore := p.ObjectsDone.Load(), p.BytesDone.Load()
	return func(more int) {
		p.ObjectsTotal.Store(objectsBefore + objects*int64(1+more))
		p.BytesTotal.Store(bytesBefore + bytes*int64(1+more))
	}
}

// complete says whether the tables are those of all tasks.
func (t *taskTables) complete() bool { return t.begin == 0 && t.end == numShards }

// next prepares the pass that follows.
func (t *taskTables) next() {
	t.begin, t.end = t.end, numShards
	for i := range t.shards {
		t.shards[i].reset(i < t.begin)
	}
}

func (s *taskShard) reset(dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shardRows = shardRows{dropped: dropped}
}

// memory is about what the tables hold.
func (t *taskTables) memory() int64 {
	n := t.texts.memory() + t.defs.memory() + t.profilers.memory()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int64(len(s.pages))*pageMemory + int64(4*len(s.slots)) + s.taskArenas.memory()
		s.mu.Unlock()
	}
	return n
}

// pageMemory is what a page holds with its cells and what leads to it.
const pageMemory = int64(unsafe.Sizeof(taskPage{}) + unsafe.Sizeof(taskCells{}) + 8)

// loadInPasses makes a session of what pass fills tables with: of one pass, if all of it has room in memory.
func (s *source) loadInPasses(ctx context.Context, ref layout.Session, inv *inventory, tables *taskTables, pass func(*taskTables) error) (*Session, error) {
	if err := pass(tables); err != nil {
		return nil, err
	}
	if tables.complete() {
		return s.assemble(ctx, ref, inv, tables)
	}
	file, err := newRowFile()
	if err != nil {
		return nil, err
	}
	counts := s.counts
	var paused []pausedAttempt
	for {
		out, err := s.assembleInto(ctx, file, ref, inv, tables)
		if err != nil {
			return nil, err
		}
		paused = append(paused, out.checkpoint.Paused...)
		if tables.end == numShards {
			if err := file.complete(); err != nil {
				return nil, err
			}
			out.Tasks.takeRows(file)
			out.checkpoint.Paused = paused
			s.filed = true
			return out, nil
		}
		tables.next()
		s.warnings.mute()
		if err := pass(tables); err != nil {
			return nil, err
		}
		s.counts = counts
	}
}

// filing is held while rows are put into a file. That takes memory beside that of the rows, which only one load may at a time.
var filing sync.Mutex

// assembleInto makes a session of a pass and puts its rows into a file.
func (s *source) assembleInto(ctx context.Context, file *rowFile, ref layout.Session, inv *inventory, tables *taskTables) (*Session, error) {
	filing.Lock()
	defer filing.Unlock()
	out, err := s.assemble(ctx, ref, inv, tables)
	if err != nil {
		return nil, err
	}
	return out, file.add(out.Tasks)
}

// takeRows replaces the rows of a table by those of a file, which refer to the same texts.
func (t *Tasks) takeRows(file *rowFile) {
	l := limits{texts: t.texts.refs.n, definitions: t.defs.n, profilers: t.profilers.n, states: int(numTaskStates) + len(t.states.newer())}
	t.pages, t.n = nil, file.rows
	t.arenas, t.paused = [numShards]taskArenas{}, [numShards]map[attemptKey]int64{}
	t.paged = newPagedRows(file, file.rows, file.first, l)
	t.paged.damaged = func(error) {} // there is nothing that others could find damaged as well
}
