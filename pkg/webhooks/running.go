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
	seen   time.Time       // the session's last write when its failed jobs were last looked for; zero: look again
	failed int             // how many failed jobs the entry had then
	answer string          // identifies the list of jobs that was read then, see Options.Failed
	jobs   map[string]bool // the jobs whose events are sent or being sent, by the event's ID
	busy   bool            // a worker looks for failed jobs
	due    time.Time       // when the next look may begin
}

// wantsJobs says whether a session runs and a receiver may get events about its failed jobs.
func (s *Sender) wantsJobs(e catalog.Entry) bool {
	return s.opts.Failed != nil && e.Running && e.Described && slices.ContainsFunc(s.targets, func(t *target) bool {
		return slices.Contains(t.Events, JobFailed) && t.Namespaces.Match(e.Ref.Namespace)
	})
}

// updateWatch returns the watch of a running session, a new one if there is none, with the entry as it is listed now;
// s.mu must be held.
func (s *Sender) updateWatch(e catalog.Entry) *watch {
	w := s.watched[e.Ref]
	if w == nil {
		w = &watch{jobs: make(map[string]bool)}
		s.watched[e.Ref] = w
	}
	w.entry = e
	return w
}

// isDue says whether to look for failed jobs now: there are some, and their number has changed or more was stored since
// the last look.
func (w *watch) isDue(now time.Time) bool {
	return !w.busy && w.entry.FailedJobs > 0 && (w.entry.LastWrite.After(w.seen) || w.entry.FailedJobs != w.failed) &&
		!w.due.After(now)
}

// lookForFailed looks for failed jobs of a running session, and adds work for those that are new. answer identifies the
// list of jobs that was read last (see Options.Failed): only a newer one is read. After an error it is tried again.
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
			return // a later list may have other jobs as the first maxEvents
		}
		u := unit{e.Ref, id}
		if !s.hasCapacity(u) {
			w.seen, w.answer = time.Time{}, "" // so the next look reads the list again and finds the job
			return
		}
		w.jobs[id] = true
		s.addUnit(u, &work{s: s, entry: e, job: &j, scope: "job." + id + "."})
	}
}

// isSending says whether there is work about the end of a session.
func (s *Sender) isSending(ref layout.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.work[unit{session: ref}] != nil
}

// byTime sorts failed jobs by their end, in place, so that jobs that fail later do not change which are the first.
func byTime(failed []moment.Job) {
	slices.SortStableFunc(failed, func(a, b moment.Job) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(nameOf(a), nameOf(b)))
	})
}

// nameOf returns a name that identifies a job in its session: that of its submission, if it has one, because the ID of
// a submission's driver may become known only after the submission has failed.
func nameOf(j moment.Job) string {
	if j.SubmissionID != "" {
		return j.SubmissionID + "/"
	}
	return "/" + j.ID
}
