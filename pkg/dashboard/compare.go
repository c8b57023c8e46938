package dashboard

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// UsedBy returns the resources that the nodes of an ended session used, from its stored metrics; nil: not known.
func (d *Dashboard) UsedBy(ctx context.Context, s *session.Session) (*compare.Hours, error) {
	return compare.Comparer{Metrics: d.opts.Metrics}.Used(ctx, &moment.Moment{Env: d.env, Session: s})
}

// Compare puts two sessions, or two runs of a job, side by side. The moments that open returns need no Env. Errors are those of compare.Comparer.
func (d *Dashboard) Compare(ctx context.Context, open compare.Open, q compare.Question) (*compare.Report, error) {
	c := compare.Comparer{Findings: d.findings(), Metrics: d.opts.Metrics}
	c.Open = func(ctx context.Context, e catalog.Entry) (*moment.Moment, func(), error) {
		r, release, err := open(ctx, e)
		if err == nil {
			r.Env = d.env
		}
		return r, release, err
	}
	return c.Run(ctx, q)
}
