package session

import (
	"hash/maphash"
	"sync"
)

// textID stands for an interned text; 0 is the empty one.
type textID uint32

// texts interns the strings that repeat through a session: names, binary node and worker IDs, file names, resources as JSON. It holds no
// pointers per text, so that the garbage collector need not look at them. It may be used by several goroutines.
type texts struct {
	seed maphash.Seed

	mu    sync.RWMutex
	bytes byteArena
	refs  list[textRef]
	slots []textID // hash → ID, open addressing; a power of two long
	hash  list[uint32]
}

type textRef struct {
	at  arenaRef
	len uint32
}

func newTexts() *texts {
	t := &texts{seed: maphash.MakeSeed(), slots: make([]textID, 1024)}
	t.refs.add(textRef{}) // the empty text
	t.hash.add(0)
	return t
}

// intern gives the ID of s, a new one where s was not known. s is copied.
func (t *texts) intern(s []byte) textID {
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
	id = textID(t.refs.n)
	t.refs.add(textRef{at: t.bytes.put(s), len: uint32(len(s))})
	t.hash.add(h)
	t.slots[slot] = id
	if t.refs.n > len(t.slots)*3/4 {
		t.grow()
	}
	return id
}

// find looks s up; slot is where it is or belongs. The caller holds the lock.
func (t *texts) find(s []byte, h uint32) (id textID, slot int) {
	mask := len(t.slots) - 1
	for slot = int(h) & mask; ; slot = (slot + 1) & mask {
		id := t.slots[slot]
		if id == 0 {
			return 0, slot
		}
		if *t.hash.at(int(id)) == h && string(t.read(id)) == string(s) {
			return id, slot
		}
	}
}

func (t *texts) grow() {
	slots := make([]textID, 2*len(t.slots))
	mask := len(slots) - 1
	for id := 1; id < t.refs.n; id++ {
		slot := int(*t.hash.at(id)) & mask
		for slots[slot] != 0 {
			slot = (slot + 1) & mask
		}
		slots[slot] = textID(id)
	}
	t.slots = slots
}

func (t *texts) read(id textID) []byte {
	ref := t.refs.at(int(id))
	return t.bytes.get(ref.at, int(ref.len))
}

// get gives the text of id. The bytes must not be changed.
func (t *texts) get(id textID) []byte {
	if id == 0 {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.read(id)
}

// view gives the texts interned so far; they may be read without a lock.
func (t *texts) view() textView {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return textView{refs: t.refs, bytes: t.bytes}
}

// textView are the texts interned up to one moment.
type textView struct {
	refs  list[textRef]
	bytes byteArena
}

// get gives the text of id. The bytes must not be changed.
func (v *textView) get(id textID) []byte {
	if id == 0 {
		return nil
	}
	ref := v.refs.at(int(id))
	return v.bytes.get(ref.at, int(ref.len))
}

func (t *texts) memory() int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.bytes.memory() + t.refs.memory() + t.hash.memory() + int64(4*len(t.slots))
}
