package ship

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// sourceError is an error of reading what is to be shipped: no reason to doubt the backend.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// one ships one chunk and keeps the books. put is false where there was nothing to ship after all.
func (s *Shipper) one(ctx context.Context, j job, all bool) (put bool, err error) {
	put, err = s.chunk(ctx, j, all)
	now := time.Now()
	result := stored
	switch source := (sourceError{}); {
	case errors.As(err, &source):
		result = withheld
	case err != nil && ctx.Err() != nil:
		result = withheld // interrupted, not refused
	case err != nil:
		result = failed
	case !put:
		result = withheld
	}
	recovered, opened := s.breaker.leave(now, result)
	s.metrics.breaker(s.breaker.waiting())
	if err == nil {
		j.at.backoff.Reset()
		j.at.notBefore = time.Time{}
		if recovered > 0 {
			s.errors.recovered(recovered)
		}
		return put, nil
	}
	j.at.known = false // nothing that was remembered is trusted after an error
	j.at.notBefore = now.Add(j.at.backoff.Next())
	err = fmt.Errorf("ship %s: %w", j.source.Whole(), err)
	if ctx.Err() == nil {
		s.metrics.error(j.group.Name, err)
		s.errors.report(now, err)
	}
	if opened {
		s.opts.Log.WithField("next try", s.breaker.waiting().Sub(now).Round(time.Second)).
			Warnf("the backend failed %d times in a row: trying one upload at a time until it answers; events wait in the spool and logs on disk", breakerErrors)
	}
	return false, err
}

// chunk ships the next chunk of a source; false if it has none.
func (s *Shipper) chunk(ctx context.Context, j job, all bool) (put bool, err error) {
	whole := j.source.Whole()
	if !j.at.prepared && s.opts.Prepare != nil {
		prepareCtx, cancel := context.WithTimeout(ctx, putTimeout)
		defer cancel()
		if err := s.opts.Prepare(prepareCtx, whole); err != nil {
			return false, err
		}
	}
	j.at.prepared = true
	taken := ""
	for range 2 {
		if !j.at.known {
			if err := s.locate(ctx, j); err != nil {
				return false, err
			}
		}
		offset, n, _ := j.source.Pending(s.opts.MaxChunk)
		if n == 0 {
			return s.empty(ctx, j)
		}
		if offset < j.at.end {
			return false, sourceError{fmt.Errorf("the source is at byte %d though %d are stored", offset, j.at.end)}
		}
		key, err := s.put(ctx, j, offset, n, all)
		switch {
		case err == nil:
			j.source.Shipped(offset + n)
			j.at.end = offset + n
			return true, nil
		case !errors.Is(err, os.ErrExist):
			return false, err
		}
		// An earlier put whose answer was lost, or another collector: go on behind what is stored.
		s.metrics.taken(j.group.Name)
		j.at.known = false
		taken = key
	}
	return false, fmt.Errorf("%s is taken, but the listing does not tell: is another program writing below %s?", taken, whole)
}

// locate asks the store where the whole ends and has the source go on there.
func (s *Shipper) locate(ctx context.Context, j job) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	whole := j.source.Whole()
	s.metrics.list(j.group.Name)
	t, err := s.folders.find(ctx, j.group.Naming, whole, j.at.located)
	if err != nil {
		return err
	}
	var end int64
	if t != nil {
		end = t.end(whole, s.notes)
	}
	if err := j.source.Resume(end); err != nil {
		return sourceError{fmt.Errorf("resume at %d: %w", end, err)}
	}
	j.at.known, j.at.located, j.at.end = true, true, end
	j.at.noted = t != nil && end == 0
	return nil
}

// empty stores a whole that has no bytes as an empty object.
func (s *Shipper) empty(ctx context.Context, j job) (put bool, err error) {
	e, ok := j.source.(Emptiable)
	if !ok {
		return false, nil
	}
	if _, ok := e.Empty(); !ok {
		return false, nil
	}
	if !j.at.noted {
		ctx, cancel := context.WithTimeout(ctx, putTimeout)
		defer cancel()
		start := time.Now()
		err = s.opts.Store.Create(ctx, layout.LogChunkKey(j.source.Whole(), 0, layout.Plain), bytes.NewReader(nil))
		if errors.Is(err, os.ErrExist) {
			err = nil // the next listing tells what it is
			j.at.known = false
		}
		s.metrics.put(j.group.Name, 0, 0, time.Since(start), err)
		if err != nil {
			return false, err
		}
	}
	put, j.at.noted = !j.at.noted, true
	e.Noted()
	return put, nil
}

// put creates the chunk of n bytes at offset.
func (s *Shipper) put(ctx context.Context, j job, offset, n int64, all bool) (key string, err error) {
	whole := j.source.Whole()
	src, err := j.source.Open(offset, n)
	if err != nil {
		return "", sourceError{err}
	}
	defer src.Close()
	in := &exact{src: src, n: n}
	var body io.ReadSeeker = in
	size := n
	if j.group.Compression != layout.Plain {
		compressed, err := s.compress.compress(in, j.group.Compression)
		if err != nil {
			return "", sourceError{fmt.Errorf("compress: %w", err)}
		}
		body, size = compressed, compressed.Size()
		if err := s.notes.add(note{Whole: whole, Offset: offset, Length: n, Size: size, Time: time.Now().Unix()}); err != nil {
			return "", sourceError{err}
		}
	}
	if s.limit != nil && !all {
		if err := s.limit.WaitN(ctx, int(min(size, int64(s.limit.Burst())))); err != nil {
			return "", err
		}
	}
	key = j.group.Naming.Key(whole, offset, j.group.Compression)
	if j.at.noted && offset == 0 {
		key = layout.SpelledChunkKey(whole, offset, j.group.Compression)
	}
	putCtx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	start := time.Now()
	err = s.opts.Store.Create(putCtx, key, body)
	s.metrics.put(j.group.Name, n, size, time.Since(start), err)
	if err != nil && in.err != nil {
		err = sourceError{err}
	}
	return key, err
}
