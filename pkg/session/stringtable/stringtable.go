package stringtable

import (
	"bytes"
	"hash/maphash"
	"sync"
)

// ID stands for an interned string; 0 is the empty one.
type ID uint32

// Table interns the strings that repeat through a session: names, binary node and worker IDs, file names, resources as
// JSON. It holds no pointers per string, so that the garbage collector need not look at them. It is safe for concurrent
// use.
type Table struct {
	seed maphash.Seed

	mu    sync.RWMutex
	bytes Arena
	refs  List[span]
	slots []ID // hash → ID, open addressing; a power of two long
	hash  List[uint32]
}

type span struct {
	at  Ref
	len uint32
}

// New makes a table that has only the empty string, with the ID 0.
func New() *Table {
	t := &Table{seed: maphash.MakeSeed(), slots: make([]ID, 1024)}
	t.refs.Add(span{}) // the empty string
	t.hash.Add(0)
	return t
}

// NewBounded makes a table with a bounded number of arena chunks, for tests of full tables.
func NewBounded(chunks int) *Table {
	t := New()
	t.bytes.limit = chunks
	return t
}

// Intern returns the ID of s, and adds a copy of s if it is new. An empty string has the ID 0, and so has each new one
// when the table is full.
func (t *Table) Intern(s []byte) ID {
	if len(s) == 0 {
		return 0
	}
	h := uint32(maphash.Bytes(t.seed, s))
	t.mu.RLock()
	id, _ := t.find(s, h)
	t.mu.RUnlock()
	if id != 0 {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id, slot := t.find(s, h)
	if id != 0 {
		return id
	}
	if t.bytes.Full {
		return 0
	}
	id = ID(t.refs.n) // the first is 1: refs and hash begin with an entry for the empty string
	t.refs.Add(span{at: t.bytes.Put(s), len: uint32(len(s))})
	t.hash.Add(h)
	t.slots[slot] = id
	if t.refs.n > len(t.slots)*3/4 {
		t.grow()
	}
	return id
}

// Full reports whether some string could not be stored.
func (t *Table) Full() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.bytes.Full
}

// find looks up s, whose hash is h. id is 0 if the table does not have it; slot is where it is or belongs. Some slots
// are always free, so the search ends. The caller holds the lock.
func (t *Table) find(s []byte, h uint32) (id ID, slot int) {
	mask := len(t.slots) - 1
	for slot = int(h) & mask; ; slot = (slot + 1) & mask {
		id := t.slots[slot]
		if id == 0 {
			return 0, slot
		}
		if *t.hash.At(int(id)) == h && string(t.read(id)) == string(s) {
			return id, slot
		}
	}
}

// grow doubles the slots of the hash table.
func (t *Table) grow() {
	slots := make([]ID, 2*len(t.slots))
	mask := len(slots) - 1
	for id := 1; id < t.refs.n; id++ {
		slot := int(*t.hash.At(id)) & mask
		for slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		slots[slot] = ID(id)
	}
	t.slots = slots
}

func (t *Table) read(id ID) []byte {
	ref := t.refs.At(int(id))
	return t.bytes.Get(ref.at, int(ref.len))
}

// Get returns the string of id. The bytes must not be changed.
func (t *Table) Get(id ID) []byte {
	if id == 0 {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.read(id)
}

// View returns the strings interned so far. It may be read without a lock.
func (t *Table) View() View {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return View{refs: t.refs, bytes: t.bytes}
}

// View are the strings interned up to one moment.
type View struct {
	refs  List[span]
	bytes Arena
}

// Len is the number of strings, including the empty one.
func (v *View) Len() int { return v.refs.n }

// Get returns the string of id. The bytes must not be changed.
func (v *View) Get(id ID) []byte {
	if id == 0 {
		return nil
	}
	ref := v.refs.At(int(id))
	return v.bytes.Get(ref.at, int(ref.len))
}

// MemoryBytes is the memory of the strings and of the hash table.
func (t *Table) MemoryBytes() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.bytes.MemoryBytes() + t.refs.MemoryBytes() + t.hash.MemoryBytes() + int64(4*len(t.slots))
}

// Greater returns the ID of the string that is greater byte by byte, whatever the IDs. Any string is greater than the
// empty one.
func (t *Table) Greater(a, b ID) ID {
	switch {
	case a == b || b == 0:
		return a
	case a == 0 || bytes.Compare(t.Get(a), t.Get(b)) < 0:
		return b
	}
	return a
}
