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

// explainPatience is how many delays of webhooks after its end a session without stored findings is left to the
// server that explains sessions; then it is loaded for its events.
const explainPatience = 5

// sessionReader reads what the sender of webhooks says about sessions.
type sessionReader struct {
	sessions    *catalog.Catalog
	cache       *sessioncache.Cache[*session.Session]
	dashboard   *dashboard.Dashboard
	indexes     *index.Writer // nil: there are none
	explainTime time.Duration // how long another server may take to explain an ended session; 0: none explains sessions
	log         logrus.FieldLogger
}

// newSender makes the sender of webhooks.
func (o *serveOptions) newSender(store blob.Store, from sessionReader,
	registry prometheus.Registerer) (*webhooks.Sender, error) {
	if from.indexes != nil && o.explain.Requests > 0 {
		from.explainTime = explainPatience * cmp.Or(o.webhooksTiming.Delay, webhooks.DefaultDelay)
	}
	options := webhooks.Options{
		Store: store, Root: o.storage.Root,
		Sessions: func() (iter.Seq[catalog.Entry], bool) {
			l := from.sessions.Cached()
			return l.Oldest(), l.Err == nil && !l.At.IsZero() && !l.Beginning
		},
		Timing: o.webhooksTiming, Log: from.log, Registerer: registry,
		Findings: from.findings, Failed: from.failedJobs, Earlier: from.earlier,
	}
	if o.webhooks != "" {
		var err error
		if options.Config, err = webhooks.Read(o.webhooks); err != nil {
			return nil, fmt.Errorf("--webhooks: %w", err)
		}
	}
	return webhooks.New(options), nil
}

// earlier returns the runs of a session's RayJob before it, the newest first.
func (from *sessionReader) earlier(e catalog.Entry) []catalog.Entry {
	f := catalog.Filter{Namespace: e.Ref.Namespace, Owner: e.OwnerName, Kind: e.OwnerKind, To: e.Start}
	return catalog.First(from.sessions.Cached().Matching(f, time.Now()), webhooks.MaxEarlier)
}

// findings returns the stored findings of a session that has ended. If there are none, and of a running session, it
// loads the session into the cache like for a request. The error is webhooks.ErrNotYet while another server may be
// about to explain the session.
func (from *sessionReader) findings(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
	if !e.Running {
		report, err := from.dashboard.KeptFindings(ctx, e.Ref, e.LastWrite)
		switch {
		case err == nil:
			return report, nil
		case time.Since(e.End) < from.explainTime:
			return nil, webhooks.ErrNotYet
		}
	}
	s, release, err := from.cache.Get(ctx, e.Ref)
	if err != nil {
		return nil, err
	}
	defer release()
	if !e.Running && from.indexes != nil {
		// The list and the retention rules read from stored findings how a session ended.
		if err := from.indexes.KeepFindings(ctx, s, false); err != nil { // unless they are kept
			from.log.WithError(err).WithField("session", e.Ref.String()).Debug("cannot keep a session's findings")
		}
	}
	return from.dashboard.Findings(ctx, from.dashboard.At(s, 0))
}

// failedJobs returns the failed jobs of a running session, unless the dashboard's last stored answer is still the one
// named known; and the name of that answer.
func (from *sessionReader) failedJobs(ctx context.Context, e catalog.Entry, known string) ([]moment.Job, string,
	error) {
	failed, answer, err := from.sessions.FailedJobs(ctx, e.Ref, known)
	jobs := make([]moment.Job, len(failed))
	for i, j := range failed {
		jobs[i] = moment.Job{
			ID: j.ID, SubmissionID: j.Submission, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Message,
			Start: j.Start * int64(time.Millisecond), End: j.End * int64(time.Millisecond),
		}
	}
	return jobs, answer, err
}
