// Package jobstatus has the statuses of jobs (JobStatus in ray/dashboard/modules/job/common.py).
package jobstatus

const (
	Pending   = "PENDING"
	Running   = "RUNNING"
	Stopped   = "STOPPED"
	Succeeded = "SUCCEEDED"
	Failed    = "FAILED"
)

// Ended says whether a job in a status has ended.
func Ended(status string) bool { return status == Stopped || status == Succeeded || status == Failed }
