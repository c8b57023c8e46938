package webhooks

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
)

// watch is what is known of a running session of which somebody is to be told when a job fails. The Sender's mutex guards it.
type watch struct {
	entry  catalog.Entry   // as last listed
	seen   time.Time       // the last write up to which its failed jobs are known
	failed int             // how many there were by the list then
	answer string          // that told them
	jobs   map[string]bool // those that are told, or worked on, by event
	busy   bool
	due    time.Time
}

// watches says whether somebody may want to be told of a running session's jobs.
func (s *Sender) watches(e catalog.Entry) bool {
	return s.opts.Failed != nil && e.Running && e.Described && slices.ContainsFunc(s.targets, func(t *target) bool {
		return slices.Contains(t.Events, JobFailed) && t.wants(e.Ref.Namespace)
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

// grew says whether failed jobs are to be looked for: there are some, and more was stored or is known since the last look.
func (w *watch) grew(now time.Time) bool {
	return !w.busy && w.entry.FailedJobs > 0 && (w.entry.LastWrite.After(w.seen) || w.entry.FailedJobs != w.failed) && !w.due.After(now)
}

// lookForFailed begins work on the jobs of a running session that have failed. A worker's slot is taken.
func (s *Sender) lookForFailed(ctx context.Context, w *watch, e catalog.Entry, answer string) {
	var failed []dashboard.Job
	err := guard.Do("the failed jobs of "+e.Ref.String(), func() (err error) {
		failed, answer, err = s.opts.Failed(ctx, e, answer)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	w.busy = false
	if err != nil {
		if ctx.Err() == nil {
			s.opts.Log.WithError(err).WithField("session", e.Ref.String()).Debug("webhooks cannot read which jobs of a running session failed; they try again")
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
		if len(s.work) >= maxWork {
			w.seen, w.answer = time.Time{}, "" // the next look finds it again
			return
		}
		w.jobs[id] = true
		s.work[unit{e.Ref, id}] = &work{s: s, entry: e, job: &j, scope: "job." + id + "."}
	}
}

// byTime sorts failed jobs by when they ended, so that the first ones stay the first.
func byTime(failed []dashboard.Job) {
	slices.SortStableFunc(failed, func(a, b dashboard.Job) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(nameOf(a), nameOf(b)))
	})
}

// nameOf tells jobs of a session apart. A submission's driver may be known later than that it failed.
func nameOf(j dashboard.Job) string {
	if j.SubmissionID != "" {
		return j.SubmissionID + "/"
	}
	return "/" + j.ID
}
