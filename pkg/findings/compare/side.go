// Package compare puts two sessions, or two runs of a job, side by side: what was set differently, how long their
// functions took, what was retried, what failed, which nodes they had and for how long.
//
//	tables, findings, metrics of each ──► a Side each ──► Report: what differs most first
//
// A side is measured in one pass over the columns of its tasks. The size of a side and of a report is limited.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
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
	settings  settings
	// settingsCut says that more was set: what settings lack is not known not to be.
	settingsCut bool
}

// Job is a submission, or a driver without one.
type Job struct {
	ID           string `json:"job_id,omitempty"` // of the driver
	SubmissionID string `json:"submission_id,omitempty"`
	Entrypoint   string `json:"entrypoint"`

	status     string
	start, end int64    // Unix ns; 0: not yet
	drivers    []string // IDs, hex: those of a submission, which may have several
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

// measureSide reads one side: the session e that r is a moment of, or the given job of it; nil is the whole session.
func (c Comparer) measureSide(ctx context.Context, r *moment.Moment, e catalog.Entry, job *Job) (*Side, error) {
	ref := r.Session.Ref
	s := &Side{
		Namespace: ref.Namespace, Cluster: ref.Cluster, Session: ref.Name, Job: job, Notes: []string{},
		Link: "/" + ref.Path(), Running: r.Runs(ctx),
	}
	if r.At != 0 {
		s.Link += fmt.Sprintf("at/%d/", moment.Milliseconds(r.At))
	}
	began, ended := r.Life(ctx)
	if job != nil {
		began, ended = job.lifeWithin(began, ended)
		s.Outcome = strings.ToLower(job.status)
	}
	s.Start, s.End, s.Seconds = began.UTC().Format(time.RFC3339), ended.UTC().Format(time.RFC3339),
		ended.Sub(began).Seconds()
	for _, step := range []func() error{
		func() error { return s.readFindings(ctx, r, c) },
		func() error { return s.readSettings(ctx, r, c.Hides) },
		func() error { return s.readRuns(ctx, r) },
		func() error { return s.readNodes(ctx, r, e, began, ended, c.Findings.Metrics) },
		stopped(ctx), // the steps may have taken long
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("compare %s: %w", ref, err)
		}
	}
	return s, nil
}

