package sink

import (
	"math/bits"
	"time"
)

// buffers keeps what bodies were read into for the next ones: few of each size, because a node's events come one body at a time, and none
// once no body has come for keepFor. A sync.Pool kept one for each processor, and as many again until the next garbage collection.
type buffers struct {
	ready [classes]chan []byte // class n has those of leastBuffer << n bytes
	idle  *time.Timer
}

const (
	// leastBuffer is the smallest buffer. Those of up to 4 MiB are kept.
	leastBuffer = 4 << 10
	classes     = 11
	// keptBytes is what is kept of a class, but at least one buffer and at most keptBuffers.
	keptBytes   = 2 << 20
	keptBuffers = 4
	keepFor     = time.Minute
)

func newBuffers() *buffers {
	b := &buffers{}
	for c := range b.ready {
		b.ready[c] = make(chan []byte, max(1, min(keptBuffers, keptBytes/(leastBuffer<<c))))
	}
	b.idle = time.AfterFunc(keepFor, b.drop)
	return b
}

// get returns an empty buffer that holds n bytes.
func (b *buffers) get(n int64) []byte {
	if kept := b.kept(n); kept != nil {
		return kept
	}
	if c := class(n); c < classes {
		n = leastBuffer << c
	}
	return make([]byte, 0, n)
}

// kept returns an empty buffer that holds n bytes, if one is kept; else nil.
func (b *buffers) kept(n int64) []byte {
	if c := class(n); c < classes {
		select {
		case kept := <-b.ready[c]:
			return kept
		default:
		}
	}
	return nil
}

// put keeps a buffer that is no longer read.
func (b *buffers) put(buffer []byte) {
	c := class(int64(cap(buffer)))
	if c >= classes || cap(buffer) != leastBuffer<<c {
		return
	}
	select {
	case b.ready[c] <- buffer[:0]:
	default:
	}
	b.idle.Reset(keepFor)
}

// drop leaves all kept buffers to the garbage collector.
func (b *buffers) drop() {
	for c := range b.ready {
		for b.kept(leastBuffer<<c) != nil {
		}
	}
}

// class returns the smallest class of buffers that hold n bytes.
func class(n int64) int { return max(0, bits.Len64(uint64(max(n, 1)-1))-bits.Len64(leastBuffer-1)) }
