package tasktable

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"unsafe"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// shard holds the tasks whose IDs begin with one hex digit, while events come in. Each attempt is one row. The result
// does not depend on the order of events, or on how often each comes.
type shard struct {
	mu sync.Mutex
	shardRows
	encoded []byte // scratch of addProfile
}

// shardRows is the content of a shard.
type shardRows struct {
	pages []*page
	n     int
	slots []uint32 // hash of (task, attempt) → row plus one, open addressing; a power of two long
	// sorted is how many rows from the first on are known to be in order.
	sorted int

	arenas
	// paused is what the last event that has is_debugger_paused says. Few tasks have one. It stays in memory when rows
	// are written to a run.
	paused map[attemptKey]pausedAt
}

// pausedAt is whether an attempt was paused, by an event of that time, Unix nanoseconds.
type pausedAt struct {
	time   int64
	paused bool
}

// arenas hold the data of rows that has no fixed size. They only grow, so tables made earlier can still read them.
type arenas struct {
	transitions stringtable.List[rareTransition]
	failures    stringtable.List[failure]
	bytes       stringtable.Arena // error messages and profile blocks
}

func (a *arenas) memory() int64 {
	return a.transitions.MemoryBytes() + a.failures.MemoryBytes() + a.bytes.MemoryBytes()
}

// arenaRef says where in its arena the data of a row is: the index there plus one, so that 0, which cells have at
// first, is none.
type arenaRef uint32

func refTo[I int | stringtable.Ref](index I) arenaRef { return arenaRef(index) + 1 }

// index is the index in the arena. The reference must not be 0.
func (r arenaRef) index() int { return int(r - 1) }

// rareTransition is a transition to a state that has no column: to none of commonStates.
type rareTransition struct {
	time  int64
	next  arenaRef // the attempt's transition that was stored before it
	state taskstate.State
}

// failure is an attempt's error.
type failure struct {
	time   int64 // when the attempt failed, by the event that has the error; Unix nanoseconds
	kind   stringtable.ID
	text   stringtable.Ref
	length uint32
}

type attemptKey struct {
	ID      rayid.Task
	Attempt int32
}

// pausedBytes is about what an entry of shardRows.paused takes.
const pausedBytes = 2 * int64(unsafe.Sizeof(attemptKey{})+unsafe.Sizeof(pausedAt{}))

const (
	numShards = 16
	minSlots  = 32
)

func shardOf(id *rayid.Task) int { return int(id[0] >> 4) }

// hashSeed differs in each process, so that nobody can write events whose IDs all have one hash.
var hashSeed = maphash.MakeSeed()

// hashAttempt returns a hash of an attempt, by a random seed: no input can make the table slow.
func hashAttempt(id *rayid.Task, attempt int32) uint32 {
	var key [rayid.TaskSize + 4]byte
	copy(key[:], id[:])
	binary.LittleEndian.PutUint32(key[rayid.TaskSize:], uint32(attempt))
	return uint32(maphash.Bytes(hashSeed, key[:]))
}

func (s *shardRows) row(n int) (*page, int) { return s.pages[n>>pageBits], n & (pageRows - 1) }

// findOrAdd returns the row of an attempt, as a page and a place in it, and adds one if there is none.
func (s *shard) findOrAdd(id *rayid.Task, attempt int32) (*page, int) {
	if s.n >= len(s.slots)*3/4 {
		s.rehash(max(minSlots, 2*len(s.slots)))
	}
	mask := uint32(len(s.slots) - 1)
	for slot := hashAttempt(id, attempt) & mask; ; slot = (slot + 1) & mask {
		if s.slots[slot] == 0 {
			s.slots[slot] = uint32(s.n) + 1
			return s.add(id, attempt)
		}
		p, i := s.row(int(s.slots[slot] - 1))
		if p.id[i] == *id && p.attempt[i] == attempt {
			return p, i
		}
	}
}

func (s *shardRows) add(id *rayid.Task, attempt int32) (*page, int) {
	if s.n>>pageBits == len(s.pages) {
		s.pages = append(s.pages, newPage())
	}
	p, i := s.row(s.n)
	p.id[i], p.attempt[i], p.job[i] = *id, attempt, id.Job()
	s.n++
	return p, i
}

// rehash gives the hash table size slots, a power of two, and puts all rows into them.
func (s *shard) rehash(size int) {
	s.slots = make([]uint32, size)
	mask := uint32(size - 1)
	for n := range s.n {
		p, i := s.row(n)
		slot := hashAttempt(&p.id[i], p.attempt[i]) & mask
		for s.slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		s.slots[slot] = uint32(n) + 1
	}
}

// order returns the rows' numbers in the order in which Ray lists them: by task ID, the last attempt first. The first
// s.sorted rows are in this order already.
func (s *shardRows) order() []uint32 {
	order := make([]uint32, s.n)
	for n := range order {
		order[n] = uint32(n)
	}
	compare := func(a, b uint32) int {
		p, i := s.row(int(a))
		q, j := s.row(int(b))
		return compareAttempts(&p.id[i], p.attempt[i], &q.id[j], q.attempt[j])
	}
	slices.SortFunc(order[s.sorted:], compare)
	return mergeSorted(order, s.sorted, compare)
}

// compareAttempts is the order of rows. IDs are compared where they lie: copying them took as long as all else of
// sorting.
func compareAttempts(a *rayid.Task, attemptA int32, b *rayid.Task, attemptB int32) int {
	if c := compareIDs(a, b); c != 0 {
		return c
	}
	return cmp.Compare(attemptB, attemptA)
}

// mergeSorted merges all[:n] and all[n:], each of them sorted. It may return all itself.
func mergeSorted(all []uint32, n int, compare func(a, b uint32) int) []uint32 {
	if n == 0 || n == len(all) || compare(all[n-1], all[n]) <= 0 {
		return all
	}
	merged := make([]uint32, 0, len(all))
	a, b := all[:n], all[n:]
	for len(a) > 0 && len(b) > 0 {
		if compare(a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

func compareIDs(a, b *rayid.Task) int { return bytes.Compare(a[:], b[:]) }
