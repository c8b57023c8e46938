// Package metered wraps a store and counts its operations, errors, bytes and seconds, as metrics.
package metered

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/blob"
)

// Store counts the operations of the store it wraps.
type Store struct {
	store      blob.Store
	operations *prometheus.CounterVec
	failures   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	read       prometheus.Counter
	written    prometheus.Counter
}

var _ blob.Store = (*Store)(nil)

// New wraps a store, so that its operations are counted and timed in metrics that New registers at reg.
func New(store blob.Store, reg prometheus.Registerer) *Store {
	with := promauto.With(reg)
	bytes := with.NewCounterVec(prometheus.CounterOpts{
		Name: "rayhistory_storage_bytes_total", Help: "Bytes of objects read from and written to the store."},
		[]string{"direction"})
	return &Store{
		store: store,
		operations: with.NewCounterVec(prometheus.CounterOpts{
			Name: "rayhistory_storage_operations_total",
			Help: "Operations of the store; a listing counts once for all of its pages."}, []string{"operation"}),
		failures: with.NewCounterVec(prometheus.CounterOpts{
			Name: "rayhistory_storage_failures_total",
			Help: "Operations that failed after all retries. A missing key, a taken key and a caller that gave up " +
				"are no failures."}, []string{"operation", "reason"}),
		seconds: with.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rayhistory_storage_operation_seconds",
			Help:    "Time an operation took; a get until its body was read.",
			Buckets: prometheus.ExponentialBuckets(0.002, 4, 9)}, []string{"operation"}),
		read:    bytes.WithLabelValues("read"),
		written: bytes.WithLabelValues("written"),
	}
}

// startOperation counts an operation; the function it returns is called with its error when it has ended.
func (s *Store) startOperation(operation string) func(error) {
	s.operations.WithLabelValues(operation).Inc()
	begun := time.Now()
	return func(err error) {
		s.seconds.WithLabelValues(operation).Observe(time.Since(begun).Seconds())
		if reason := reasonOf(err); reason != "" {
			s.failures.WithLabelValues(operation, reason).Inc()
		}
	}
}

// reasonOf returns the label of a failed operation; "" if it did not fail: an object that is missing, or there already,
// is an answer, and a caller that has left is no failure of the store.
func reasonOf(err error) string {
	switch {
	case err == nil, errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrExist), errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, blob.ErrPermission):
		return "permission"
	case errors.Is(err, blob.ErrThrottled):
		return "throttled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return "other"
}

// Get implements blob.Reader. The operation lasts, for its metrics, until the body was read and closed.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := awaitTurn(ctx); err != nil {
		return nil, err
	}
	done := s.startOperation("get")
	body, err := s.store.Get(ctx, key, offset, length)
	if err != nil {
		done(err)
		return nil, err
	}
	return &reader{ReadCloser: body, read: s.read, done: done}, nil
}

// reader counts what is read, and ends the operation when it is closed.
type reader struct {
	io.ReadCloser
	read prometheus.Counter
	done func(error)
	err  error
}

// Read implements io.Reader. It remembers an error for the end of the operation.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.read.Add(float64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (r *reader) Close() error {
	if r.done != nil {
		r.done(r.err)
		r.done = nil
	}
	return r.ReadCloser.Close()
}

func (s *Store) Stat(ctx context.Context, key string) (o blob.Object, err error) {
	err = s.measure(ctx, "stat", func() (err error) {
		o, err = s.store.Stat(ctx, key)
		return err
	})
	return o, err
}

// measure counts and times an operation, after it has waited for its turn.
func (s *Store) measure(ctx context.Context, operation string, do func() error) error {
	if err := awaitTurn(ctx); err != nil {
		return err
	}
	done := s.startOperation(operation)
	err := do()
	done(err)
	return err
}

// List implements blob.Lister. A listing counts as one operation, but each of its pages waits for its turn.
func (s *Store) List(ctx context.Context, prefix string, opts blob.ListOptions) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		done := s.startOperation("list")
		failed, n := awaitTurn(ctx), 0
		defer func() { done(failed) }()
		if failed != nil {
			yield(blob.Object{}, failed)
			return
		}
		for o, err := range s.store.List(ctx, prefix, opts) {
			if n++; err == nil && n%pageObjects == 1 && n > 1 { // the first of the next page
				err = awaitTurn(ctx)
			}
			if failed = err; !yield(o, err) || err != nil {
				return
			}
		}
	}
}

func (s *Store) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.measureWrite(ctx, "create", body, func() error { return s.store.Create(ctx, key, body) })
}

func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.measureWrite(ctx, "put", body, func() error { return s.store.Put(ctx, key, body) })
}

// measureWrite counts and times an operation that writes body. The body's bytes count once, when they are stored,
// however often they were sent.
func (s *Store) measureWrite(ctx context.Context, operation string, body io.Seeker, write func() error) error {
	err := s.measure(ctx, operation, write)
	if err == nil {
		if size, seekErr := body.Seek(0, io.SeekEnd); seekErr == nil {
			s.written.Add(float64(size))
		}
	}
	return err
}

func (s *Store) Delete(ctx context.Context, key string) error {
	return s.measure(ctx, "delete", func() error { return s.store.Delete(ctx, key) })
}

// paceKey is the key of a context's limiter.
type paceKey struct{}

// Paced returns a context with which requests to a Store wait for their turn at a limiter, each page of a listing too:
// for work that may take its time. Only requests of a load that others may join do not wait: those that follow it do,
// the longer.
func Paced(ctx context.Context, limiter *rate.Limiter) context.Context {
	return context.WithValue(ctx, paceKey{}, limiter)
}

// pageObjects is how many objects a store lists in one request.
const pageObjects = 1000

// awaitTurn waits until a request of background work may be sent, if ctx has a limiter of its requests. A load that
// several wait for does not wait here: its requests only make the work's next requests wait longer.
func awaitTurn(ctx context.Context) error {
	limiter, ok := ctx.Value(paceKey{}).(*rate.Limiter)
	switch {
	case !ok:
		return nil
	case shared.IsShared(ctx):
		// What is owed ends with the load: who began it waits for all of that before asking for more.
		limiter.Reserve()
		return nil
	}
	return limiter.Wait(ctx)
}