// lifeWithin returns the part of a session's life, from began to ended, in which a job ran.
func (j *Job) lifeWithin(began, ended time.Time) (start, end time.Time) {
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

// readFindings reads the findings of the session, with its outcome. If the side is a job, it keeps only the findings
// about that job.
func (s *Side) readFindings(ctx context.Context, r *moment.Moment, c Comparer) error {
	ctx, cancel := findings.Within(ctx, c.Wait)
	defer cancel()
	report, err := c.Findings.Read(ctx, r)
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

// stopped returns a function that returns why the request has ended; nil while it goes on. Loops over many rows call
// it.
func stopped(ctx context.Context) func() error {
	return func() error { return context.Cause(ctx) }
}

// Used returns the resources that the nodes of an ended session used, from its stored metrics; nil if that is not
// known.
func (c Comparer) Used(ctx context.Context, r *moment.Moment) (*Hours, error) {
	if r.Session.Start == 0 || r.Session.End == 0 {
		return nil, nil
	}
	began, ended := r.Life(ctx)
	var s Side
	if err := s.readNodes(ctx, r, catalog.Entry{Ref: r.Session.Ref}, began, ended, c.Findings.Metrics); err != nil {
		return nil, fmt.Errorf("compute the resources that the nodes of %s used: %w", r.Session.Ref, err)
	}
	return s.Used, nil
}

// Runs are attempts of tasks. Times are in seconds, for finished attempts: from running to finished.
type Runs struct {
	Attempts int     `json:"attempts"`
	Finished int     `json:"finished"`
	Failed   int     `json:"failed"`
	Retries  int     `json:"retries"` // attempts that were not their task's first
	Total    float64 `json:"total_seconds"`
	Median   float64 `json:"median_seconds"` // nearest rank, as is P95
	P95      float64 `json:"p95_seconds"`
	Max      float64 `json:"max_seconds"`

	ns []int64 // of each attempt that finished
}

const (
	// maxFunctions is how many functions of a side are counted separately; further ones count as otherFunctions.
	maxFunctions   = 10_000
	otherFunctions = "(other functions)"
	maxName        = 300 // bytes of a function's name that are kept
	// runBytes is the memory that one attempt takes while a side is measured: its time, in its function's list that may
	// have room for as many, and in that of all functions.
	runBytes = 3 * 8
)

// readRuns counts and measures the attempts of the side's tasks, by function. It reserves memory for their times
// meanwhile.
func (s *Side) readRuns(ctx context.Context, r *moment.Moment) error {
	tasks := r.Session.Tasks
	const functionBytes = 1 << 20 // of the functions' names
	release, err := r.Memory.Reserve(ctx, budget.Work, functionBytes+int64(tasks.Len())*runBytes)
	if err != nil {
		return err
	}
	defer release()
	query := tasktable.Query{ExcludeDriver: true, At: r.At, Stop: stopped(ctx)}
	drivers := map[rayid.Job]bool{}
	if s.Job != nil {
		for _, driver := range s.Job.drivers {
			if id, err := rayid.Parse[rayid.Job](driver); err == nil {
				drivers[id] = true
			}
		}
		if len(drivers) == 0 {
			return nil // no driver began, so there are no tasks
		}
	}
	s.functions = map[string]*Runs{}
	if err := tasktable.Each(tasks, query, func(_ int, row tasktable.RunRow) {
		if s.Job != nil && !drivers[row.Job()] {
			return
		}
		s.runsOf(row.Function()).add(row)
	}); err != nil {
		return fmt.Errorf("measure the tasks: %w", err)
	}
	all := &s.Tasks
	all.ns = make([]int64, 0, tasks.Len())
	for _, f := range s.functions {
		all.Attempts += f.Attempts
		all.Finished += f.Finished
		all.Failed += f.Failed
		all.Retries += f.Retries
		all.ns = append(all.ns, f.ns...)
		f.setTimes()
	}
	all.setTimes()
	return nil
}

// runsOf returns the runs of a function, to be added to. Functions beyond maxFunctions share one.
func (s *Side) runsOf(function []byte) *Runs {
	function = function[:min(len(function), maxName)]
	runs := s.functions[string(function)] // without a copy
	if runs == nil {
		name := otherFunctions
		if len(s.functions) < maxFunctions {
			name = string(function)
		}
		if runs = s.functions[name]; runs == nil {
			runs = &Runs{}
			s.functions[name] = runs
		}
	}
	return runs
}

// add counts an attempt.
func (f *Runs) add(row tasktable.RunRow) {
	f.Attempts++
	if row.Attempt() > 0 {
		f.Retries++
	}
	if row.Failed() {
		f.Failed++
	}
	if start, end, finished := row.Ran(); finished {
		f.Finished++
		f.ns = append(f.ns, end-start)
	}
}

// setTimes sets the total, the median and the other times from those of the single attempts, which it drops.
func (f *Runs) setTimes() {
	ns := f.ns
	if f.ns = nil; len(ns) == 0 {
		return
	}
	slices.Sort(ns)
	var total float64
	for _, t := range ns {
		total += float64(t)
	}
	rank := func(percent int) float64 { return round(float64(ns[(len(ns)*percent+99)/100-1]) / 1e9) }
	f.Total, f.Median, f.P95, f.Max = round(total/1e9), rank(50), rank(95), rank(100)
}

// Nodes counts nodes.
type Nodes struct {
	Count int `json:"count"`
	Lost  int `json:"lost"` // died, and nobody wanted it
}

// nodeType is what nodes of the same type have in common.
type nodeType struct {
	name     string // head, or the worker group's name, and the machine's type
	cpu, gpu float64
}

// counted are the nodes of a type, and the largest memory of one of them, in bytes: Ray measures at its start how much
// is free.
type counted struct {
	Nodes
	memory float64
}

// lifetime is the part of a node's life in the measured time.
type lifetime struct {
	ip    string
	hours float64
}

// readNodes counts the nodes that existed between two times, and the resources that they had and used. e is the
// session, and metrics may be nil.
func (s *Side) readNodes(ctx context.Context, r *moment.Moment, e catalog.Entry, began, ended time.Time,
	metrics moment.Metrics) error {
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return err
	}
	s.nodes = map[nodeType]*counted{}
	var lives []lifetime
	for _, n := range nodes.All {
		start, end := began, ended
		if at := time.Unix(0, n.Start); at.After(began) {
			start = at
		}
		died := time.Unix(0, n.End)
		if n.State == moment.Dead && n.End != 0 && died.Before(ended) {
			end = died
		}
		if end.Before(start) {
			continue // it did not exist between the times
		}
		kind, memory := nodeTypeOf(n), saneAmount(n.Amount("memory"))
		counts := s.nodes[kind]
		if counts == nil {
			counts = &counted{}
			s.nodes[kind] = counts
		}
		counts.memory = max(counts.memory, memory)
		counts.Count++
		s.Nodes.Count++
		if n.Lost() && !died.After(ended) {
			counts.Lost++
			s.Nodes.Lost++
		}
		hours := end.Sub(start).Hours()
		lives = append(lives, lifetime{n.IP, hours})
		s.Asked.add(Hours{kind.cpu, kind.gpu, memory / (1 << 30)}, hours)
	}
	s.Asked.roundHours()
	return s.readUse(ctx, r, e, ended, ended.Sub(began), lives, metrics)
}

// add adds amounts of resources that existed for some hours.
func (h *Hours) add(amounts Hours, hours float64) {
	h.CPU += amounts.CPU * hours
	h.GPU += amounts.GPU * hours
	h.Memory += amounts.Memory * hours
}

func (h *Hours) roundHours() { h.CPU, h.GPU, h.Memory = round(h.CPU), round(h.GPU), round(h.Memory) }

// nodeTypeOf returns a node's type.
func nodeTypeOf(n *moment.Node) nodeType {
	t := nodeType{name: cmp.Or(n.Group, "worker"), cpu: saneAmount(n.Amount("CPU")), gpu: saneAmount(n.Amount("GPU"))}
	if n.Head {
		t.name = "head"
	}
	if n.Machine != "" {
		t.name += " (" + n.Machine + ")"
	}
	t.name = human.FirstBytes(t.name, maxName)
	return t
}

// saneAmount returns an amount of a resource; 0 for one that is negative, not a number or too large to be true.
func saneAmount(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 1e18 {
		return 0
	}
	return v
}

// uses are what nodes used on average, by their addresses (label ip), from Ray's own metrics.
var uses = []struct {
	expression string // %d is the time to look back, in seconds
	add        func(h *Hours, v float64)
}{
	{
		"sum by (ip) (avg_over_time(ray_node_cpu_utilization[%[1]ds]) / 100 * " +
			"avg_over_time(ray_node_cpu_count[%[1]ds]))",
		func(h *Hours, v float64) { h.CPU += v },
	},
	{"sum by (ip) (avg_over_time(ray_node_gpus_utilization[%[1]ds])) / 100", func(h *Hours, v float64) { h.GPU += v }},
	{"sum by (ip) (avg_over_time(ray_node_mem_used[%[1]ds]))", func(h *Hours, v float64) { h.Memory += v / (1 << 30) }},
}

// readUse reads from the stored metrics what the nodes used: for each node its average over the length of time before
// end, times the hours that it lived. It sets s.Used only if there are metrics of these nodes. If they cannot be read,
// a note says so: an error is returned only if the request has ended. metrics may be nil.
func (s *Side) readUse(ctx context.Context, r *moment.Moment, e catalog.Entry, end time.Time, length time.Duration,
	lives []lifetime, metrics moment.Metrics) error {
	if metrics == nil || length < time.Second {
		return nil
	}
	byIP := map[string]float64{}
	for _, l := range lives {
		byIP[l.ip] += l.hours
	}
	used, measured := Hours{}, false
	for _, u := range uses {
		expression := fmt.Sprintf(u.expression, int64(math.Ceil(length.Seconds())))
		err := metrics.Values(ctx, e.Ref, s.Running, end, expression, func(label func(string) string, value float64) {
			if hours, ok := byIP[label("ip")]; ok && !math.IsNaN(value) && !math.IsInf(value, 0) {
				measured = true
				u.add(&used, value*hours)
			}
		})
		if errors.Is(err, context.Canceled) || context.Cause(ctx) != nil {
			return err
		}
		if err != nil {
			r.Log.WithError(err).WithField("session", e.Ref.String()).Warn(
				"cannot compute the resources that a session's nodes used")
			s.Notes = append(s.Notes, "What its nodes used could not be read from the stored metrics; the history "+
				"server's log says why.")
			return nil
		}
	}
	if measured {
		used.roundHours()
		s.Used = &used
	}
	return nil
}
