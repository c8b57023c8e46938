package dashboard

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

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
