package sink

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBuffers: a few of each size are kept for the next bodies, none once no body came for keepFor.
func TestBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffers()
		defer b.idle.Stop()
		if b.kept(1) != nil {
			t.Fatal("a buffer before there was any")
		}
		for range 100 {
			b.put(b.get(1 << 20)[:10])
			b.put(make([]byte, 1<<20))
			b.put(make([]byte, 5<<10))                     // no size of ours
			b.put(make([]byte, 0, 2*leastBuffer<<classes)) // larger than what is kept
		}
		time.Sleep(keepFor - time.Second)
		first := b.get(1<<20 - 5)
		if len(first) != 0 || cap(first) != 1<<20 {
			t.Errorf("%d bytes of %d", len(first), cap(first))
		}
		if kept := 1 + len(b.ready[class(1<<20)]); kept != keptBytes>>20 {
			t.Errorf("%d buffers of 1 MiB are kept", kept)
		}
		if b.kept(5<<10) != nil || b.kept(4<<20) != nil {
			t.Error("a buffer nobody put there")
		}
		b.put(first)
		time.Sleep(keepFor - time.Second)
		if kept := b.kept(1 << 20); kept == nil {
			t.Error("dropped before its time")
		} else {
			b.put(kept)
		}
		time.Sleep(keepFor + time.Second)
		if b.kept(1<<20) != nil {
			t.Error("kept though no body came")
		}
	})
}

// TestAnnouncedBodies: bodies that announce much take kept buffers, but together no more than half of the memory.
func TestAnnouncedBodies(t *testing.T) {
	const size = 1 << 20
	m := newBodies(size, 3*size)
	m.buffers.put(make([]byte, size))
	m.buffers.put(make([]byte, size))
	one := m.begin(t.Context(), size-100)
	if one == nil || one.taken != size-100 || cap(one.bytes) != size {
		t.Fatalf("%+v", one)
	}
	two := m.begin(t.Context(), size-100)
	if two == nil || two.taken != firstBytes || cap(two.bytes) != firstBytes {
		t.Fatalf("%d bytes for what is only announced, with %d taken of %d", two.taken, one.taken, m.most)
	}
	m.release(one)
	m.release(two)
	if n := m.taken.Load(); n != 0 || !m.memory.TryAcquire(m.most) {
		t.Errorf("%d bytes are still taken", n)
	}
}
