package tasktable

import "github.com/rayhistory/historyserver/pkg/session/taskstate"

// EachRun calls visit for every row that q's filters keep, in the table's order; the limit is not used. Only these of a row may be asked: ID,
// Attempt, Job, Type, Language, names, State, Ran and Failed.
func (t *Table) EachRun(q Query, visit func(Row)) error {
	_, err := t.each(q, RunPart, func(_ int, r Row) { visit(r) })
	return err
}

// Ran is when an attempt began to run and when it finished, Unix nanoseconds. ok is false if it did not finish, or if either is not known.
func (r Row) Ran() (start, end int64, ok bool) {
	running, finished := commonColumn(taskstate.Running), commonColumn(taskstate.Finished)
	if !r.p.entered(int(r.i), running) || !r.p.entered(int(r.i), finished) || r.Failed() {
		return 0, 0, false
	}
	start, end = r.p.times[running][r.i], r.p.times[finished][r.i]
	return start, end, start <= end && end <= r.at
}

// Failed reports whether the attempt failed.
func (r Row) Failed() bool {
	s, _ := r.state()
	return s == taskstate.Failed
}
