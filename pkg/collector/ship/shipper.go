// Package ship stores everything that grows, spooled events and log files alike, as immutable chunks.
//
// # The listing is the checkpoint
//
// A stream is one growing sequence of bytes with a key of its own. It is stored as chunks: the first under the stream's
// key, later ones under keys that contain the offset of their first byte (package layout). A chunk is created, never
// replaced. So a put that is repeated after a lost answer does no harm, and the store's listing says where to continue:
// the next chunk begins where the last one ends. Nothing that a shipper remembers has to survive: after any error
// but throttling, and when a key exists already, it lists again.
//
// A listing shows a chunk's stored size, which for a compressed chunk is not its length in the stream. So each
// compressed chunk is recorded in a file before it is put (see lengthLog): offset, length, stored size. A listed chunk
// that agrees with a record ends where the record says. A chunk without a record (the file was lost, another collector
// stored the chunk, or compaction joined it) may have any length above 0. A log continues at the chunk's offset + 1:
// its file has the same bytes there, and readers skip those that earlier chunks hold. Spooled lines may be others than
// the chunk's, so their stream continues far behind it, in the next region (layout.NextRegion), and readers take
// nothing between for missing. Lines that are stored twice by this count once.
//
// # When a chunk is cut
//
// A stream is due when MaxChunk bytes wait, or when its oldest byte has waited for PushInterval. Flush ships everything
// at once. The stream that waits longest goes first. During Flush the shortest goes first, because then the most
// streams are stored completely.
//
// # What an error means
//
// Every error has one of four causes (see findFault):
//
//	source  The bytes cannot be read. The stream waits, with backoff. Nothing else is affected.
//	store   The store is down, throttles, or is closed to this collector. After five such errors in a row the circuit breaker
//	        opens: one upload at a time goes out as a probe, ever more rarely, until one succeeds.
//	object  The store refuses this object and may take others, such as for its name or a missing right. The stream waits by itself,
//	        up to 15 min; after three such errors in a row the log and a metric name it.
//	size    The chunk is too large, or too slow for its time. The stream's chunks are halved until one passes, down to LeastChunk.
//	        Twice the size is tried again after an hour; other streams begin with the size that passed.
//
// The error itself often shows which (413, a refused key). Otherwise the time between decides: if another chunk was
// stored between two errors of the same stream, the store works and refuses only this object.
package ship

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/background"
	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/logthrottle"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a shipper. Store, Groups, Log and Registerer must be set.
type Options struct {
	Store  blob.Creator
	Groups []Group
	// Prepare, unless nil, is called before anything of a stream is stored, and again until it succeeds.
	Prepare func(ctx context.Context, stream string) error
	// Dir is the folder of the file with the lengths of compressed chunks; it may be empty if no group is compressed.
	Dir string
	// PushInterval is the age of the oldest unstored byte at which a chunk is cut. 0 means DefaultPushInterval.
	PushInterval time.Duration
	// MaxChunk is the maximum size of a chunk before compression, in bytes. A stream with that many does not wait for
	// PushInterval. 0 means DefaultMaxChunk.
	MaxChunk int64
	// Concurrency is the maximum number of concurrent puts. 0 means DefaultConcurrency.
	Concurrency int
	// BytesPerSecond limits the average upload rate. 0 means no limit. Flush ignores it.
	BytesPerSecond int64
	Log            logrus.FieldLogger
	Registerer     prometheus.Registerer
}

// Defaults of Options.
const (
	DefaultPushInterval = time.Minute
	DefaultMaxChunk     = 8 << 20 // bytes
	DefaultConcurrency  = 4
)

const (
	// The monitor sleeps at least passGap, and at most idleWait.
	passGap  = time.Second
	idleWait = time.Minute
)

