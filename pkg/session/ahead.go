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
	fetchers *fetchers
	ctx      context.Context
	cancel   context.CancelFunc
	queue    []fetch // in the order of their chunks
	bytes    int64   // of them
}

// fetch is an object under way.
type fetch struct {
	ctx    context.Context
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

// fetchers are the goroutines that fetch for all wholes of a session, up to maxFetches. They are used again, because the stack of each has
// to grow to what a store's SDK needs: an eighth of the time that a small object takes.
type fetchers struct {
	store blob.Reader
	work  chan fetch
	group sync.WaitGroup

	mu      sync.Mutex
	started int
}

func newFetchers(store blob.Reader) *fetchers { return &fetchers{store: store, work: make(chan fetch)} }

// begin has an object fetched; it waits for a goroutine that is free.
func (f *fetchers) begin(job fetch) {
	select {
	case f.work <- job:
		return
	default:
	}
	f.mu.Lock()
	more := f.started < maxFetches
	if more {
		f.started++
		f.group.Go(func() { f.run(job) })
	}
	f.mu.Unlock()
	if !more {
		f.work <- job
	}
}

func (f *fetchers) run(job fetch) {
	for ok := true; ok; job, ok = <-f.work {
		body, err := readObject(job.ctx, f.store, job.object)
		job.done <- fetched{body, err}
	}
}

// stop ends the goroutines; nothing may be begun any more.
func (f *fetchers) stop() {
	close(f.work)
	f.group.Wait()
}

func newAhead(ctx context.Context, fetchers *fetchers) *ahead {
	ctx, cancel := context.WithCancel(ctx)
	return &ahead{fetchers: fetchers, ctx: ctx, cancel: cancel}
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
		f := fetch{ctx: a.ctx, object: o, done: make(chan fetched, 1)}
		a.queue = append(a.queue, f)
		a.fetchers.begin(f)
	}
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
	for _, f := range a.queue {
		<-f.done
	}
}

// readObject reads what an object was when it was listed.
func readObject(ctx context.Context, store blob.Reader, o blob.Object) ([]byte, error) {
	r, err := store.Get(ctx, o.Key, 0, o.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := bytes.NewBuffer(make([]byte, 0, o.Size+bytes.MinRead))
	if _, err := body.ReadFrom(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return body.Bytes(), nil
}
