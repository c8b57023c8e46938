package chunks

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// PrefetchBytes bounds the prefetched bytes of one Reader.
	PrefetchBytes = 1 << 20
	// PrefetchChunks bounds the prefetched chunks of one Reader.
	PrefetchChunks = 32

	smallChunk = 256 << 10 // a larger one is worth a request of its own
	maxFetches = 64        // at a time, for all readers of a Prefetcher
)

// Prefetcher fetches small chunks before they are read, for several readers. A stream may have a chunk for each minute,
// and each chunk costs a request: a hundred thousand requests in a row take minutes over a network.
//
// It keeps up to maxFetches goroutines alive, because each new one must grow its stack for the store's SDK. That would
// cost an eighth of the time of a small object.
type Prefetcher struct {
	store Store
	work  chan fetch
	group sync.WaitGroup

	mu      sync.Mutex
	started int
}

// NewPrefetcher creates a prefetcher. The caller stops it after the last of its readers is closed.
func NewPrefetcher(store Store) *Prefetcher { return &Prefetcher{store: store, work: make(chan fetch)} }

// Stop ends the goroutines.
func (f *Prefetcher) Stop() {
	close(f.work)
	f.group.Wait()
}

// fetch is an object that is being fetched.
type fetch struct {
	ctx    context.Context
	object blob.Object
	done   chan fetched // of capacity 1, so that run never waits for the reader
}

type fetched struct {
	body []byte
	err  error
}

// startFetch starts a fetch, in a goroutine that is free or, if there are fewer than maxFetches, in a new one.
// Otherwise it waits until one is free.
func (f *Prefetcher) startFetch(job fetch) {
	select {
	case f.work <- job:
		return
	default:
	}
	f.mu.Lock()
	more := f.started < maxFetches
	if more {
		f.started++
		f.group.Go(func() { f.runFetches(job) })
	}
	f.mu.Unlock()
	if !more {
		f.work <- job
	}
}

// runFetches makes fetches until the prefetcher is stopped, job first. A panic is the fetch's error.
func (f *Prefetcher) runFetches(job fetch) {
	for ok := true; ok; job, ok = <-f.work {
		var got fetched
		got.err = guard.CatchPanic(job.object.Key, func() (err error) {
			got.body, err = readObject(job.ctx, f.store, job.object)
			return err
		})
		job.done <- got
	}
}

// readObject reads the bytes that an object had when it was listed. Compaction may have stored a longer object under
// its key since, which begins with the same bytes.
func readObject(ctx context.Context, store Store, o blob.Object) ([]byte, error) {
	r, err := store.Get(ctx, o.Key, 0, o.Size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	body := bytes.NewBuffer(make([]byte, 0, o.Size+bytes.MinRead)) // with the room that ReadFrom wants at the end
	if _, err := body.ReadFrom(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return body.Bytes(), nil
}

// prefetch is the queue of one reader.
type prefetch struct {
	prefetcher *Prefetcher
	ctx        context.Context
	cancel     context.CancelFunc
	queue      []fetch // in the order of their chunks
	bytes      int64   // of them
}

// fetchNext starts to fetch the chunks that a reader comes to next, as long as they are small. The reader takes the
// first of them at once. Chunks in the queue that the reader has skipped are dropped.
func (a *prefetch) fetchNext(chunks []Chunk) {
	for len(a.queue) > 0 && a.queue[0].object.Key != chunks[0].Object.Key {
		a.dropFirst() // it was skipped
	}
	if len(chunks) == 1 {
		return // nothing comes after it
	}
	for n := len(a.queue); n < min(len(chunks), PrefetchChunks); n++ {
		o := chunks[n].Object
		if o.Size > smallChunk || a.bytes+o.Size > PrefetchBytes {
			return
		}
		a.bytes += o.Size
		f := fetch{ctx: a.ctx, object: o, done: make(chan fetched, 1)}
		a.queue = append(a.queue, f)
		a.prefetcher.startFetch(f)
	}
}

func (a *prefetch) dropFirst() {
	a.bytes -= a.queue[0].object.Size
	a.queue = a.queue[1:]
}

// takeFirst returns the stored bytes of a chunk from an offset. ok is false if the chunk is not the first in the queue.
func (a *prefetch) takeFirst(o blob.Object, from int64) (body io.ReadCloser, ok bool, err error) {
	if len(a.queue) == 0 || a.queue[0].object.Key != o.Key {
		return nil, false, nil
	}
	got := <-a.queue[0].done
	a.dropFirst()
	return io.NopCloser(bytes.NewReader(got.body[min(from, int64(len(got.body))):])), true, got.err
}

// cancelAll cancels all fetches.
func (a *prefetch) cancelAll() {
	a.cancel()
	for _, f := range a.queue {
		<-f.done
	}
}
