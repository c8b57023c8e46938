package ship

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

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
	// PushInterval is the age of the oldest unstored byte at which a chunk is cut. 0 means 60 s.
	PushInterval time.Duration
	// MaxChunk is the maximum size of a chunk before compression, in bytes. A stream with that many does not wait for PushInterval. 0 means
	// DefaultMaxChunk.
	MaxChunk int64
	// Concurrency is the maximum number of concurrent puts. 0 means 4.
	Concurrency int
	// BytesPerSecond limits the average upload rate. 0 means no limit. Flush ignores it.
	BytesPerSecond int64
	Log            logrus.FieldLogger
	Registerer     prometheus.Registerer
}

// DefaultMaxChunk is the size of a chunk in bytes, before compression, unless Options say otherwise.
const DefaultMaxChunk = 8 << 20

const (
	defaultPushInterval = time.Minute
	defaultConcurrency  = 4

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

	chunks      atomic.Int64 // stored
	named       atomic.Int64 // refused streams that the log named
	passedLimit atomic.Pointer[passedLimit]

	mu     sync.Mutex
	states map[string]*state // by stream

	wake   chan struct{}
	more   chan struct{} // a worker has stored something and has nothing left to do
	stop   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// New checks the options and reads what an earlier shipper left in Dir.
func New(o Options) (*Shipper, error) {
	o.PushInterval = cmp.Or(o.PushInterval, defaultPushInterval)
	o.MaxChunk = cmp.Or(o.MaxChunk, DefaultMaxChunk)
	o.Concurrency = cmp.Or(o.Concurrency, defaultConcurrency)
	s := &Shipper{
		opts:     o,
		listings: newListings(o.Store),
		breaker: breaker{
			backoff: backoff.Backoff{Min: time.Second, Max: errorWait},
			gap:     min(max(o.PushInterval/2, passGap), errorWait/2),
		},
		metrics:    newMetrics(o),
		errors:     logthrottle.Throttle{Log: o.Log},
		noteErrors: logthrottle.Throttle{Log: o.Log},
		states:     make(map[string]*state),
		wake:       make(chan struct{}, 1),
		more:       make(chan struct{}, 1),
		stop:       make(chan struct{}),
		done:       make(chan struct{}),
	}
	if o.BytesPerSecond > 0 {
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
		s.lengths = &lengthLog{notes: map[string][]note{}} // no notes are added; compressed chunks of an earlier setting may be listed
	}
	o.Registerer.MustRegister(refusedCollector{s})
	return s, nil
}

// noteFailed reports a compressed chunk whose note could not be written, unless err is nil.
func (s *Shipper) noteFailed(now time.Time, err error) {
	if err != nil {
		s.metrics.unnoted.Inc()
		s.noteErrors.Warn(now, "chunks cannot be noted on disk: they are stored all the same, but if the collector is killed now, bytes of their last ones are stored twice", err)
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
func (s *Shipper) Wake() { signal(s.wake) }

// Close ends the background work. Current puts may finish until ctx ends, and are then interrupted. ShipOnce and Flush still work.
func (s *Shipper) Close(ctx context.Context) {
	close(s.stop)
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	s.cancel()
	<-s.done
}

func (s *Shipper) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// run starts workers for streams as soon as they are due. A slow put delays only one worker.
func (s *Shipper) run(ctx context.Context) {
	w := &workers{shipper: s}
	defer w.wait.Wait()
	for !s.stopping() {
		now := time.Now()
		jobs, next := s.due(now, false)
		w.fill(ctx, jobs)
		if probe := s.nextProbe(now, jobs); !probe.IsZero() && (next.IsZero() || probe.Before(next)) {
			next = probe
		}
		wait := idleWait
		if !next.IsZero() {
			wait = min(idleWait, time.Until(next))
		}
		// The gap comes first: otherwise a source that grows byte by byte would keep the shipper busy with checks.
		more, ok := s.sleep(passGap, nil)
		if ok && !more {
			_, ok = s.sleep(wait-passGap, s.wake)
		}
		if !ok {
			return
		}
	}
}

// nextProbe returns when the first of the jobs may start while the circuit is open; zero if it is closed.
func (s *Shipper) nextProbe(now time.Time, jobs []job) (next time.Time) {
	for _, j := range jobs {
		at := s.breaker.waiting(now, j.newcomer)
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// sleep waits for d, for wake or for more to do; ok is false if the shipper is closed.
func (s *Shipper) sleep(d time.Duration, wake <-chan struct{}) (more, ok bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false, false
	case <-timer.C:
	case <-wake:
	case <-s.more:
		more = true
	}
	return more, true
}
