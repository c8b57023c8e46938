package stringtable

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestList(t *testing.T) {
	var l List[int]
	for i := range 20_000 {
		at := l.Add(i * 3)
		must.True(t, at == i, "element %d was put at %d", i, at)
	}
	for i := range 20_000 {
		got := *l.At(i)
		must.True(t, got == i*3, "element %d is %d", i, got)
	}
}

func TestByteArena(t *testing.T) {
	var a Arena
	random := rand.New(rand.NewPCG(1, 1))
	var refs []Ref
	var want [][]byte
	for i := range 3000 {
		s := bytes.Repeat([]byte{byte(i)}, []int{random.IntN(50), 0, arenaChunk - 1, arenaChunk, arenaChunk + 1,
			3 * arenaChunk}[max(0, random.IntN(100)-94)])
		refs, want = append(refs, a.Put(s)), append(want, s)
	}
	for i, ref := range refs {
		must.True(t, bytes.Equal(a.Get(ref, len(want[i])), want[i]), "string %d of %d bytes is another", i,
			len(want[i]))
	}
}

func TestTexts(t *testing.T) {
	texts := New()
	ids := make([][]ID, 4)
	var all sync.WaitGroup
	for g := range ids {
		all.Go(func() {
			for i := range 5000 {
				ids[g] = append(ids[g], texts.Intern(fmt.Appendf(nil, "text %d", (i*7+g)%3000)))
			}
		})
	}
	all.Wait()
	view := texts.View()
	for g := range ids {
		for i, id := range ids[g] {
			want := fmt.Sprintf("text %d", (i*7+g)%3000)
			got := string(view.Get(id))
			must.True(t, got == want, "ID %d is %q, want %q", id, got, want)
			again := texts.Intern([]byte(want))
			must.True(t, again == id, "%q has the IDs %d and %d", want, id, again)
		}
	}
	says.Equal(t, texts.refs.n, 3001, "texts")
	says.True(t, texts.Intern(nil) == 0 && view.Get(0) == nil, "the empty text has an ID")
	before := view.refs.n
	texts.Intern([]byte("later"))
	says.Equal(t, view.refs.n, before, "a view grew")
}

// TestFullArenaSaysSo: references are never those of other strings.
func TestFullArenaSaysSo(t *testing.T) {
	var a Arena
	a.chunks = make([][]byte, maxArenaChunks-1)
	first := a.Put([]byte("first"))
	a.used = arenaChunk
	if a.Put([]byte("second")); !a.Full {
		t.Error("there is a reference to a chunk too many")
	}
	says.Equal(t, string(a.Get(first, 5)), "first", "a string is another")
	texts := New()
	texts.bytes = a
	id := texts.Intern([]byte("new"))
	says.True(t, id == 0 && texts.Full(), "text %d, full: %t", id, texts.Full())
}
