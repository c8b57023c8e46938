package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// ahead fetches the small chunks of a whole before they are wanted. A whole may consist of a chunk a minute, and each takes a request:
// one after the other, a hundred thousand take minutes from a store across a network.
type ahead struct {
	store blob.Reader
	// slots are shared by all that load a session: one is taken for each request under way.
	slots chan struct{}

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	queue   []fetch // in the order of their chunks
	bytes   int64   // of them
}

// fetch is an object under way.
type fetch struct {
	object blob.Object
	done   chan fetched // gets one
}

type fetched struct {
	body []byte
	err  error
}

const (
	smallChunk  = 256 << 10 // what is larger is worth a request of its own
	aheadBytes  = 1 << 20   // held for one whole
	aheadChunks = 32        // likewise
	maxFetches  = 64        // for a session
)

func newAhead(ctx context.Context, store blob.Reader, slots chan struct{}) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	return &ahead{store: store, slots: slots, ctx: ctx, cancel: cancel}
}

// fill begins to fetch what comes next of chunks, the first of which is wanted now, as far as it is small.
func (a *ahead) fill(chunks []chunk) {
	for len(a.queue) > 0 && a.queue[0].object.Key != chunks[0].object.Key {
		a.drop() // it was passed over
	}
	if len(chunks) == 1 {
		return // nothing to be ahead of
	}
	for n := len(a.queue); n < min(len(chunks), aheadChunks); n++ {
		o := chunks[n].object
		if o.Size > smallChunk || a.bytes+o.Size > aheadBytes {
			return
		}
		a.bytes += o.Size
		f := fetch{object: o, done: make(chan fetched, 1)}
		a.queue = append(a.queue, f)
		a.running.Go(func() { f.done <- a.fetch(o) })
	}
}

func (a *ahead) fetch(o blob.Object) fetched {
	select {
	case a.slots <- struct{}{}:
	case <-a.ctx.Done():
		return fetched{err: a.ctx.Err()}
	}
	defer func() { <-a.slots }()
	body, err := readObject(a.ctx, a.store, o)
	return fetched{body, err}
}

func (a *ahead) drop() {
	a.bytes -= a.queue[0].object.Size
	a.queue = a.queue[1:]
}

// take gives the bytes [from, end) of a chunk; ok is false if it is not the one that was fetched next.
func (a *ahead) take(o blob.Object, from int64) (body io.ReadCloser, ok bool, err error) {
	if len(a.queue) == 0 || a.queue[0].object.Key != o.Key {
		return nil, false, nil
	}
	got := <-a.queue[0].done
	a.drop()
	return io.NopCloser(bytes.NewReader(got.body[min(from, int64(len(got.body))):])), true, got.err
}

// stop ends what is under way.
func (a *ahead) stop() {
	a.cancel()
	a.running.Wait()
}

// readObject reads what an object was when it was listed.
func readObject(ctx context.Context, store blob.Reader, o blob.Object) ([]byte, error) {
	r, err := store.Get(ctx, o.Key, 0, o.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return body, nil
}
