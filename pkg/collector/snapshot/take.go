package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// takeAnswer requests one URL, stores the answer if it changed, and requests the details of the nodes and jobs in it.
// final says that no round follows. stored says that a new answer was stored. done says that nothing has to be tried
// again: the answer is stored, or equal to the stored one, or the dashboard has none. The hardware figures in an answer
// are spooled at once, so the answer itself is only stored when something else changed, and at the end.
func (t *Taker) takeAnswer(ctx context.Context, s *sessionState, e endpoint, final bool) (stored, done bool) {
	start := time.Now()
	file, err := t.fetchToFile(ctx, e.url)
	var status *statusError
	absent := errors.As(err, &status) && status.Status == http.StatusNotFound // there is no answer
	failed := err != nil && !absent && ctx.Err() == nil
	t.scheduleNext(e, start, failed)
	if isRefusal(err) || errors.As(err, new(*fs.PathError)) { // or the disk fails, which the operator has to know
		t.reportFailure(ctx, e.url, err)
		return false, false
	}
	if err != nil {
		if status == nil && ctx.Err() == nil { // an answer with an error status is an answer: it is not counted
			t.metrics.errors.Inc()
			t.opts.Log.WithError(err).Debug("no snapshot")
		}
		return false, absent
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // unless it was moved
	}()
	if err := t.checkSession(ctx); err != nil {
		t.opts.Log.WithError(err).Debug("no snapshot")
		return false, false
	}
	listed, listErr := readListing(e, file)
	if isRefusal(listErr) {
		t.reportFailure(ctx, e.url, listErr)
		return false, false
	}
	if listed.nodes != nil { // whether the store takes the answer or not: figures are spooled
		t.opts.Nodes(s.Session, len(listed.nodes))
		t.spoolFigures(ctx, s, listed.nodes)
	}
	if listed.offset != "" {
		t.opts.Zone(s.Session, listed.offset)
	}
	taken := time.Now()
	stored, keep, err := t.storeIfChanged(ctx, s, e, file, taken, final)
	if keep {
		err = errors.Join(err, t.keepForLater(s, e.url, file, taken))
	}
	// After a failure the details are left to a later round; the final round is the last.
	if err == nil || (final && !isRefusal(err)) {
		t.takeNodes(ctx, s, listed.nodes, final)
		for id, ended := range listed.jobs {
			datasets := endpoint{url: "/api/data/datasets/" + id, ended: ended, volatile: datasetFigures}
			t.takeDetail(ctx, s, datasets, final)
		}
	}
	if err = errors.Join(listErr, err); err != nil {
		t.reportFailure(ctx, e.url, err)
	}
	// What is kept has to be stored later, except an answer of which only the hardware figures changed: it waits for
	// the session's end.
	return stored, err == nil && (stored || !keep || e.hardware)
}

// scheduleNext says when a URL may be asked again, after a request that began at start. If it failed for a node or job
// that has ended, that is ever later: Ray may never answer for it again.
func (t *Taker) scheduleNext(e endpoint, start time.Time, failed bool) {
	pause := e.pauseAfter(time.Since(start))
	if failed && e.ended {
		t.failures[e.url]++
		pause = max(pause, failurePause(t.failures[e.url], t.opts.Interval))
	} else {
		delete(t.failures, e.url)
	}
	t.next[e.url] = start.Add(pause)
}

// failurePause returns the time until the next request to a URL that failed a number of times in a row. After the first
// failure it is asked in the next round: half an interval has passed by then.
func failurePause(failures int, interval time.Duration) time.Duration {
	return min(interval/2<<min(failures-1, 5), max(maxInterval, interval))
}

// fetchToFile writes an answer to a new file in the session's folder, which the caller closes and removes. Matches of
// --redact are overwritten. An answer of more than layout.MaxSnapshot is an *answer.Refusal.
func (t *Taker) fetchToFile(ctx context.Context, url string) (*os.File, error) {
	body, err := t.opts.Client.Get(ctx, url)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	file, err := t.session.newFile()
	if err != nil {
		return nil, err
	}
	n, err := t.opts.Redact.Copy(file, io.LimitReader(body, layout.MaxSnapshot+1))
	if err == nil && n > layout.MaxSnapshot {
		err = &answer.Refusal{Reason: "bytes", Limit: layout.MaxSnapshot}
	}
	if err != nil {
		_ = file.Close()
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("ask the dashboard: %w", err)
	}
	return file, nil
}

