package ship

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/blob"
)

const (
	// refusedAfter is the number of own errors in a row after which a stream counts as refused. The log names it, and
	// it is tried every refusedWait.
	refusedAfter = 3
	refusedWait  = 15 * time.Minute
	// errorWait is the longest wait of a stream after errors of the store.
	errorWait = time.Minute
	// maxNamed is the maximum number of refused streams that the log names, each once.
	maxNamed = 20
)

// fault is what caused an error. See the package's doc.
type fault uint8

const (
	noFault fault = iota // the shipper was stopped
	sourceFault
	storeFault
	objectFault
	sizeFault
)

// sourceError is an error of reading a source. It says nothing about the store.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// errSlow is the error of a put that exceeded its time.
var errSlow = errors.New("the upload is too slow")

// findFault finds out what an error of shipping a chunk is to be blamed on: see the package's comment. If the error
// itself does not show it, what counts is whether another chunk was stored since the same stream last failed: if so,
// the store works. So a missing right for some keys, or a proxy that breaks connections instead of answering 413, does
// not delay other streams.
func (s *Shipper) findFault(ctx context.Context, st *state, err error) fault {
	storeWorks := !st.failedAt.IsZero() && s.chunks.Load() > st.chunksThen
	// A chunk that is longer than the limit could not be cut there: it is one long line.
	divisible := st.upload.bytes > LeastChunk && (st.limit.bytes == 0 || st.upload.bytes <= st.limit.bytes)
	switch {
	case errors.As(err, new(sourceError)):
		return sourceFault
	case ctx.Err() != nil: // the shipper is being closed
		return noFault
	case errors.Is(err, blob.ErrThrottled): // chance decides which stream it hits
		return storeFault
	case errors.Is(err, blob.ErrTooLarge) && divisible, errors.Is(err, errSlow) && divisible:
		return sizeFault
	case errors.Is(err, blob.ErrTooLarge), errors.Is(err, blob.ErrRefused):
		return objectFault
	case storeWorks && divisible && st.ownErrors >= refusedAfter-1 && !errors.Is(err, blob.ErrPermission):
		return sizeFault // smaller chunks are tried before the next error would make the stream count as refused
	case storeWorks:
		return objectFault
	}
	return storeFault
}

// recordFailure records an error of a stream, and decides by its fault when the stream is tried again.
func (s *Shipper) recordFailure(now time.Time, j job, f fault, err error) {
	st := j.state
	// Nothing that was remembered is trusted after an error. But a throttled put usually stored nothing, and a listing
	// would be one more request. If an earlier attempt was stored, the next put finds its key taken and lists then.
	st.endKnown = st.endKnown && errors.Is(err, blob.ErrThrottled)
	if f == noFault {
		return
	}
	st.lastError = err.Error()
	st.backoff.Max = errorWait
	if f == sourceFault {
		st.notBefore = now.Add(st.backoff.Next())
		return
	}
	st.failedAt, st.chunksThen, st.slow = now, s.chunks.Load(), errors.Is(err, errSlow)
	if f == sizeFault {
		st.limit.halve(now, st.upload, st.slow)
		st.notBefore = now // at once: the chunks get smaller each time, so this ends
		return
	}
	if f == objectFault {
		st.ownErrors++
		st.backoff.Max = refusedWait
	}
	st.notBefore = now.Add(st.backoff.Next())
	if st.ownErrors >= refusedAfter && !st.refused.Swap(true) && s.namedRefused.Add(1) <= maxNamed {
		s.opts.Log.WithField("object", j.source.Key()).WithError(err).
			Warnf("the store keeps refusing this object, but may accept others: %s. It is tried again every %s, and "+
				"at the end", refusalAdvice(err), refusedWait)
	}
}

// recordStored records that a chunk of the stream was stored: the stream's earlier errors are over. The chunk proves a
// size limit that was found by halving if it is half as large at least, and then other streams begin with that limit.
func (s *Shipper) recordStored(now time.Time, j job) {
	st := j.state
	s.chunks.Add(1)
	if st.limit.unproven && 2*st.upload.bytes >= st.limit.bytes {
		st.limit.unproven = false
		s.passedLimit.Store(&chunkLimit{bytes: st.limit.bytes, since: now})
	}
	if st.refused.Swap(false) {
		s.opts.Log.WithField("object", j.source.Key()).Infof("the store has accepted it after %d errors",
			st.backoff.Errors())
	}
	st.failures = newFailures()
}

// refusalAdvice says what an operator can do about an error that only one object has.
func refusalAdvice(err error) string {
	switch {
	case errors.Is(err, blob.ErrTooLarge):
		return "a proxy or the store does not take bodies of this size: allow more there (nginx: client_max_body_size)"
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded):
		return "uploads take too long: check the link to the store, or lower --upload-concurrency"
	case errors.Is(err, blob.ErrPermission):
		return "the rights to create and to list must hold for all keys of the cluster (docs/storage.md)"
	case errors.Is(err, blob.ErrRefused):
		return "the store takes no object of this name: have the file written under another, shorter name"
	}
	return "see the store's error"
}

// errorKind is an error's label in the metrics. Errors that none of the other labels fits count as the backend's.
func errorKind(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, new(sourceError)):
		return "source"
	case errors.Is(err, blob.ErrPermission):
		return "permission"
	case errors.Is(err, blob.ErrThrottled):
		return "throttled"
	case errors.Is(err, blob.ErrTooLarge):
		return "too_large"
	case errors.Is(err, blob.ErrRefused):
		return "refused"
	case errors.Is(err, errSlow), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) &&
		timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	}
	return "backend"
}
