package session

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestList(t *testing.T) {
	var l list[int]
	for i := range 20_000 {
		if at := l.add(i * 3); at != i {
			t.Fatalf("element %d was put at %d", i, at)
		}
	}
	for i := range 20_000 {
		if got := *l.at(i); got != i*3 {
			t.Fatalf("element %d is %d", i, got)
		}
	}
}

func TestByteArena(t *testing.T) {
	var a byteArena
	random := rand.New(rand.NewPCG(1, 1))
	var refs []arenaRef
	var want [][]byte
	for i := range 3000 {
		s := bytes.Repeat([]byte{byte(i)}, []int{random.IntN(50), 0, arenaChunk - 1, arenaChunk, arenaChunk + 1, 3 * arenaChunk}[max(0, random.IntN(100)-94)])
		refs, want = append(refs, a.put(s)), append(want, s)
	}
	for i, ref := range refs {
		if got := a.get(ref, len(want[i])); !bytes.Equal(got, want[i]) {
			t.Fatalf("string %d of %d bytes is another", i, len(want[i]))
		}
	}
}

func TestTexts(t *testing.T) {
	texts := newTexts()
	ids := make([][]textID, 4)
	var all sync.WaitGroup
	for g := range ids {
		all.Go(func() {
			for i := range 5000 {
				ids[g] = append(ids[g], texts.intern(fmt.Appendf(nil, "text %d", (i*7+g)%3000)))
			}
		})
	}
	all.Wait()
	view := texts.view()
	for g := range ids {
		for i, id := range ids[g] {
			want := fmt.Sprintf("text %d", (i*7+g)%3000)
			if got := string(view.get(id)); got != want {
				t.Fatalf("ID %d is %q, want %q", id, got, want)
			}
			if again := texts.intern([]byte(want)); again != id {
				t.Fatalf("%q has the IDs %d and %d", want, id, again)
			}
		}
	}
	if texts.refs.n != 3001 {
		t.Errorf("%d texts, want 3000 and the empty one", texts.refs.n)
	}
	if texts.intern(nil) != 0 || view.get(0) != nil {
		t.Error("the empty text has an ID")
	}
	before := view.refs.n
	texts.intern([]byte("later"))
	if view.refs.n != before {
		t.Error("a view grew")
	}
}

func TestProfileEventsAreOrderedAndBounded(t *testing.T) {
	texts := newTexts()
	name := texts.intern([]byte("a"))
	var s taskShard
	id := taskID(1)
	p, i := s.find(&id, 0)
	var b []byte
	var last int64
	for n := range 2 * maxProfileEvents {
		e := profileEvent{start: int64(n), end: int64(4*maxProfileEvents - n), name: name}
		b, last = appendProfile(b, last, e), e.start
	}
	for range 3 {
		s.addProfile(p, i, b)
	}
	s.addProfile(p, i, appendProfile(nil, 0, profileEvent{start: 5, end: int64(4*maxProfileEvents - 5), name: name})) // known, but in another event
	before := s.bytes.used
	s.addProfile(p, i, b)
	if s.bytes.used != before {
		t.Error("a repeated event was stored again")
	}
	view := texts.view()
	got := s.profileEvents(nil, &view, p.profile[i])
	if len(got) != maxProfileEvents {
		t.Fatalf("%d profile events, want %d", len(got), maxProfileEvents)
	}
	for n, e := range got {
		if want := int64(4*maxProfileEvents - maxProfileEvents + 1 + n); e.end != want || e.start != 4*maxProfileEvents-want {
			t.Fatalf("event %d is from %d to %d, want one that ends at %d", n, e.start, e.end, want)
		}
	}
}
