// Package compare puts two sessions, or two runs of a job, side by side: how long their functions took, what was retried, what failed,
// which nodes they had and for how long.
//
//	tables, findings, metrics of each ──► a Side each ──► Report: what differs most first
//
// A side is measured in one pass over the columns of its tasks. The size of a side and of a report is limited.
package compare

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Side is one session, or one of its jobs, up to the requested moment.
type Side struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Session   string `json:"session"`
	Link      string `json:"link"`          // path of the dashboard in the history server
	Job       *Job   `json:"job,omitempty"` // nil: the whole session
	Running   bool   `json:"running"`
	Outcome   string `json:"outcome"` // the session's outcome from findings; for a job its status, in lower case
	Summary   string `json:"summary"` // one sentence; "" of a job

	Start   string  `json:"start"` // RFC 3339
	End     string  `json:"end"`
	Seconds float64 `json:"seconds"`

	Tasks Runs     `json:"tasks"` // of all functions
	Nodes Nodes    `json:"nodes"` // nodes that existed at any time
	Asked Hours    `json:"asked"` // what the nodes had, over their lives
	Used  *Hours   `json:"used"`  // by the stored metrics; nil: not known
	Notes []string `json:"notes"` // sentences about what is not known

	functions map[string]*Runs
	nodes     map[nodeType]*counted
	findings  []*findings.Finding
}

// Job is a submission, or a driver without one.
type Job struct {
	ID           string `json:"job_id,omitempty"` // of the driver
	SubmissionID string `json:"submission_id,omitempty"`
	Entrypoint   string `json:"entrypoint"`

	status     string
	start, end int64 // Unix ns; 0: not yet
}

// Name is what people call the job.
func (j *Job) Name() string {
	return cmp.Or(j.SubmissionID, j.ID)
}

// Hours are amounts of resources times how long they existed, or were in use.
type Hours struct {
	CPU    float64 `json:"cpu_hours"`
	GPU    float64 `json:"gpu_hours"`
	Memory float64 `json:"memory_gib_hours"`
}

// Metrics are the stored metrics of sessions.
type Metrics = moment.Metrics

// measure reads the side of a request's session, or of one of its jobs.
func (c Comparer) measure(ctx context.Context, r *moment.Moment, e catalog.Entry, job *Job) (*Side, error) {
	ref := r.Session.Ref
	s := &Side{
		Namespace: ref.Namespace, Cluster: ref.Cluster, Session: ref.Name, Job: job, Notes: []string{},
		Link:    fmt.Sprintf("/namespaces/%s/clusters/%s/sessions/%s/", url.PathEscape(ref.Namespace), url.PathEscape(ref.Cluster), url.PathEscape(ref.Name)),
		Running: r.Runs(ctx),
	}
	if r.At != 0 {
		s.Link += fmt.Sprintf("at/%d/", moment.Milliseconds(r.At))
	}
	began, ended := r.Life(ctx)
	if job != nil {
		began, ended = job.within(began, ended)
		s.Outcome = strings.ToLower(job.status)
	}
	s.Start, s.End, s.Seconds = began.UTC().Format(time.RFC3339), ended.UTC().Format(time.RFC3339), ended.Sub(began).Seconds()
	for _, step := range []func() error{
		func() error { return s.readFindings(ctx, r, c.Findings) },
		func() error { return s.readRuns(ctx, r) },
		func() error { return s.readNodes(ctx, r, e, began, ended, c.Metrics) },
		stopped(ctx),
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("compare %s: %w", ref, err)
		}
	}
	return s, nil
}

// within returns the part of a session's life in which a job ran.
func (j *Job) within(began, ended time.Time) (start, end time.Time) {
	if at := time.Unix(0, j.start); j.start != 0 && at.After(began) {
		began = at
	}
	if at := time.Unix(0, j.end); j.end != 0 && at.Before(ended) {
		ended = at
	}
	if ended.Before(began) {
		ended = began
	}
	return began, ended
}

// readFindings reads what failed; for a job, what is known to belong to that job.
func (s *Side) readFindings(ctx context.Context, r *moment.Moment, reader findings.Reader) error {
	report, err := reader.Read(ctx, r)
	if err != nil {
		return err
	}
	if s.Job == nil {
		s.Outcome, s.Summary, s.findings = report.Outcome, report.Summary, report.Findings
		return nil
	}
	for _, f := range report.Findings {
		if s.Job.ID != "" && f.JobID == s.Job.ID || s.Job.SubmissionID != "" && f.SubmissionID == s.Job.SubmissionID {
			s.findings = append(s.findings, f)
		}
	}
	return nil
}

// round removes the digits that are wrong in floating-point sums.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// stopped returns a check for loops over rows.
func stopped(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}

// Used returns the resources that the nodes of an ended session used, from its stored metrics; nil: not known.
func (c Comparer) Used(ctx context.Context, r *moment.Moment) (*Hours, error) {
	if r.Session.Start == 0 || r.Session.End == 0 {
		return nil, nil
	}
	began, ended := r.Life(ctx)
	var s Side
	if err := s.readNodes(ctx, r, catalog.Entry{Ref: r.Session.Ref}, began, ended, c.Metrics); err != nil {
		return nil, fmt.Errorf("compute the resources that the nodes of %s used: %w", r.Session.Ref, err)
	}
	return s.Used, nil
}
