package session

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// StateTime is a state an attempt entered.
type StateTime struct {
	State string
	Time  int64 // Unix nanoseconds

	number taskState
}

// death is the end of a worker, as far as its tasks are concerned.
type death struct {
	time   int64 // Unix nanoseconds, whole milliseconds
	exit   string
	detail string
}

// Ray fails the tasks that are left some time after it learns of a worker's death or a job's end, so that events under way still count
// (gcs_mark_task_failed_on_worker_dead_delay_ms, gcs_mark_task_failed_on_job_done_delay_ms).
const (
	deathDelay  = 1e9  // ns
	jobEndDelay = 15e9 // ns
)

// abandoned tells of an attempt that no event ended, but its worker's death or its job's end did (mark_tasks_failed_on_worker_dead and
// mark_tasks_failed_on_job_ends in ray/dashboard/modules/task_events/task_event_storage.py). at is 0 for all others.
func (r Row) abandoned() (at int64, died *death) {
	if r.p.entered(int(r.i), commonColumn(stateFinished)) {
		return 0, nil
	}
	for _, tr := range r.later() {
		if tr.state == stateFailed {
			return 0, nil
		}
	}
	end, ended := r.t.jobEnds[r.p.job[r.i]]
	if worker := r.p.worker[r.i]; worker != 0 {
		if d, ok := r.t.deaths[worker]; ok && (!ended || d.time+deathDelay <= end+jobEndDelay) {
			end, ended, died = d.time, true, &d
		}
	}
	if !ended || end > r.at {
		return 0, nil
	}
	return end, died
}

// later yields the transitions that have no column.
func (r Row) later() func(yield func(int, laterTransition) bool) {
	return func(yield func(int, laterTransition) bool) {
		a := r.arenas()
		for at := r.p.rest[r.i]; at != 0; {
			tr := a.transitions.at(int(at - 1))
			if !yield(int(at), *tr) {
				return
			}
			at = tr.next
		}
	}
}

// state is the highest state entered; began is false where none was.
func (r Row) state() (s taskState, began bool) {
	if final := r.p.final[r.i]; final != 0 && r.at == math.MaxInt64 {
		return final - 1, true
	}
	for c := range commonStates {
		if r.p.entered(int(r.i), c) && r.p.times[c][r.i] <= r.at {
			s, began = commonStates[c], true
		}
	}
	if r.p.rest[r.i] != 0 {
		for _, tr := range r.later() {
			if tr.time <= r.at && (!began || r.t.states.compare(tr.state, s) > 0) {
				s, began = tr.state, true
			}
		}
	}
	if s < stateFinished {
		if at, _ := r.abandoned(); at != 0 {
			return stateFailed, true
		}
	}
	return s, began
}

// workOutFinal notes the rows' states at the end, which most queries ask for.
func (t *Tasks) workOutFinal() {
	for n := range t.n {
		r := t.Row(n, 0)
		if s, began := r.state(); began {
			r.p.final[r.i] = s + 1
		}
	}
}

// State is the attempt's state; NIL where no event told of any.
func (r Row) State() string {
	s, _ := r.state()
	return r.t.states.name(s)
}

// States appends the states the attempt entered to out, in the order of Ray's numbers.
func (r Row) States(out []StateTime) []StateTime {
	from := len(out)
	add := func(s taskState, time int64) {
		if time <= r.at {
			out = append(out, StateTime{State: r.t.states.name(s), Time: time, number: s})
		}
	}
	for c, s := range commonStates {
		if r.p.entered(int(r.i), c) {
			add(s, r.p.times[c][r.i])
		}
	}
	if r.p.rest[r.i] != 0 {
		for _, tr := range r.later() {
			add(tr.state, tr.time)
		}
	}
	if at, _ := r.abandoned(); at != 0 {
		add(stateFailed, at)
	}
	all := out[from:]
	// Of a state entered again the last time counts; it sorts first.
	slices.SortFunc(all, func(a, b StateTime) int {
		if c := r.t.states.compare(a.number, b.number); c != 0 {
			return c
		}
		return int(min(1, max(-1, b.Time-a.Time)))
	})
	all = slices.CompactFunc(all, func(a, b StateTime) bool { return a.number == b.number })
	return out[:from+len(all)]
}

// Terminal states, and those whose times the State API has columns for.
const (
	StateCreated  = "PENDING_ARGS_AVAIL"
	StateRunning  = "RUNNING"
	StateFinished = "FINISHED"
	StateFailed   = "FAILED"
)

// Failure is why the attempt failed, without terminal colours; ok is false where it did not, or nothing told why.
func (r Row) Failure() (kind, text []byte, ok bool) {
	if s, _ := r.state(); s != stateFailed {
		return nil, nil, false
	}
	if at, died := r.abandoned(); at != 0 {
		return []byte("WORKER_DIED"), r.abandonment(died), true
	}
	if r.p.failure[r.i] == 0 {
		return nil, nil, false
	}
	a := r.arenas()
	f := a.failures.at(int(r.p.failure[r.i] - 1))
	return r.t.texts.get(f.kind), a.bytes.get(f.text, int(f.length)), true
}

// abandonment is Ray's sentence about an attempt that its worker's death or its job's end ended.
func (r Row) abandonment(died *death) []byte {
	if died == nil {
		return fmt.Appendf(nil, "Job finishes (%s) as driver exits. Marking all non-terminal tasks as failed.", r.Job())
	}
	return fmt.Appendf(nil, "Worker running the task (%x) died with exit_type: %s with error_message: %s",
		r.t.texts.get(r.p.worker[r.i]), exitNumber(died.exit), died.detail)
}

// exitNumber is the number of a ray.rpc.WorkerExitType, which Ray's sentence shows in place of the name.
func exitNumber(name string) string {
	i := slices.Index([]string{"SYSTEM_ERROR", "INTENDED_SYSTEM_EXIT", "USER_ERROR", "INTENDED_USER_EXIT", "NODE_OUT_OF_MEMORY"}, name)
	if i < 0 {
		return name
	}
	return strconv.Itoa(i)
}
