package dashboard

import (
	"context"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/jobs"
	"github.com/rayhistory/historyserver/pkg/logsearch"
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
