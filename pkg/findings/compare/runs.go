package compare

import (
	"context"
	"fmt"
	"slices"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

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
}

const (
	// maxFunctions is how many functions of a side are counted separately; further ones count as otherFunctions.
	maxFunctions   = 10_000
	otherFunctions = "(other functions)"
	maxName        = 300 // bytes of a function's name that are kept
	// runBytes is the memory that one attempt takes while a side is measured: its function's number, and its time, twice.
	runBytes = 4 + 2*8
)

// timing is the function and the time of each attempt that finished.
type timing struct {
	function []int32
	ns       []int64
}

// readRuns measures the functions.
func (s *Side) readRuns(ctx context.Context, r *moment.Moment) error {
	tasks := r.Session.Tasks
	release, err := r.Memory.Reserve(ctx, budget.Work, 1<<20+int64(tasks.Len())*runBytes)
	if err != nil {
		return err
	}
	defer release()
	query := tasktable.Query{ExcludeDriver: true, At: r.At, Stop: stopped(ctx)}
	if s.Job != nil {
		if s.functions = map[string]*Runs{}; s.Job.ID == "" {
			return nil // no driver began
		}
		query.Filters = []tasktable.Filter{{Key: "job_id", Value: s.Job.ID}}
	}
	numbers, runs := map[string]int32{}, []*Runs{}
	times := timing{make([]int32, 0, tasks.Len()), make([]int64, 0, tasks.Len())}
	if err := tasks.EachRun(query, func(row tasktable.Row) {
		function := row.Function()
		function = function[:min(len(function), maxName)] // without a copy
		n, known := numbers[string(function)]
		if !known {
			name := otherFunctions
			if len(runs) < maxFunctions {
				name = string(function)
			}
			if n, known = numbers[name]; !known {
				n = int32(len(runs))
				numbers[name] = n
				runs = append(runs, &Runs{})
			}
		}
		f := runs[n]
		f.Attempts++
		if row.Attempt() > 0 {
			f.Retries++
		}
		if row.Failed() {
			f.Failed++
		}
		if start, end, ok := row.Ran(); ok {
			f.Finished++
			times.function, times.ns = append(times.function, n), append(times.ns, end-start)
		}
	}); err != nil {
		return fmt.Errorf("measure the tasks: %w", err)
	}
	times.fill(runs)
	s.functions = make(map[string]*Runs, len(runs))
	for name, n := range numbers {
		s.functions[name] = runs[n]
	}
	s.Tasks = sum(runs, times.ns)
	return nil
}

// fill sets the times of functions.
func (t timing) fill(runs []*Runs) {
	ends := make([]int, len(runs)+1) // where each function's times end once they are put together
	for n, f := range runs {
		ends[n+1] = ends[n] + f.Finished
	}
	sorted, next := make([]int64, len(t.ns)), slices.Clone(ends)
	for i, n := range t.function {
		sorted[next[n]] = t.ns[i]
		next[n]++
	}
	for n, f := range runs {
		f.time(sorted[ends[n]:ends[n+1]])
	}
}

// time sets the times of attempts, whose order it changes.
func (f *Runs) time(ns []int64) {
	if len(ns) == 0 {
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

// sum adds up the functions; ns are the times of them all.
func sum(runs []*Runs, ns []int64) (all Runs) {
	for _, f := range runs {
		all.Attempts += f.Attempts
		all.Finished += f.Finished
		all.Failed += f.Failed
		all.Retries += f.Retries
	}
	all.time(ns)
	return all
}

// clipped returns the beginning of a name.
func clipped(name string) string { return name[:min(len(name), maxName)] }
