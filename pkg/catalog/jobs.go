package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// readFailedJobs sets how many jobs of a running session have failed, the first cause, and the text for searches in its
// facts f. It reads the newest stored answer about jobs. If that was read before or cannot be read now, f gets what
// the list has. It returns the answer that was read last. A damaged answer changes nothing, and is not read again.
// Without an answer no job has failed.
func (c *Catalog) readFailedJobs(ctx context.Context, f *packs.Facts, from sources) (read answer) {
	c.mu.Lock()
	known, _ := c.table.get(f.Ref)
	read = c.jobs[f.Ref]
	c.mu.Unlock()
	if known.facts != nil {
		f.FailedJobs, f.Text, f.Cause = known.facts.FailedJobs, known.facts.Text, known.facts.Cause
		if from.jobs == read {
			return read
		}
	}
	all := packs.Facts{Labels: from.labels}
	if from.jobs.key != "" {
		err := c.readAnswer(ctx, f.Ref, from.jobs, readJobs, &all)
		if errors.Is(err, errDamaged) {
			return from.jobs
		}
		if err != nil {
			return read
		}
	}
	f.FailedJobs, f.Cause = countFailures(all.Jobs)
	f.Text = all.Bounded().Text
	return from.jobs
}

// FailedJobs returns the jobs of a running session that had failed when its collector last stored the dashboard's list
// of jobs, as far as the catalog knows. last identifies that list. A later call with last as after sends no request and
// returns no jobs unless there is a newer list.
func (c *Catalog) FailedJobs(ctx context.Context, ref layout.Session, after string) (jobs []packs.Job, last string,
	err error) {
	c.mu.Lock()
	newest := c.jobs[ref]
	c.mu.Unlock()
	if last = newest.key + " " + newest.etag; newest.key == "" || last == after {
		return nil, after, nil
	}
	var f packs.Facts
	err = c.readAnswer(ctx, ref, newest, readJobs, &f)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, after, nil // the list was removed since; the catalog finds the next one
	case err != nil:
		return nil, after, fmt.Errorf("read %s: %w", newest.key, err)
	}
	return slices.DeleteFunc(f.Jobs, func(j packs.Job) bool { return !j.Failed() }), last, nil
}

// countFailures returns how many jobs have failed, and in one line what Ray says about the one that failed first. Ray's
// message ends with the end of the driver's log (ray/dashboard/modules/job/job_supervisor.py), so its last line is the
// most useful one.
func countFailures(jobs []packs.Job) (n int, cause string) {
	var first *packs.Job
	for i := range jobs {
		j := &jobs[i]
		if !j.Failed() {
			continue
		}
		if n++; first == nil || j.End > 0 && (first.End == 0 || j.End < first.End) {
			first = j
		}
	}
	if first == nil {
		return 0, ""
	}
	cause = "Job " + cmp.Or(first.Submission, first.ID) + " failed"
	message := strings.TrimSpace(human.WithoutColours(first.Message))
	if last := strings.TrimSpace(message[strings.LastIndexByte(message, '\n')+1:]); last != "" {
		cause += ": " + last
	}
	return n, packs.ShortLine(cause)
}
