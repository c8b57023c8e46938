package findings

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rayhistory/historyserver/pkg/dashboard/logfiles"
)

// maxLostJobs is how many logs of drivers are read whose jobs are not stored.
const maxLostJobs = 20

// readLostJobs looks at the logs of drivers whose jobs are not stored: neither their events nor the dashboard's list of jobs names them. A log
// that ends in a traceback shows how the driver ended.
func (b *builder) readLostJobs(ctx context.Context) error {
	if b.running || b.r.At != 0 {
		return nil // their records may come, or came, later
	}
	known := map[string]bool{}
	for i := range b.jobs {
		known[b.jobs[i].submission] = true
	}
	logs := logfiles.Names(b.r).Jobs
	var lost []string
	for _, submission := range slices.Sorted(maps.Keys(logs)) {
		if known[submission] {
			continue
		}
		if lost = append(lost, submission); len(lost) > maxLostJobs {
			b.unread++
			continue
		}
		log, err := b.read(ctx, logfiles.File{Node: logs[submission], Path: logfiles.SubmissionPrefix + submission + logfiles.Suffix})
		if err != nil {
			return err
		}
		if endedUnseen(log) {
			b.lostJobRaised(submission, log)
		}
	}
	if b.lostJobs = len(lost); len(lost) > 0 {
		b.missing = append(b.missing, fmt.Sprintf("The job's own record is not stored, only its driver's log: %s.", quoted(lost)))
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
