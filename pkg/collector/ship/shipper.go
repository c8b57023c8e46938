package ship

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Options of a shipper. Store, Groups, Log and Registerer must be set.
type Options struct {
	Store  blob.Creator
	Groups []Group
	// Prepare is called before anything of a whole is stored, and again until it succeeds. nil is nothing.
	Prepare func(ctx context.Context, whole string) error
	// Dir holds the ledger of compressed chunks; it may be empty if no group is compressed.
	Dir string
	// PushInterval is how old the oldest byte that is not stored may get before a chunk is cut. 0 means 60 s.
	PushInterval time.Duration
	// MaxChunk is how many bytes a chunk may have before compression; so many are shipped without waiting. 0 means 8 MiB.
	MaxChunk int64
	// Concurrency is how many puts may be under way. 0 means 4.
	Concurrency int
	// BytesPerSecond limits what is sent, on average. 0 is no limit. Flush does not heed it.
	BytesPerSecond int64
	Log            logrus.FieldLogger
	Registerer     prometheus.Registerer
}

const (
	defaultPushInterval = time.Minute
	defaultMaxChunk     = 8 << 20
	defaultConcurrency  = 4

	putTimeout  = time.Minute
	listTimeout = 5 * time.Minute
	// idleWait bounds how long the monitor sleeps without being woken, and passGap how short.
	idleWait = time.Minute
	passGap  = time.Second
	// positionAge is when the position of a whole that no longer grows is forgotten: it costs a listing if it does grow after all.
	positionAge = 24 * time.Hour
)

// Shipper stores what its sources have. New, then Start, then Close; or only New, and ShipOnce by hand.
type Shipper struct {
	opts     Options
	limit    *rate.Limiter
	notes    *ledger
	compress compressor
	folders  *folders
	breaker  breaker
	metrics  *metrics
	errors   errorLog

	mu        sync.Mutex
	positions map[string]*position

	wake   chan struct{}
	stop   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
}

