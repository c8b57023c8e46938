package client

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"

	"github.com/rayhistory/historyserver/pkg/findings/compare"
)

// Job finds a job of the session at a path, as compare.FindJob does.
func (c *Client) Job(ctx context.Context, path, name string) (*compare.Job, error) {
	answer, err := c.Get(ctx, path+"api/jobs/", nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	type row struct {
		compare.Job
		Start int64 `json:"start_time"`
	}
	var rows []row
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&rows); err != nil {
		return nil, c.unreadable(err)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Start, b.Start) })
	jobs := make([]compare.Job, len(rows))
	for i, row := range rows {
		jobs[i] = row.Job
	}
	return compare.FindJob(jobs, name)
}

// JobForm are the parameters of what is about one job.
func JobForm(j *compare.Job) url.Values {
	if j.SubmissionID != "" {
		return url.Values{"submission_id": {j.SubmissionID}}
	}
	return url.Values{"job_id": {j.ID}}
}
