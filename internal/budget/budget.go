// Package budget limits the memory that all answers in progress take together.
//
// The memory is divided into parts, so that no kind of answer waits for another: a request for the lineage of a large
// session waits for other such requests, but not for requests for its nodes, and the reverse. A request that waits too
// long gets an error.
package budget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
)

// Part is a part of the budget. A request that holds memory of one part may reserve memory of a later part, not of the
// same or an earlier one: so there are no deadlocks.
type Part int

const (
	// Answer is for the buffers that every answer needs.
	Answer Part = iota
	// Work is for answers that are put together in memory.
	Work
	// Parse is for reading stored documents of the usual size.
	Parse
	// LargeParse is for reading one larger document at a time.
	LargeParse

	parts
)

// names are the parts' names in metrics; eighths are their shares of the budget.
var (
	names   = [parts]string{"answer", "work", "parse", "large_parse"}
	eighths = [parts]int64{1, 3, 1, 3}
)

var (
	// ErrBusy says that not enough became free in time.
	ErrBusy = errors.New("the server is busy with other answers")
	// ErrTooLarge says that the request is larger than the budget.
	ErrTooLarge = errors.New("the answer needs more memory than answers may take (--max-answer-memory)")
)

const (
	// defaultWait is short: Ray's proxying dashboard gives up after 30 s, and the load of a session may have taken most
	// of them.
	defaultWait = 5 * time.Second
	// maxWaiting bounds the requests that wait for one part: each holds a connection and its buffers. Requests that
	// wait for another part than Answer also hold waiterAnswer of Answer. There may be an eighth of maxWaiting of them,
	// holding a quarter of Answer at most.
	maxWaiting   = 512
	waiterAnswer = 128 << 10
)

// quarters are how much of each part one caller may hold or wait for. More requests of the caller, maxWaiting/2 at
// most, wait for its own. A caller may hold Answer and Work for as long as it reads an answer; parsing ends by itself.
var quarters = [parts]int64{3, 3, 4, 4}

// Options of a Budget.
type Options struct {
	// Bytes is what all answers together may take.
	Bytes int64
	// Wait is how long a request waits for memory; 5 s if 0.
	Wait       time.Duration
	Registerer prometheus.Registerer
}

// Budget is shared by all answers. A nil *Budget has no bounds.
type Budget struct {
	bytes   int64
	wait    time.Duration
	pools   [parts]pool
	waited  *prometheus.HistogramVec
	refused *prometheus.CounterVec
}

// pool is the memory of one part.
type pool struct {
	queue
	bytes     int64
	perCaller int64 // of these, how many one may have
	used      atomic.Int64
	holders   atomic.Int64
	waiters   atomic.Int64 // for it, or for what their caller may have of it

	mu      sync.Mutex
	callers map[string]*share // that hold or wait for some
}

// queue is memory for which requests wait in turn.
type queue struct {
	free       *semaphore.Weighted
	maxWaiting int64
	waiting    atomic.Int64
}

// share is what one caller may have of a part.
type share struct {
	queue
	requests int // that hold or wait for some
}

type callerKey struct{}

// WithCaller returns a context for requests of a caller, whom key names. What has none, such as work in the background,
// may have all of a part.
func WithCaller(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, callerKey{}, key)
}

// New makes a budget of which nothing is reserved.
func New(opts Options) *Budget {
	b := &Budget{bytes: opts.Bytes, wait: opts.Wait}
	b.wait = cmp.Or(b.wait, defaultWait)
	factory := promauto.With(opts.Registerer)
	b.waited = factory.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "historyserver_answer_memory_wait_seconds",
		Help:    "Time that answers waited for memory, if they had to, by the part of --max-answer-memory.",
		Buckets: []float64{.003, .01, .03, .1, .3, 1, 3, 10},
	}, []string{"part"})
	b.refused = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "historyserver_answer_memory_refused_total",
		Help: "Answers refused for lack of memory: others held it for too long (busy), or all of it is not enough " +
			"(too_large).",
	}, []string{"part", "reason"})
	for p := range b.pools {
		part := &b.pools[p]
		part.bytes, part.callers = max(1, opts.Bytes*eighths[p]/8), map[string]*share{}
		part.perCaller = max(1, part.bytes*quarters[p]/4)
		part.free, part.maxWaiting = semaphore.NewWeighted(part.bytes), maxWaiting
		if Part(p) != Answer { // see maxWaiting
			part.maxWaiting = max(1, min(maxWaiting/8, b.pools[Answer].bytes/4/waiterAnswer))
		}
		for _, reason := range []string{"busy", "too_large"} {
			b.refused.WithLabelValues(names[p], reason)
		}
		part.register(factory, names[p])
	}
	return b
}

