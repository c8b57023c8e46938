package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard/logs"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/findings/compare"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Findings says why a session ended as it did, or how it is at a moment. It sets the moment's Env.
func (d *Dashboard) Findings(ctx context.Context, m *moment.Moment) (*findings.Report, error) {
	m.Env = d.env
	return d.findings().Read(ctx, m)
}

// FindingsOf says why an ended session ended as it did.
func (d *Dashboard) FindingsOf(ctx context.Context, s *session.Session) (*findings.Report, error) {
	return d.Findings(ctx, &moment.Moment{Session: s})
}

// KeptFindings returns the kept findings of a session that is not loaded, see findings.Reader.OfListed.
func (d *Dashboard) KeptFindings(
	ctx context.Context, ref layout.Session, lastWrite time.Time,
) (*findings.Report, error) {
	return d.findings().OfListed(ctx, ref, lastWrite, d.opts.Memory)
}

func (d *Dashboard) findings() findings.Reader {
	return findings.Reader{Kept: d.opts.KeptFindings, Metrics: d.opts.Metrics}
}

// answerFindings answers with the findings, of one job if a parameter names it, in an envelope like those of Ray's dashboard.
func (d *Dashboard) answerFindings(w http.ResponseWriter, r *Request) error {
	report, err := d.Findings(r.Context(), &r.Moment)
	if err != nil {
		return err
	}
	query := r.Query()
	if report, err = report.OfJob(query.Get("job_id"), query.Get("submission_id")); err != nil {
		return reply.Envelope(w, http.StatusNotFound, err.Error(), nil)
	}
	body, err := json.Marshal(struct {
		Result bool             `json:"result"`
		Msg    string           `json:"msg"`
		Data   *findings.Report `json:"data"`
	}{true, "", report})
	if err != nil {
		return err
	}
	return reply.Bytes(w, http.StatusOK, reply.JSONType, body)
}

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

// JobsOf returns the jobs of a session at its end.
func (d *Dashboard) JobsOf(ctx context.Context, s *session.Session) ([]moment.Job, error) {
	return (&moment.Moment{Env: d.env, Session: s}).Jobs(ctx)
}

// DriverOf returns the ID (hex) of the driver of a submission; the names of its workers' logs contain this ID. "" means not known. For a session
// that was only listed it reads the saved list of jobs.
func (d *Dashboard) DriverOf(ctx context.Context, s *session.Session, submission string) (id string, err error) {
	driver := logsearch.Selection{Submission: submission}
	if len(driver.Of(s.Logs)) == 0 {
		return "", nil // most sessions of a cluster
	}
	jobs, err := d.JobsOf(ctx, s)
	for _, job := range jobs {
		if job.SubmissionID == submission {
			id = job.ID
		}
	}
	return id, err
}

// LogEnd returns how many bytes of a log existed at a moment (Unix nanoseconds), as the log's routes show it then. 0 is the session's end.
func (d *Dashboard) LogEnd(ctx context.Context, s *session.Session, at int64, node rayid.Node, path string) (int64, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return 0, err
	}
	r.At = at
	return logs.End(r, node, path)
}

// Clock returns what completes the times in a session's logs, which often have no zone, year or date. It reads only the session's snapshots.
func (d *Dashboard) Clock(ctx context.Context, s *session.Session) (logline.Clock, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return logline.Clock{}, err
	}
	return logs.Clock(r)
}

// about is a request about a session that no client sent.
func (d *Dashboard) about(ctx context.Context, s *session.Session) (*request.Request, error) {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	return &request.Request{Request: asked, Moment: moment.Moment{Env: d.env, Session: s}}, nil
}

// LogOffset returns where the first line of a log begins that is not before a moment (Unix nanoseconds).
func (d *Dashboard) LogOffset(ctx context.Context, s *session.Session, f *sessionlogs.File, moment int64) (int64, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return 0, err
	}
	return logs.Offset(r, f, moment)
}
