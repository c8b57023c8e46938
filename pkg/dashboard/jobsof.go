package dashboard

import (
	"context"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/jobs"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Job is a submission or a driver as /api/jobs/ shows it at the session's end.
type Job struct {
	ID           string // of the driver, hex; "" if a submission had none
	SubmissionID string // "" for a driver without a submission
	Entrypoint   string
	Status       string // PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
	Message      string
	Start, End   int64 // Unix nanoseconds, whole milliseconds; 0 if not known
}

// JobsOf returns the jobs of a session. Ray up to 2.60 sends no events of submissions: they are derived from other events and from logs.
func (d *Dashboard) JobsOf(ctx context.Context, s *session.Session) ([]Job, error) {
	r, err := d.about(ctx, s)
	if err != nil {
		return nil, err
	}
	table, err := jobs.Read(r)
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, len(table.Rows))
	for i, row := range table.Rows {
		jobs[i] = Job{
			ID: row.String("job_id"), SubmissionID: row.String("submission_id"), Entrypoint: row.String("entrypoint"), Status: row.String("status"),
			Message: row.String("message"), Start: row.Int("start_time") * int64(time.Millisecond), End: row.Int("end_time") * int64(time.Millisecond),
		}
	}
	return jobs, nil
}