// Shipper stores the bytes of its sources. Call New, then Start, then Close; or only New, and ShipOnce by hand.
type Shipper struct {
	opts       Options
	rate       *rate.Limiter // nil: no limit
	lengths    *lengthLog
	compressor compressor
	listings   *listings
	breaker    breaker
	metrics    *metrics
	errors     logthrottle.Throttle
	noteErrors logthrottle.Throttle

	chunks       atomic.Int64               // stored
	namedRefused atomic.Int64               // refused streams that the log named
	passedLimit  atomic.Pointer[chunkLimit] // at which chunks passed after larger ones had failed

	mu     sync.Mutex
	states map[string]*state // by stream

	wake        chan struct{}
	mayHaveMore chan struct{}   // a worker has stored something and has nothing left to do
	stopping    context.Context // ends when nothing more is to be begun
	stop        context.CancelFunc
	cancel      context.CancelFunc // interrupts the puts of run
	done        chan struct{}      // run has ended
}

// New makes a shipper, and reads what an earlier one left in Dir.
func New(o Options) (*Shipper, error) {
	o.PushInterval = cmp.Or(o.PushInterval, DefaultPushInterval)
	o.MaxChunk = cmp.Or(o.MaxChunk, DefaultMaxChunk)
	o.Concurrency = cmp.Or(o.Concurrency, DefaultConcurrency)
	s := &Shipper{
		opts:     o,
		listings: newListings(o.Store),
		breaker: breaker{
			backoff: backoff.Backoff{Min: time.Second, Max: errorWait},
			gap:     min(max(o.PushInterval/2, passGap), errorWait/2),
		},
		errors:      logthrottle.Throttle{Log: o.Log},
		noteErrors:  logthrottle.Throttle{Log: o.Log},
		states:      make(map[string]*state),
		wake:        make(chan struct{}, 1),
		mayHaveMore: make(chan struct{}, 1),
		done:        make(chan struct{}),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.metrics = newMetrics(s)
	if o.BytesPerSecond > 0 { // a whole chunk may go at once
		s.rate = rate.NewLimiter(rate.Limit(o.BytesPerSecond), int(max(o.BytesPerSecond, o.MaxChunk)))
	}
	if slices.ContainsFunc(o.Groups, func(g Group) bool { return g.Compression != layout.Plain }) {
		now := time.Now()
		var err error
		if s.lengths, err = openLengthLog(o.Dir, now); s.lengths == nil {
			return nil, err
		}
		s.noteFailed(now, err)
	} else {
		// no notes are added; compressed chunks of an earlier setting may be listed
		s.lengths = &lengthLog{notes: map[string][]note{}}
	}
	return s, nil
}

// noteFailed reports a compressed chunk whose note could not be written, unless err is nil.
func (s *Shipper) noteFailed(now time.Time, err error) {
	if err != nil {
		s.metrics.unnoted.Inc()
		s.noteErrors.Warn(now, "chunks cannot be noted on disk: they are stored all the same, but if the collector "+
			"is killed now, bytes of their last ones are stored twice", err)
	}
}

// Start ships in the background until Close.
func (s *Shipper) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.run(ctx)
	}()
}

// Wake signals that a source has something new.
func (s *Shipper) Wake() { background.Signal(s.wake) }