// storeIfChanged stores an answer if it differs from the last one that was stored. keep says that it was not stored but
// is to be kept on disk, because the URL has to wait, the session's bytes are used up, only hardware figures changed
// (the last are stored at the end), or the store did not take it.
func (t *Taker) storeIfChanged(ctx context.Context, s *sessionState, e endpoint, file *os.File, taken time.Time,
	final bool) (stored, keep bool, err error) {
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
			s.dropKept(e.url) // an older answer that differed and could not be stored is out of date
		}
		return false, e.hardware, nil
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, false, err
	}
	if !t.mayStore(s, size, final) {
		return false, true, nil
	}
	if age := taken.Sub(time.UnixMilli(u.Stored)).Abs(); !final && u.Stored > 0 && age < t.storeInterval(s) {
		return false, true, nil
	}
	if err := t.storeAnswer(ctx, s, e.url, u, file, taken); err != nil {
		return false, true, err
	}
	s.URLs[e.url] = u
	u.Digest = sum
	s.dropKept(e.url)
	return true, false, nil
}

// keepForLater moves the file of an answer to the URL's place on disk, where it waits to be stored, and replaces an
// earlier one. The error says that all waiting answers of the session would be larger than Options.MaxBytes.
func (t *Taker) keepForLater(s *sessionState, url string, file *os.File, taken time.Time) error {
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
		return fmt.Errorf("the answers that wait for the store would take more than %d bytes; raise "+
			"--snapshot-max-bytes", t.opts.MaxBytes)
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

// mayStore says whether an answer may be stored now. The last 1 % of the session's bytes is reserved for its end.
func (t *Taker) mayStore(s *sessionState, size int64, final bool) bool {
	if final {
		return s.Bytes+size <= t.opts.MaxBytes
	}
	return s.Bytes+size < t.opts.MaxBytes-t.opts.MaxBytes/100
}

// storeInterval returns the time between two versions of a URL: the rounds' interval at first, and longer the more of
// the session's bytes are used, of which some must be left (see mayStore).
func (t *Taker) storeInterval(s *sessionState) time.Duration {
	left := 1 - float64(s.Bytes)/float64(t.opts.MaxBytes)
	return time.Duration(float64(t.opts.Interval) * 0.9 / (left * left))
}

// storeAnswer stores an answer under the URL's key or, if that is taken, under the key of a later version. taken is
// when the dashboard gave the answer. Once a round has waited for storeTimeout in vain, other puts get hurriedTimeout.
func (t *Taker) storeAnswer(ctx context.Context, s *sessionState, url string, u *urlState, file *os.File,
	taken time.Time) (err error) {
	timeout := storeTimeout
	if t.waited >= storeTimeout {
		timeout = hurriedTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	began := time.Now()
	defer func() {
		if err != nil {
			t.waited += time.Since(began)
		}
	}()
	if err := t.opts.Prepare(ctx, s.Session); err != nil {
		return err
	}
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

// refusedPause is the time until the next request to a URL whose answer was refused: the dashboard may not be Ray's any
// more.
const refusedPause = 10 * time.Minute

// maxWarned is the maximum number of URLs that are remembered because their refusal was logged.
const maxWarned = 1000

func isRefusal(err error) bool { return errors.As(err, new(*answer.Refusal)) }

// reportFailure counts and logs why an answer was not stored. A refused answer is logged once for each URL, which is
// then left alone for refusedPause.
func (t *Taker) reportFailure(ctx context.Context, url string, err error) {
	var refusal *answer.Refusal
	switch {
	case errors.As(err, &refusal):
		t.metrics.refused.WithLabelValues(refusal.Reason).Inc()
		t.next[url] = time.Now().Add(refusedPause)
		if !t.warned[url] && len(t.warned) < maxWarned {
			t.warned[url] = true
			t.opts.Log.WithError(err).WithField("url", url).Warn(
				"refused an answer of the dashboard and did not store it: Ray does not answer like this, so check " +
					"which process answers on the head")
		}
	case ctx.Err() == nil:
		t.metrics.errors.Inc()
		if log, ok := t.unstored.Allow(time.Now()); ok {
			log.WithError(err).WithField("url", url).Warn("could not save a snapshot; it is tried again")
		}
	}
}
