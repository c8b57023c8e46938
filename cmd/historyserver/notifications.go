package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/index"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// explainPatience is for how many delays of webhooks after a session's end the sender waits for another server to
// explain the session. If no findings are stored by then, the sender loads the session itself.
const explainPatience = 5

// sessionReader reads for the sender of webhooks what it says about sessions.
type sessionReader struct {
	sessions    *catalog.Catalog
	cache       *sessioncache.Cache[*session.Session]
	dashboard   *dashboard.Dashboard
	indexes     *index.Writer // nil: indexes are off
	explainTime time.Duration // how long after its end another server may explain a session; 0: none does
	log         logrus.FieldLogger
}

// newSender makes the sender of webhooks, which reads sessions with r; without --webhooks it has nothing to send. If
// servers explain ended sessions, it waits explainTime for the findings of one before it finds them itself.
func (o *serveOptions) newSender(store blob.Store, r sessionReader,
	registry prometheus.Registerer) (*webhooks.Sender, error) {
	if r.indexes != nil && o.explain.Requests > 0 {
		r.explainTime = explainPatience * cmp.Or(o.webhooksTiming.Delay, webhooks.DefaultDelay)
	}
	options := webhooks.Options{
		Store: store, Root: o.storage.Root,
		Sessions: func() (iter.Seq[catalog.Entry], bool) {
			l := r.sessions.Cached()
			isComplete := l.Err == nil && !l.At.IsZero() && !l.Beginning
			return l.Oldest(), isComplete
		},
		Timing: o.webhooksTiming, Log: r.log, Registerer: registry,
		Findings: r.findings, Failed: r.failedJobs, Earlier: r.earlierSessions,
	}
	if o.webhooks != "" {
		var err error
		if options.Config, err = webhooks.Read(o.webhooks); err != nil {
			return nil, fmt.Errorf("--webhooks: %w", err)
		}
	}
	return webhooks.New(options), nil
}

// earlierSessions returns the sessions of the same RayJob or RayService before a session, the newest first.
func (r *sessionReader) earlierSessions(e catalog.Entry) []catalog.Entry {
	f := catalog.Filter{Namespace: e.Ref.Namespace, Owner: e.OwnerName, Kind: e.OwnerKind, To: e.Start}
	return catalog.First(r.sessions.Cached().Matching(f, time.Now()), webhooks.MaxEarlier)
}

// findings returns the findings of a session: those that are stored, if it has ended. If there are none, and of a
// running session, it loads the session into the cache like for a request. While another server may be about to explain
// an ended session, it returns webhooks.ErrNotYet instead.
func (r *sessionReader) findings(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
	if !e.Running {
		report, err := r.dashboard.KeptFindings(ctx, e.Ref, e.LastWrite)
		switch {
		case err == nil:
			return report, nil
		case time.Since(e.End) < r.explainTime:
			return nil, webhooks.ErrNotYet
		}
	}
	s, release, err := r.cache.Get(ctx, e.Ref)
	if err != nil {
		return nil, err
	}
	defer release()
	if !e.Running && r.indexes != nil {
		// The findings are stored, unless they are already, because the list of sessions and retention rules read the
		// outcome of a session from them.
		const replace = false
		if err := r.indexes.KeepFindings(ctx, s, replace); err != nil {
			r.log.WithError(err).WithField("session", e.Ref.String()).Debug("cannot keep a session's findings")
		}
	}
	return r.dashboard.Findings(ctx, r.dashboard.MomentAt(s, moment.AtEnd))
}

// failedJobs returns the failed jobs of a running session by the dashboard's last stored list of jobs, and the name of
// that list. If the list is still the one named known, it returns no jobs.
func (r *sessionReader) failedJobs(ctx context.Context, e catalog.Entry, known string) (jobs []moment.Job, list string,
	err error) {
	failed, list, err := r.sessions.FailedJobs(ctx, e.Ref, known)
	jobs = make([]moment.Job, len(failed))
	for i, j := range failed {
		jobs[i] = moment.Job{
			ID: j.ID, SubmissionID: j.Submission, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Message,
			Start: j.Start * int64(time.Millisecond), End: j.End * int64(time.Millisecond),
		}
	}
	return jobs, list, err
}