// Close ends the background work. Current puts may finish until ctx ends, and are then interrupted. ShipOnce and Flush
// still work.
func (s *Shipper) Close(ctx context.Context) {
	s.stop()
	if s.cancel == nil {
		return // it was not started
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	s.cancel()
	<-s.done
}

// run ships streams when they are due, until the shipper is closed. In each round it gives the due jobs to workers, and
// does not wait for these: a slow put delays only one of them. Then it sleeps for passGap at least, so that a source
// that grows byte by byte does not keep it busy, and after that until the next job is due, a source has something new
// or a worker has become free.
func (s *Shipper) run(ctx context.Context) {
	w := &workers{shipper: s}
	defer w.wait.Wait()
	for s.stopping.Err() == nil {
		now := time.Now()
		jobs, next := s.dueJobs(now)
		w.replaceJobs(ctx, jobs)
		if probe := s.nextProbe(now, jobs); !probe.IsZero() && (next.IsZero() || probe.Before(next)) {
			next = probe
		}
		wait := idleWait
		if !next.IsZero() {
			wait = min(idleWait, time.Until(next))
		}
		var ignoreSources chan struct{}
		mayHaveMore, closed := s.sleep(passGap, ignoreSources)
		if !closed && !mayHaveMore {
			_, closed = s.sleep(wait-passGap, s.wake)
		}
		if closed {
			return
		}
	}
}

// nextProbe returns when the first of the jobs may start while the circuit is open; zero if it is closed.
func (s *Shipper) nextProbe(now time.Time, jobs []job) (next time.Time) {
	for _, j := range jobs {
		at := s.breaker.nextStart(now, j.freshDue)
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// sleep waits until d is over, wake receives, a worker has become free or the shipper is closed. mayHaveMore says that
// a worker has become free that has stored something: its streams may have more.
func (s *Shipper) sleep(d time.Duration, wake <-chan struct{}) (mayHaveMore, closed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stopping.Done():
		return false, true
	case <-s.mayHaveMore:
		return true, false
	case <-timer.C:
	case <-wake:
	}
	return false, false
}

// ShipOnce ships one chunk of each source that is due, the longest waiting first. shipped counts the chunks. next is
// when the next call has something to do; zero means only after something is written. The error has those of the chunks
// that were due and could not be shipped.
func (s *Shipper) ShipOnce(ctx context.Context) (shipped int, next time.Time, err error) {
	now := time.Now()
	jobs, next := s.dueJobs(now)
	if len(jobs) == 0 {
		return 0, next, nil
	}
	w := &workers{shipper: s}
	w.replaceJobs(ctx, jobs)
	w.wait.Wait()
	if err = errors.Join(w.errs...); err == nil {
		err = ctx.Err()
	}
	if until := s.nextProbe(time.Now(), jobs); !until.IsZero() { // the circuit is open: only a probe may start
		next = until
	} else if soon := now.Add(passGap); err != nil && (next.IsZero() || soon.Before(next)) {
		next = soon // a failed stream is tried again after its own wait
	}
	return w.shipped, next, err
}

// Flush ships everything that is pending, due or not, the shortest first, and what becomes pending meanwhile. It gives
// up only when ctx ends. Then the error names the streams that are left.
func (s *Shipper) Flush(ctx context.Context) error {
	w := &workers{shipper: s, flushing: true, ended: make(chan struct{}, 1)}
	retry := backoff.Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}
	for {
		w.mu.Lock()
		working := w.running > 0
		w.mu.Unlock()
		jobs := s.allJobs(time.Now())
		if !working && len(jobs) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			w.wait.Wait()
			if jobs = s.allJobs(time.Now()); len(jobs) == 0 {
				return nil
			}
			return fmt.Errorf("%d files or event streams are not stored completely: %s: %w", len(jobs),
				describeJobs(jobs), ctx.Err())
		}
		w.replaceJobs(ctx, jobs)
		w.awaitShipped(ctx, &retry)
	}
}

// awaitShipped waits until a worker has ended that has shipped something: then more may be pending. If none does, it
// returns at the time of the next retry, or when ctx ends.
func (w *workers) awaitShipped(ctx context.Context, retry *backoff.Backoff) {
	timer := time.NewTimer(retry.Next())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-w.ended:
			w.mu.Lock()
			shipped := w.shipped // since this was asked last
			w.shipped = 0
			w.mu.Unlock()
			if shipped > 0 {
				retry.Reset()
				return
			}
		}
	}
}

// describeJobs lists the keys of streams that are left, each with its last error, for an error's text: ten at most.
func describeJobs(left []job) string {
	const maxNames = 10
	var out strings.Builder
	for i, j := range left[:min(len(left), maxNames)] {
		if i > 0 {
			out.WriteString("; ")
		}
		out.WriteString(j.source.Key())
		if j.state.lastError != "" {
			fmt.Fprintf(&out, " (%.300s)", j.state.lastError)
		}
	}
	if len(left) > maxNames {
		fmt.Fprintf(&out, "; and %d more", len(left)-maxNames)
	}
	return out.String()
}
