package webhooks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// watch is what is known about a running session for which a receiver wants to know when a job fails. The Sender's
// mutex guards it.
type watch struct {
	entry  catalog.Entry   // as last listed
	seen   time.Time       // the last write up to which its failed jobs are known
	failed int             // how many there were in the list at that time
	answer string          // the answer that contained them
	jobs   map[string]bool // those whose events are sent or being sent, by event
	busy   bool
	due    time.Time
}

// watches says whether a receiver may want events about a running session's jobs.
func (s *Sender) watches(e catalog.Entry) bool {
	return s.opts.Failed != nil && e.Running && e.Described && slices.ContainsFunc(s.targets, func(t *target) bool {
		return slices.Contains(t.Events, JobFailed) && t.Namespaces.Match(e.Ref.Namespace)
	})
}

// watch keeps a running session as it is listed now; s.mu must be held.
func (s *Sender) watch(e catalog.Entry) *watch {
	w := s.watched[e.Ref]
	if w == nil {
		w = &watch{jobs: make(map[string]bool)}
		s.watched[e.Ref] = w
	}
	w.entry = e
	return w
}

// changed says whether to look for failed jobs: there are some, and their number has changed or more was stored since
// the last look.
func (w *watch) changed(now time.Time) bool {
	return !w.busy && w.entry.FailedJobs > 0 && (w.entry.LastWrite.After(w.seen) || w.entry.FailedJobs != w.failed) &&
		!w.due.After(now)
}

// lookForFailed begins work on the failed jobs of a running session. answer identifies the list of jobs in which they
// were found last (see Options.Failed): only a newer one is read.
func (s *Sender) lookForFailed(ctx context.Context, w *watch, e catalog.Entry, answer string) {
	var failed []moment.Job
	err := guard.CatchPanic("the failed jobs of "+e.Ref.String(), func() (err error) {
		failed, answer, err = s.opts.Failed(ctx, e, answer)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w.busy = false
	if err != nil {
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			s.opts.Log.WithError(err).WithField("session",
				e.Ref.String()).Debug("webhooks cannot read which jobs of a running session failed; they try again")
		}
		w.due = time.Now().Add(s.opts.Timing.MaxWait)
		return
	}
	w.seen, w.failed, w.answer = e.LastWrite, e.FailedJobs, answer
	byTime(failed)
	for _, j := range failed[:min(maxEvents, len(failed))] {
		id := eventID(e, JobFailed, nameOf(j))
		if w.jobs[id] {
			continue
		}
		if len(w.jobs) >= maxEvents {
			return // a later answer may list others as the first that failed
		}
		u := unit{e.Ref, id}
		if !s.hasCapacity(u) {
			w.seen, w.answer = time.Time{}, "" // the next look finds the job
			return
		}
		w.jobs[id] = true
		s.add(u, &work{s: s, entry: e, job: &j, scope: "job." + id + "."})
	}
}

// handles says whether events about the session itself are being sent, because it has ended.
func (s *Sender) handles(ref layout.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work[unit{session: ref}] != nil
}

// byTime sorts failed jobs by their end, so that the first ones stay the first.
func byTime(failed []moment.Job) {
	slices.SortStableFunc(failed, func(a, b moment.Job) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(nameOf(a), nameOf(b)))
	})
}

// nameOf returns a name that identifies a job in its session. A submission's driver may become known only after the
// submission has failed.
func nameOf(j moment.Job) string {
	if j.SubmissionID != "" {
		return j.SubmissionID + "/"
	}
	return "/" + j.ID
}
