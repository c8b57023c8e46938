package tasktable

import (
	"context"
	"errors"
	"unsafe"
)

// ErrOverBudget says that names of objects, actors, workers and strings, which runs do not take out of memory, need
// more of it than there is.
var ErrOverBudget = errors.New(
	"its data without tasks needs more memory than there is for all sessions; raise --session-cache-max-memory and " +
		"the server's memory limit")

// errFull says that a session has more bytes of strings than 32-bit references can address.
var errFull = errors.New("the session is too large for this version: more than 4 GiB of distinct strings, or of " +
	"error messages and profile events; split its work over several clusters")

const (
	// minOtherBytes is how many bytes besides rows a load may always hold.
	minOtherBytes = 64 << 20
	// minRunBytes is how many bytes of rows a load may always hold. Smaller runs would be many without saving memory
	// worth it.
	minRunBytes = 2 << 20
)

// CheckBudget returns ErrOverBudget if a load may not hold this many bytes, of which none are rows.
func CheckBudget(reserve func(held int64) bool, held int64) error {
	if reserve == nil || held <= minOtherBytes || reserve(held) {
		return nil
	}
	return ErrOverBudget
}

// SpillIfOverBudget writes the rows to a run if the load may not hold them in memory. otherBytes is what the load holds
// besides the table. While one caller writes, the others wait, so that rows do not come in faster than they are
// written.
//
// It returns ErrOverBudget if writing rows cannot help, and errFull if there are too many bytes of strings.
func (t *Builder) SpillIfOverBudget(ctx context.Context, otherBytes int64) error {
	if t.stringsFull() {
		return errFull
	}
	if t.Reserve == nil {
		return nil
	}
	t.spilling.Lock()
	defer t.spilling.Unlock()
	for {
		shared, rows := t.bytesBesidesRows(), t.rowBytes()
		switch {
		case t.Reserve(shared + rows + otherBytes):
			return nil
		case rows < minRunBytes:
			return CheckBudget(t.Reserve, shared+otherBytes)
		}
		if err := t.spill(ctx); err != nil {
			return err
		}
	}
}

// bytesBesidesRows is how many bytes the table holds besides its rows.
func (t *Builder) bytesBesidesRows() int64 {
	n := t.Strings.MemoryBytes() + t.defs.MemoryBytes() + t.profilers.MemoryBytes()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int64(len(s.paused)) * pausedBytes
		s.mu.Unlock()
	}
	return n
}

// rowBytes estimates the memory that the rows take.
func (t *Builder) rowBytes() (n int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int64(len(s.pages))*pageMemory + int64(4*len(s.slots)) + s.arenas.memory()
		s.mu.Unlock()
	}
	return n
}

// stringsFull reports whether some string could not be stored because a table of strings or a shard had no room for it.
func (t *Builder) stringsFull() bool {
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

// pageMemory is the memory of a page with its cells and the pointer to it.
const pageMemory = int64(unsafe.Sizeof(page{}) + unsafe.Sizeof(pageCells{}) + 8)
