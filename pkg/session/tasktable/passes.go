package tasktable

import (
	"errors"
	"unsafe"
)

// ErrOverBudget says that names of objects, actors, workers and strings, which passes cannot divide, take more memory
// than there is.
var ErrOverBudget = errors.New(
	"its data without tasks needs more memory than there is for all sessions; raise --session-cache-max-memory and " +
		"the server's memory limit")

// errFull says that a session has more bytes of strings than 32-bit references can address.
var errFull = errors.New("the session is too large for this version: more than 4 GiB of distinct strings, or of " +
	"error messages and profile events; split its work over several clusters")

// leastBeside is how many bytes a load may always hold besides rows.
const leastBeside = 64 << 20

// CheckBudget returns ErrOverBudget if a load may not hold this many bytes, which no pass can reduce.
func CheckBudget(mayHold func(held int64) bool, held int64) error {
	if mayHold == nil || held <= leastBeside || mayHold(held) {
		return nil
	}
	return ErrOverBudget
}

// Fit drops shards until the load holds no more than it may. beside is what the load holds besides the table, in bytes.
// It calls dropped with the number of passes to come if each keeps as many shards as this one.
//
// It returns ErrOverBudget if dropping shards cannot help, and errFull if there are too many bytes of strings.
func (t *Builder) Fit(mayHold func(held int64) bool, beside int64, dropped func(passes int)) error {
	if t.full() {
		return errFull
	}
	if mayHold == nil || !t.fitting.TryLock() {
		return nil
	}
	defer t.fitting.Unlock()
	for {
		held := t.memoryBytes()
		switch {
		case mayHold(held+beside) || held < leastHeld && beside <= leastBeside:
			return nil
		case t.end-t.begin == 1:
			return CheckBudget(mayHold, t.shared()+beside)
		}
		t.end--
		t.shards[t.end].reset(true)
		kept := t.end - t.begin
		dropped((numShards - t.end + kept - 1) / kept)
	}
}

// leastHeld is how many bytes a table may always hold. A smaller bound would cause many passes without saving memory
// worth it.
const leastHeld = 2 << 20

// Complete reports whether the table has all tasks, so that one pass was enough.
func (t *Builder) Complete() bool { return t.begin == 0 && t.Last() }

// Last reports whether this is the last pass.
func (t *Builder) Last() bool { return t.end == numShards }

// Next begins the next pass.
func (t *Builder) Next() {
	t.begin, t.end = t.end, numShards
	for i := range t.shards {
		t.shards[i].reset(i < t.begin)
	}
}

func (s *shard) reset(dropped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shardRows = shardRows{dropped: dropped}
}

// shared is how many bytes the table holds besides its shards.
func (t *Builder) shared() int64 {
	return t.Strings.MemoryBytes() + t.defs.MemoryBytes() + t.profilers.MemoryBytes()
}

// full reports whether some string could not be stored.
func (t *Builder) full() bool {
	if t.Strings.Full() {
		return true
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		full := s.bytes.Full
		s.mu.Unlock()
		if full {
			return true
		}
	}
	return false
}

// memoryBytes estimates the memory that the table holds.
func (t *Builder) memoryBytes() int64 {
	n := t.shared()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int64(len(s.pages))*pageMemory + int64(4*len(s.slots)) + s.arenas.memory() +
			int64(len(s.paused))*pausedBytes
		s.mu.Unlock()
	}
	return n
}

// pageMemory is the memory of a page with its cells and the pointer to it.
const pageMemory = int64(unsafe.Sizeof(page{}) + unsafe.Sizeof(pageCells{}) + 8)