// register adds the pool's metrics, which part distinguishes from those of other pools.
func (l *pool) register(r promauto.Factory, part string) {
	gauge := func(name, help string, value func() int64) {
		opts := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"part": part}}
		r.NewGaugeFunc(opts, func() float64 { return float64(value()) })
	}
	gauge("historyserver_answer_memory_bytes", "Memory reserved for answers under way.", l.used.Load)
	gauge("historyserver_answer_memory_limit_bytes", "Memory that answers under way may take.",
		func() int64 { return l.bytes })
	gauge("historyserver_answers_in_flight", "Answers that memory is reserved for.", l.holders.Load)
	gauge("historyserver_answers_waiting", "Answers that wait for memory.", l.waiters.Load)
}

// unlimited is the size of a part where there is no budget.
const unlimited = 1 << 62

// Size is how many bytes a part has.
func (b *Budget) Size(p Part) int64 {
	if b == nil {
		return unlimited
	}
	return b.pools[p].bytes
}

// Reserve reserves bytes of a part until release is called; further calls of release do nothing. It waits for the bytes
// if others hold too much. A request for more than the part, but not more than the whole budget, gets all of the part,
// or all that its caller may have, so there is one such request at a time. Errors are ErrBusy, ErrTooLarge or ctx's
// cause. Without a budget (nil) nothing is limited.
func (b *Budget) Reserve(ctx context.Context, p Part, bytes int64) (release func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	part := &b.pools[p]
	if bytes > b.bytes {
		b.refused.WithLabelValues(names[p], "too_large").Inc()
		return nil, fmt.Errorf("%w: about %d bytes, of %d", ErrTooLarge, bytes, b.bytes)
	}
	leave := func() {}
	if key, ok := ctx.Value(callerKey{}).(string); ok {
		bytes = min(bytes, part.perCaller)
		if leave, err = b.reserveOwn(ctx, p, key, bytes); err != nil {
			return nil, err
		}
	}
	bytes = min(bytes, part.bytes)
	if err := b.acquire(ctx, p, &part.queue, bytes); err != nil {
		leave()
		return nil, err
	}
	part.used.Add(bytes)
	part.holders.Add(1)
	return sync.OnceFunc(func() {
		part.holders.Add(-1)
		part.used.Add(-bytes)
		part.free.Release(bytes)
		leave()
	}), nil
}

func (b *Budget) reserveOwn(ctx context.Context, p Part, key string, bytes int64) (leave func(), err error) {
	part := &b.pools[p]
	part.mu.Lock()
	own := part.callers[key]
	if own == nil {
		own = &share{queue: queue{free: semaphore.NewWeighted(part.perCaller), maxWaiting: max(1, part.maxWaiting/2)}}
		part.callers[key] = own
	}
	own.requests++
	part.mu.Unlock()
	forget := func() {
		part.mu.Lock()
		defer part.mu.Unlock()
		if own.requests--; own.requests == 0 {
			delete(part.callers, key)
		}
	}
	if err := b.acquire(ctx, p, &own.queue, bytes); err != nil {
		forget()
		return nil, err
	}
	return func() {
		own.free.Release(bytes)
		forget()
	}, nil
}

// acquire takes bytes of a part. It waits for them at most for the budget's time to wait. Requests are served in their
// order. The error is ErrBusy also if too many wait already.
func (b *Budget) acquire(ctx context.Context, p Part, from *queue, bytes int64) error {
	if from.free.TryAcquire(bytes) {
		return nil
	}
	defer from.waiting.Add(-1)
	if from.waiting.Add(1) > from.maxWaiting {
		b.refused.WithLabelValues(names[p], "busy").Inc()
		return ErrBusy
	}
	waiters := &b.pools[p].waiters
	waiters.Add(1)
	defer waiters.Add(-1)
	began := time.Now()
	waiting, cancel := context.WithTimeoutCause(ctx, b.wait, ErrBusy)
	defer cancel()
	err := from.free.Acquire(waiting, bytes)
	b.waited.WithLabelValues(names[p]).Observe(time.Since(began).Seconds())
	if err == nil {
		return nil
	}
	if err = context.Cause(waiting); errors.Is(err, ErrBusy) {
		b.refused.WithLabelValues(names[p], "busy").Inc()
	}
	return err
}