// New checks the options and reads what an earlier shipper left in Dir.
func New(o Options) (*Shipper, error) {
	o.PushInterval = cmpOr(o.PushInterval, defaultPushInterval)
	o.MaxChunk = cmpOr(o.MaxChunk, defaultMaxChunk)
	o.Concurrency = cmpOr(o.Concurrency, defaultConcurrency)
	s := &Shipper{
		opts:      o,
		folders:   &folders{store: o.Store, known: make(map[string]*folder)},
		breaker:   breaker{backoff: Backoff{Min: time.Second, Max: time.Minute}},
		errors:    errorLog{log: o.Log},
		positions: make(map[string]*position),
		wake:      make(chan struct{}, 1),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	if o.BytesPerSecond > 0 {
		s.limit = rate.NewLimiter(rate.Limit(o.BytesPerSecond), int(max(o.BytesPerSecond, o.MaxChunk)))
	}
	for _, g := range o.Groups {
		if g.Compression == layout.Plain || s.notes != nil {
			continue
		}
		var err error
		if s.notes, err = openLedger(o.Dir, time.Now()); err != nil {
			return nil, err
		}
	}
	if s.notes == nil {
		// Nothing compressed is put, but chunks of an earlier setting may be found.
		s.notes = &ledger{notes: map[string][]note{}}
	}
	s.metrics = newMetrics(o)
	return s, nil
}

func cmpOr[T int | int64 | time.Duration](v, byDefault T) T {
	if v == 0 {
		return byDefault
	}
	return v
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

// Wake says that a source has something new.
func (s *Shipper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends the background work. Puts that are under way are finished while ctx lets them, and interrupted then. ShipOnce and Flush
// still work.
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

// run schedules passes: the work itself is ShipOnce.
func (s *Shipper) run(ctx context.Context) {
	for !s.stopping() {
		pass := s.ship(ctx, false)
		if pass.shipped > 0 && pass.err == nil {
			continue // there may be more of the same
		}
		wait := idleWait
		if !pass.next.IsZero() {
			wait = min(idleWait, time.Until(pass.next))
		}
		// A wake-up is heeded after a gap, or a source that grows byte by byte would keep the shipper busy with looking at it.
		if !s.sleep(passGap, nil) || !s.sleep(wait-passGap, s.wake) {
			return
		}
	}
}

// sleep waits for d or for wake; false if the shipper is closed.
func (s *Shipper) sleep(d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.stop:
		return false
	case <-timer.C:
	case <-wake:
	}
	return true
}

// pass is what one look at all sources did.
type pass struct {
	shipped int // chunks
	// next is when the next chunk becomes due, zero if nothing is pending.
	next time.Time
	left int // sources with something pending that was not shipped
	err  error
}

// ShipOnce ships one chunk of each source that has a whole chunk, or whose oldest byte waited for PushInterval, the longest waiting
// first. It returns when a next call has something to do (zero: not before something is written), and an error if something was due and
// could not be shipped.
func (s *Shipper) ShipOnce(ctx context.Context) (shipped int, next time.Time, err error) {
	p := s.ship(ctx, false)
	return p.shipped, p.next, p.err
}

// Flush ships everything that is pending, without waiting for whole chunks. It gives up only when ctx ends: the error then says what
// is left.
func (s *Shipper) Flush(ctx context.Context) error {
	backoff := Backoff{Min: 200 * time.Millisecond, Max: 2 * time.Second}
	for {
		p := s.ship(ctx, true)
		if p.left == 0 {
			return nil
		}
		if ctx.Err() == nil && p.shipped > 0 {
			backoff.Reset()
			continue
		}
		timer := time.NewTimer(backoff.Next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%d files or event streams are not stored completely: %w", p.left, errors.Join(p.err, ctx.Err()))
		case <-timer.C:
		}
	}
}

// job is one chunk to ship.
type job struct {
	group  *Group
	source Source
	at     *position
	oldest time.Time
}

// ship makes one pass. all ships what is not due as well, and does not wait after errors.
func (s *Shipper) ship(ctx context.Context, all bool) pass {
	now := time.Now()
	if all {
		s.breaker.probeNow()
	}
	jobs, next := s.due(now, all)
	p := pass{next: next}
	if len(jobs) == 0 {
		return p
	}
	var mu sync.Mutex
	take := func() (job, bool) {
		mu.Lock()
		defer mu.Unlock()
		if len(jobs) == 0 || ctx.Err() != nil || (!all && s.stopping()) || !s.breaker.enter(time.Now()) {
			return job{}, false
		}
		j := jobs[0]
		jobs = jobs[1:]
		return j, true
	}
	var workers sync.WaitGroup
	for range min(s.opts.Concurrency, len(jobs)) {
		workers.Go(func() {
			for j, ok := take(); ok; j, ok = take() {
				put, err := s.one(ctx, j, all)
				mu.Lock()
				if err != nil {
					p.err = errors.Join(p.err, err)
				} else if put {
					p.shipped++
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil && p.err == nil {
		p.err = err
	}
	if all {
		// Whoever grew meanwhile counts too: Flush is done when nothing is pending.
		again, _ := s.due(time.Now(), true)
		p.left = len(again)
	}
	if until := s.breaker.waiting(); !until.IsZero() {
		p.next = until
	} else if soon := now.Add(passGap); p.err != nil && (p.next.IsZero() || soon.Before(p.next)) {
		p.next = soon // what failed is tried again after its own wait
	}
	return p
}

// due collects the sources to ship from now, the longest waiting first, and says when the next of the others becomes due.
func (s *Shipper) due(now time.Time, all bool) (jobs []job, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.opts.Groups {
		group := &s.opts.Groups[i]
		for _, source := range group.Sources() {
			// Twice the limit: a source that is cut between lines may have no cut at the limit itself.
			_, n, oldest := source.Pending(2 * s.opts.MaxChunk)
			if n == 0 {
				var ok bool
				if oldest, ok = emptySince(source); !ok {
					continue
				}
			}
			at := s.positions[source.Whole()]
			if at == nil {
				at = &position{backoff: Backoff{Min: time.Second, Max: time.Minute}}
				s.positions[source.Whole()] = at
			}
			at.used = now
			when := oldest.Add(s.opts.PushInterval)
			if n >= s.opts.MaxChunk {
				when = oldest
			}
			if when.Before(at.notBefore) {
				when = at.notBefore
			}
			if all || !when.After(now) {
				jobs = append(jobs, job{group, source, at, oldest})
			} else if next.IsZero() || when.Before(next) {
				next = when
			}
		}
	}
	s.prune(now)
	slices.SortStableFunc(jobs, func(a, b job) int { return a.oldest.Compare(b.oldest) })
	return jobs, next
}

// emptySince says whether a source without bytes is to be stored as empty.
func emptySince(source Source) (time.Time, bool) {
	if e, ok := source.(Emptiable); ok {
		return e.Empty()
	}
	return time.Time{}, false
}

// prune forgets positions of wholes that no longer grow, such as those of past hours.
func (s *Shipper) prune(now time.Time) {
	if len(s.positions) < 1024 {
		return
	}
	for whole, at := range s.positions {
		if now.Sub(at.used) < positionAge {
			continue
		}
		delete(s.positions, whole)
		for _, group := range s.opts.Groups {
			s.folders.forget(group.Naming, whole)
		}
	}
}
