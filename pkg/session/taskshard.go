package session

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// taskShard holds the tasks whose ID begins with one hex digit, while events come in. Each attempt is one row; an event changes its row
// so that the result is the same whatever the order of events, and however often each comes.
type taskShard struct {
	mu sync.Mutex
	shardRows
}

// shardRows are what a shard holds.
type shardRows struct {
	pages []*taskPage
	n     int
	slots []uint32 // hash of (task, attempt) → row plus one, open addressing; a power of two long
	// sorted is how many of the first rows are in order.
	sorted int

	taskArenas
	// paused tells when is_debugger_paused was last told; few tasks ever are.
	paused map[attemptKey]int64
	// dropped says that the shard's tasks are left to another pass, see taskTables.fit.
	dropped bool
}

// taskArenas hold the parts of rows that vary in number. They only grow, so tables made earlier may go on reading them.
type taskArenas struct {
	transitions list[laterTransition]
	failures    list[failure]
	bytes       byteArena // error messages and profile blocks
}

// laterTransition is a transition to a state that has no column.
type laterTransition struct {
	time  int64
	next  uint32 // index of the attempt's next one plus one
	state taskState
}

// failure is an attempt's error.
type failure struct {
	time   int64 // when the attempt failed, as the event that told the error says
	kind   textID
	text   arenaRef
	length uint32
}

type attemptKey struct {
	ID      rayid.Task
	Attempt int32
}

const (
	numShards = 16
	minSlots  = 32
)

func shardOf(id *rayid.Task) int { return int(id[0] >> 4) }

func hashAttempt(id *rayid.Task, attempt int32) uint32 {
	// IDs are random, but for the tasks of drivers and the ones that create actors, which differ in their second part only.
	a, b, c := binary.LittleEndian.Uint64(id[0:]), binary.LittleEndian.Uint64(id[8:]), binary.LittleEndian.Uint64(id[16:])
	h := (a ^ b*0x9e3779b97f4a7c15 ^ c*0xc2b2ae3d27d4eb4f ^ uint64(attempt)*0x165667b19e3779f9) * 0xff51afd7ed558ccd
	return uint32(h >> 32)
}

func (s *taskShard) row(n int) (*taskPage, int) { return s.pages[n>>pageBits], n & (pageRows - 1) }

// find gives the row of an attempt, a new one where there was none.
func (s *taskShard) find(id *rayid.Task, attempt int32) (*taskPage, int) {
	if s.n >= len(s.slots)*3/4 {
		s.rehash(max(minSlots, 2*len(s.slots)))
	}
	mask := uint32(len(s.slots) - 1)
	for slot := hashAttempt(id, attempt) & mask; ; slot = (slot + 1) & mask {
		if s.slots[slot] == 0 {
			s.slots[slot] = uint32(s.n) + 1
			if s.n>>pageBits == len(s.pages) {
				s.pages = append(s.pages, newTaskPage())
			}
			p, i := s.row(s.n)
			p.id[i], p.attempt[i], p.job[i] = *id, attempt, id.Job()
			s.n++
			return p, i
		}
		p, i := s.row(int(s.slots[slot] - 1))
		if p.id[i] == *id && p.attempt[i] == attempt {
			return p, i
		}
	}
}

func (s *taskShard) rehash(size int) {
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

// order gives the rows as Ray lists them: by task ID, the last attempt first.
func (s *taskShard) order() []uint32 {
	order := make([]uint32, s.n)
	for n := range order {
		order[n] = uint32(n)
	}
	compare := func(a, b uint32) int {
		p, i := s.row(int(a))
		q, j := s.row(int(b))
		return compareAttempts(attemptKey{p.id[i], p.attempt[i]}, attemptKey{q.id[j], q.attempt[j]})
	}
	slices.SortFunc(order[s.sorted:], compare)
	return mergeSorted(order, s.sorted, compare)
}

// compareAttempts is the order of rows.
func compareAttempts(a, b attemptKey) int {
	if c := compareIDs(a.ID[:], b.ID[:]); c != 0 {
		return c
	}
	return cmp.Compare(b.Attempt, a.Attempt)
}

// mergeSorted merges the sorted runs all[:n] and all[n:].
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

func compareIDs(a, b []byte) int { return bytes.Compare(a, b) }
