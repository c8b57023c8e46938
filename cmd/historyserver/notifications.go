package main

import (
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
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/session/sessionload"
	"github.com/rayhistory/historyserver/pkg/webhooks"
)

// explainShare is after how many times the pause between a session's end and its events a session is read for them although nobody has explained it.
const explainShare = 5

// newSender makes the sender of webhooks. Sessions that have ended, or of which a job failed, are loaded into the cache like for a
// request, one at a time.
func (o *serveOptions) newSender(
	store blob.Store, sessions *catalog.Catalog, cache *sessioncache.Cache[*session.Session], answers *dashboard.Dashboard,
	loading sessionload.Options, log logrus.FieldLogger, registry prometheus.Registerer,
) (*webhooks.Sender, error) {
	explains := loading.Opener != nil && o.explainRequests > 0
	explainTime := explainShare * o.webhooksTiming.Settle
	if o.webhooksTiming.Settle == 0 {
		explainTime = explainShare * time.Minute
	}
	options := webhooks.Options{
		Store: store, Root: o.storage.Root, Sessions: func() iter.Seq[catalog.Entry] { return sessions.Known().Oldest() }, Timing: o.webhooksTiming,
		Log: log, Registerer: registry,
		Look: func(ctx context.Context, e catalog.Entry) (*findings.Report, error) {
			if !e.Running {
				report, err := answers.KeptFindings(ctx, e.Ref, e.LastWrite)
				switch {
				case err == nil:
					return report, nil
				case explains && time.Since(e.End) < explainTime:
					return nil, webhooks.ErrNotYet // it is read once, by the server that explains sessions
				}
			}
			s, release, err := cache.Get(ctx, e.Ref)
			if err != nil {
				return nil, err
			}
			defer release()
			if loading.Opener != nil { // the list and retention rules know how it ended then
				if err := loading.Writer.KeepFindings(ctx, loading.Opener, s, false); err != nil {
					log.WithError(err).WithField("session", e.Ref.String()).Debug("cannot keep a session's findings")
				}
			}
			return answers.FindingsOf(ctx, s)
		},
	}
	options.Failed = func(ctx context.Context, e catalog.Entry, after string) ([]moment.Job, string, error) {
		failed, answer, err := sessions.FailedJobs(ctx, e.Ref, after)
		jobs := make([]moment.Job, len(failed))
		for i, j := range failed {
			jobs[i] = moment.Job{
				ID: j.ID, SubmissionID: j.Submission, Entrypoint: j.Entrypoint, Status: j.Status, Message: j.Message,
				Start: j.Start * int64(time.Millisecond), End: j.End * int64(time.Millisecond),
			}
		}
		return jobs, answer, err
	}
	if o.webhooks != "" {
		var err error
		if options.Config, err = webhooks.Read(o.webhooks); err != nil {
			return nil, fmt.Errorf("--webhooks: %w", err)
		}
	}
	return webhooks.New(options), nil
}
