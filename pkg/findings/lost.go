package findings

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
)

// maxLostJobs is how many logs of drivers are read whose jobs are not stored.
const maxLostJobs = 20

// setLostApart takes the jobs from the list that only the logs of their drivers show: neither events nor the dashboard's list of jobs names them,
// so nothing says that they were pending. While the session runs their records may come.
func (b *builder) setLostApart(known []moment.Job) {
	if b.running || b.r.At != 0 {
		return
	}
	recorded := map[string]bool{}
	for i := range known {
		if known[i].Saved != nil {
			recorded[known[i].SubmissionID] = true
		}
	}
	for i := range b.s.Actors {
		if id, ok := strings.CutPrefix(b.s.Actors[i].Name, supervisor); ok {
			recorded[id] = true
		}
	}
	logs := b.r.LogNames().Jobs
	b.jobs = slices.DeleteFunc(b.jobs, func(j job) bool {
		_, logged := logs[j.submission]
		if !logged || recorded[j.submission] || !j.id.Nil() || moment.Terminal(j.status) {
			return false
		}
		b.lostJobs = append(b.lostJobs, j.submission)
		return j.status == moment.Pending
	})
}

// readLostJobs looks at the logs of drivers whose jobs are not stored. A log that ends in a traceback shows how the driver ended.
func (b *builder) readLostJobs(ctx context.Context) error {
	if len(b.lostJobs) == 0 {
		return nil
	}
	b.missing = append(b.missing, fmt.Sprintf("The job's own record is not stored, only its driver's log: %s.", quoted(b.lostJobs)))
	logs := b.r.LogNames().Jobs
	for i, submission := range b.lostJobs {
		if i >= maxLostJobs {
			b.unread += len(b.lostJobs) - i
			break
		}
		if slices.ContainsFunc(b.jobs, func(j job) bool { return j.submission == submission }) {
			continue // its log shows that it ran, so it is looked at like others
		}
		log, err := b.read(ctx, moment.LogFile{Node: logs[submission], Path: moment.SubmissionPrefix + submission + moment.Suffix})
		if err != nil {
			return err
		}
		if endedUnseen(log) {
			b.lostJobRaised(submission, log)
		}
	}
	return nil
}

// lostJobRaised adds the finding about the exception that ended a driver of which nothing but the log is stored.
func (b *builder) lostJobRaised(submission string, log *logText) {
	j := &job{submission: submission, node: log.file.Node}
	e := driverEndOf(j, log)
	if !e.raised() {
		return
	}
	f := b.driverRaised(j, &e)
	b.showEnd(f, &e)
	b.linkDriver(f, j, &e)
}
