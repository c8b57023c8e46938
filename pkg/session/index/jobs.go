package index

import "slices"

// Job is a submission or a driver as the dashboard shows it at the session's end. Much of it is in no event.
type Job struct {
	ID           string // of the driver, in hex; "" if a submission had none
	SubmissionID string // "" for a driver that nobody submitted
	Entrypoint   string
	Status       string // PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED
	Message      string
	Start, End   int64 // Unix nanoseconds; 0 if not known
}

// noRow stands in the column "row" of a row that is in no event: the server skips it.
const noRow = "null"

// showJobs gives drivers the states that the dashboard shows.
func showJobs(rows []jobRow, shown []Job) {
	states := make(map[string]string, len(shown))
	for _, j := range slices.Backward(shown) { // of several with one ID the first counts
		states[j.ID] = j.Status
	}
	for i := range rows {
		if state, ok := states[rows[i].JobID]; ok {
			rows[i].State = state
		}
	}
}

// addSubmissions appends to rows the submissions that the dashboard shows and that are in no event.
func addSubmissions(o owner, rows []submissionRow, shown []Job) []submissionRow {
	known := map[string]bool{"": true} // a driver without a submission is none
	for i := range rows {
		known[rows[i].SubmissionID] = true
	}
	for _, j := range shown {
		if known[j.SubmissionID] {
			continue
		}
		known[j.SubmissionID] = true
		rows = append(rows, submissionRow{
			entity: entity{o, noRow}, SubmissionID: j.SubmissionID,
			Entrypoint: j.Entrypoint, Status: j.Status,
			Message: j.Message, StartTime: micros(j.Start), EndTime: micros(j.End),
		})
	}
	return rows
}

// jobTables writes the tables of jobs and submissions, from events and from what the dashboard shows of jobs.
func (b *builder) jobTables(shown []Job) error {
	jobs, err := entityRows(b.owner, b.tables.Jobs, newJobRow)
	if err != nil {
		return err
	}
	showJobs(jobs, shown)
	if err := writeTable(b, jobsTable, jobs); err != nil {
		return err
	}
	submissions, err := entityRows(b.owner, b.tables.Submissions, newSubmissionRow)
	if err != nil {
		return err
	}
	return writeTable(b, submissionsTable, addSubmissions(b.owner, submissions, shown))
}
