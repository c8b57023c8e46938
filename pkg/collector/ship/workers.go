package ship

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/background"
)

// job is one chunk to ship.
type job struct {
	group  *Group
	source Source
	state  *state
	bytes  int64     // waiting bytes, up to a bound
	oldest time.Time // arrival time of the first
	due    time.Time
	// freshDue is when the job became due, zero if the store has failed for the stream since its last stored chunk.
	// failedAt is the time of that failure, or zero. (The state itself belongs to a worker.)
	freshDue, failedAt time.Time
	// suspect says that the job may be slow or fail because of its own stream. Such jobs get only half of the workers.
	suspect bool
	permit  permit // by the breaker
}

// workers ship jobs, at most Options.Concurrency at a time.
type workers struct {
	shipper *Shipper
	// flushing ships also what is not due, and does not wait after errors.
	flushing bool
	wait     sync.WaitGroup
	ended    chan struct{} // a worker has ended; may be nil

	mu       sync.Mutex
	jobs     []job // that wait
	running  int   // workers
	suspects int   // under way
	large    int   // under way
	// tookNewest says that chooseJob took the last job, the newest, when it was last asked while a crowd waited.
	tookNewest bool
	shipped    int // chunks
	errs       []error
}

// maxErrors is the maximum number of errors that a pass returns.
const maxErrors = 10

// replaceJobs replaces the waiting jobs, and starts workers for them.
func (w *workers) replaceJobs(ctx context.Context, jobs []job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = slices.Clone(jobs)
	for range min(w.shipper.opts.Concurrency-w.running, len(jobs)) {
		w.running++
		w.wait.Go(func() { w.runWorker(ctx) })
	}
}

// runWorker is one worker: it takes jobs and ships a chunk of each until no waiting job may start. While flushing, it
// ships all chunks of a stream before it takes the next job. In the end it says what it shipped, and wakes the shipper.
func (w *workers) runWorker(ctx context.Context) {
	s := w.shipper
	shipped, anyFailed := 0, false
	for j, ok := w.takeJob(ctx); ok; j, ok = w.takeJob(ctx) {
		for {
			put, err := s.shipChunk(ctx, j, w.flushing)
			if put {
				shipped++
			}
			// While not flushing, streams that have waited longer come first.
			if err == nil && put && w.flushing && ctx.Err() == nil {
				const atOnce = true
				j.permit = s.breaker.requestPermit(time.Now(), j.freshDue, atOnce)
				if j.permit != denied {
					continue
				}
			}
			anyFailed = anyFailed || err != nil
			w.releaseJob(j, err)
			break
		}
	}
	w.mu.Lock()
	w.running--
	w.shipped += shipped
	w.mu.Unlock()
	background.Signal(w.ended)
	switch {
	case shipped > 0:
		background.Signal(s.mayHaveMore) // the same streams may have more
	case anyFailed:
		s.Wake() // the times of the next tries have changed
	}
}

// takeJob removes the next job that may start from the waiting ones, for the caller to ship and give back (releaseJob);
// false if there is none, or the shipper is being closed. The job has the breaker's permit.
func (w *workers) takeJob(ctx context.Context) (next job, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.shipper
	for ctx.Err() == nil && (w.flushing || s.stopping.Err() == nil) {
		i := w.chooseJob()
		if i < 0 {
			break
		}
		j := w.jobs[i]
		if j.permit = s.breaker.requestPermit(time.Now(), j.freshDue, w.flushing); j.permit == denied {
			break
		}
		if last := len(w.jobs) - 1; i == last {
			w.jobs = w.jobs[:last]
		} else {
			// The jobs before it move up by one: mostly there are none, while behind it ten thousand may wait.
			copy(w.jobs[1:], w.jobs[:i])
			w.jobs = w.jobs[1:]
		}
		s.mu.Lock()
		busy := j.state.busy
		j.state.busy = true // until releaseJob
		s.mu.Unlock()
		if busy { // a worker took the stream while the jobs were collected
			s.breaker.reportResult(time.Now(), j.permit, false, noFault)
			continue
		}
		if j.suspect {
			w.suspects++
		}
		if j.bytes > LeastChunk {
			w.large++
		}
		return j, true
	}
	return job{}, false
}

// chooseJob returns the index of the job that is to start next, -1 if none may. While the circuit is open that is the
// best probe. Otherwise it is the first job that leaves enough workers for others: suspect jobs get half of the
// workers, and large ones all but one. If a crowd waits, every second job is the newest one.
func (w *workers) chooseJob() int {
	if w.shipper.breaker.isOpen() {
		best := -1
		for i, j := range w.jobs {
			if best < 0 || probeOrder(j, w.jobs[best]) < 0 {
				best = i
			}
		}
		return best
	}
	// One worker is kept for jobs that finish soon.
	all := w.shipper.opts.Concurrency
	maxSuspects, maxLarge := max(1, all/2), max(1, all-1)
	mayStart := func(j job) bool {
		return (w.suspects < maxSuspects || !j.suspect) && (w.large < maxLarge || j.bytes <= LeastChunk)
	}
	if w.tookNewest = !w.flushing && len(w.jobs) > crowd && !w.tookNewest; w.tookNewest { // its turn; see crowd
		if last := len(w.jobs) - 1; mayStart(w.jobs[last]) {
			return last
		}
	}
	return slices.IndexFunc(w.jobs, mayStart)
}

// crowd is the number of waiting jobs from which every second one that starts is the newest instead of the one that
// waits longest: what is written now must not wait behind ten thousand old files.
const crowd = 256

// probeOrder is the order of probes: streams that have not failed, then the one that failed longest ago. Probes of a
// stream that the store refuses would never show that the store has recovered.
func probeOrder(a, b job) int {
	if c := a.failedAt.Compare(b.failedAt); c != 0 {
		return c // zero, of those that have not failed, is the first
	}
	return b.due.Compare(a.due) // the last to become due: the first may have waited since before the store failed
}

// releaseJob gives back a job that takeJob returned, after it was shipped or failed with err: its stream is no longer
// busy.
func (w *workers) releaseJob(j job, err error) {
	w.mu.Lock()
	if j.suspect {
		w.suspects--
	}
	if j.bytes > LeastChunk {
		w.large--
	}
	if err != nil && len(w.errs) < maxErrors {
		w.errs = append(w.errs, err)
	}
	w.mu.Unlock()
	w.shipper.mu.Lock()
	j.state.busy = false
	w.shipper.mu.Unlock()
}
