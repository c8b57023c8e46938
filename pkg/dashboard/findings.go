package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
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
		return reply.NotFound(err.Error())
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
