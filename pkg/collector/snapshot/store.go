package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// storeIfChanged stores an answer if it differs from the last one that was stored. keep says that it is to be kept on disk: the URL has to
// wait, the session's bytes are used up, only figures changed, which are stored at the end, or the store did not take it.
func (t *Taker) storeIfChanged(ctx context.Context, s *sessionState, e endpoint, file *os.File, taken time.Time, final bool) (stored, keep bool, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, false, err
	}
	sum, err := digest(file, e.volatile)
	if err != nil {
		return false, false, err
	}
	u := s.URLs[e.url]
	if u == nil {
		u = &urlState{}
	} else if u.Digest == sum {
		if !e.hardware {
			s.drop(e.url) // an older answer that differed and could not be stored is out of date
		}
		return false, e.hardware, nil
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, false, err
	}
	if !t.fits(s, size, final) || (!final && u.Stored > 0 && taken.Sub(time.UnixMilli(u.Stored)).Abs() < t.gap(s)) {
		return false, true, nil
	}
	if err := t.store(ctx, s, e.url, u, file, taken); err != nil {
		return false, true, err
	}
	s.URLs[e.url] = u
	u.Digest = sum
	s.drop(e.url)
	return true, false, nil
}

// keep moves an answer to its place on disk until it is stored, and replaces an earlier one there.
func (t *Taker) keep(s *sessionState, url string, file *os.File, taken time.Time) error {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	others := int64(0)
	for other, u := range s.URLs {
		if other != url {
			others += u.KeptBytes
		}
	}
	if others+size > t.opts.MaxBytes {
		return fmt.Errorf("the answers that wait for the store would take more than %d bytes; raise --snapshot-max-bytes", t.opts.MaxBytes)
	}
	if err := os.Rename(file.Name(), s.keptPath(url)); err != nil {
		return err
	}
	u := s.URLs[url]
	if u == nil {
		u = &urlState{}
		s.URLs[url] = u
	}
	u.Kept, u.KeptBytes, s.dirty = taken.UnixMilli(), size, true
	return nil
}

// fits says whether an answer may be stored now. The last 1 % of the session's bytes is reserved for its end.
func (t *Taker) fits(s *sessionState, size int64, final bool) bool {
	if final {
		return s.Bytes+size <= t.opts.MaxBytes
	}
	return s.Bytes+size < t.opts.MaxBytes-t.opts.MaxBytes/100
}

// gap returns the time between two versions of a URL: the rounds' interval at first, and longer the more of the session's bytes are used, of
// which some must be left (see fits).
func (t *Taker) gap(s *sessionState) time.Duration {
	left := 1 - float64(s.Bytes)/float64(t.opts.MaxBytes)
	return time.Duration(float64(t.opts.Interval) * 0.9 / (left * left))
}

// store stores an answer under the URL's key or, if that is taken, as a later version.
func (t *Taker) store(ctx context.Context, s *sessionState, url string, u *urlState, file *os.File, taken time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if next := time.UnixMilli(u.Stored + 1); taken.Before(next) {
		taken = next // the clock was set back: the answer must still be the last one
	}
	key := t.opts.Key(s.Session, url)
	err = os.ErrExist
	if u.Stored == 0 {
		err = t.opts.Store.Create(ctx, key, file)
	}
	if errors.Is(err, os.ErrExist) {
		err = t.opts.Store.Create(ctx, layout.SnapshotVersionKey(key, taken), file)
	}
	if errors.Is(err, os.ErrExist) {
		err = nil // this answer was stored before
	}
	if err != nil {
		return err
	}
	u.Stored = taken.UnixMilli()
	s.Bytes += size
	s.dirty = true
	t.metrics.stored.Inc()
	t.metrics.bytes.Add(float64(size))
	return nil
}
