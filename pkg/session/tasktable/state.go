package tasktable

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// StateTime is a state that an attempt entered.
type StateTime struct {
	State string
	Time  int64 // Unix nanoseconds

	number taskstate.State
}

// Death is the end of a worker, as far as its tasks are concerned.
type Death struct {
	Time   int64 // Unix nanoseconds, whole milliseconds
	Exit   string
	Detail string
}

// Ends are the deaths of workers and ends of jobs: they end the attempts that no event ended.
type Ends struct {
	Jobs    map[rayid.Job]int64      // when jobs ended, Unix nanoseconds, whole milliseconds
	Workers map[stringtable.ID]Death // by binary ID
}

// Ray fails the tasks that are left some time after it learns of a worker's death or a job's end, so that events under
// way still count (gcs_mark_task_failed_on_worker_dead_delay_ms, gcs_mark_task_failed_on_job_done_delay_ms).
const (
	deathDelay  = 1e9  // ns
	jobEndDelay = 15e9 // ns
)

// abandonedAt returns when an attempt that no event ended failed by its worker's death or its job's end
// (mark_tasks_failed_on_worker_dead and mark_tasks_failed_on_job_ends in
// ray/dashboard/modules/task_events/task_event_storage.py). at is 0 for all other attempts. died is nil if the job's
// end was the reason.
//
// Ray marks the attempts that are left once, so the end of a job does not end those that begin later: a detached
// actor, as those of Serve are, outlives its job.
func (r Row) abandonedAt() (at int64, died *Death) {
	if r.p.entered(int(r.i), finishedColumn) {
		return 0, nil
	}
	for tr := range r.rareTransitions() {
		if tr.state == taskstate.Failed {
			return 0, nil
		}
	}
	end, ended := r.t.ends.Jobs[r.p.job[r.i]]
	ended = ended && r.FirstStateAt() <= end+jobEndDelay
	// If the job ended and the worker died, the attempt failed for what Ray did first; both it does after a delay.
	if worker := r.p.worker[r.i]; worker != 0 {
		if d, ok := r.t.ends.Workers[worker]; ok && (!ended || d.Time+deathDelay <= end+jobEndDelay) {
			end, ended, died = d.Time, true, &d
		}
	}
	if !ended || end > r.at { // not yet at the moment of the row
		return 0, nil
	}
	return end, died
}

// FirstStateAt is when the attempt entered the first of its states, Unix nanoseconds, even if that was after the row's
// moment; 0 if no event has a state.
func (r Row) FirstStateAt() (first int64) {
	for c := range commonStates {
		if r.p.entered(int(r.i), c) && (first == 0 || r.p.times[c][r.i] < first) {
			first = r.p.times[c][r.i]
		}
	}
	for tr := range r.rareTransitions() {
		if first == 0 || tr.time < first {
			first = tr.time
		}
	}
	return first
}

// rareTransitions yields the attempt's transitions to states that have no column (commonStates have one), whether
// before or after the row's moment, in no order.
func (r Row) rareTransitions() iter.Seq[rareTransition] {
	return r.arenas().rareTransitions(r.p.rare[r.i])
}

// rareTransitions yields the transitions of a row's list, which begins at the reference head (pageCells.rare).
func (a *arenas) rareTransitions(head arenaRef) iter.Seq[rareTransition] {
	return func(yield func(rareTransition) bool) {
		for at := head; at != 0; {
			tr := a.transitions.At(at.index())
			if !yield(*tr) {
				return
			}
			at = tr.next
		}
	}
}

// state is the highest state, by Ray's numbers, that the attempt had entered by the row's moment; began is false if it
// had entered none. An attempt that no event ended has failed if it was abandoned.
func (r Row) state() (s taskstate.State, began bool) {
	if final := r.p.final[r.i]; final != 0 && r.at == math.MaxInt64 { // see Finish
		return final - 1, true
	}
	// commonStates are in the order of Ray's numbers, so the last one counts.
	for c := range commonStates {
		if r.p.entered(int(r.i), c) && r.p.times[c][r.i] <= r.at {
			s, began = commonStates[c], true
		}
	}
	if r.p.rare[r.i] != 0 {
		for tr := range r.rareTransitions() {
			if tr.time <= r.at && (!began || r.t.states.Compare(tr.state, s) > 0) {
				s, began = tr.state, true
			}
		}
	}
	if s < taskstate.Finished {
		if at, _ := r.abandonedAt(); at != 0 { // also if no event has a state
			return taskstate.Failed, true
		}
	}
	return s, began
}

// Finish sets what ends attempts, and stores each row's final state, which most queries need.
func (t *Table) Finish(ends Ends) {
	t.ends = ends
	for n := range t.n {
		r := t.Row(n, AtEnd)
		if s, began := r.state(); began {
			r.p.final[r.i] = s + 1 // 0: not computed
		}
	}
}

// State is the attempt's state; NIL if no event has one.
func (r Row) State() string {
	s, _ := r.state()
	return r.t.states.Name(s)
}

// States appends to out the states that the attempt had entered by the row's moment, in the order of Ray's numbers,
// each with the last time when it was entered.
func (r Row) States(out []StateTime) []StateTime {
	from := len(out)
	add := func(s taskstate.State, time int64) {
		if time <= r.at {
			out = append(out, StateTime{State: r.t.states.Name(s), Time: time, number: s})
		}
	}
	for c, s := range commonStates {
		if r.p.entered(int(r.i), c) {
			add(s, r.p.times[c][r.i])
		}
	}
	if r.p.rare[r.i] != 0 {
		for tr := range r.rareTransitions() {
			add(tr.state, tr.time)
		}
	}
	if at, _ := r.abandonedAt(); at != 0 {
		add(taskstate.Failed, at)
	}
	all := out[from:]
	// Of a state entered several times the last time counts, so it sorts first.
	slices.SortFunc(all, func(a, b StateTime) int {
		return cmp.Or(r.t.states.Compare(a.number, b.number), cmp.Compare(b.Time, a.Time))
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

// Failure is why the attempt failed: Ray's type of error, such as WORKER_DIED, and its message without terminal
// colours. ok is false if it had not failed by the row's moment or the reason is not known.
func (r Row) Failure() (kind, text []byte, ok bool) {
	if s, _ := r.state(); s != taskstate.Failed {
		return nil, nil, false
	}
	if at, died := r.abandonedAt(); at != 0 {
		return []byte("WORKER_DIED"), r.abandonedMessage(died), true
	}
	if r.p.failure[r.i] == 0 {
		return nil, nil, false
	}
	a := r.arenas()
	f := a.failures.At(r.p.failure[r.i].index())
	return r.t.strings.Get(f.kind), a.bytes.Get(f.text, int(f.length)), true
}

// abandonedMessage is Ray's error message for an abandoned attempt.
func (r Row) abandonedMessage(died *Death) []byte {
	if died == nil {
		return fmt.Appendf(nil, "Job finishes (%s) as driver exits. Marking all non-terminal tasks as failed.", r.Job())
	}
	return fmt.Appendf(nil, "Worker running the task (%x) died with exit_type: %s with error_message: %s",
		r.t.strings.Get(r.p.worker[r.i]), exitNumber(died.Exit), died.Detail)
}

// exitNumber is the number of a ray.rpc.WorkerExitType, which Ray's sentence shows in place of the name. A type that is
// not known keeps its name.
func exitNumber(name string) string {
	i := slices.Index([]string{"SYSTEM_ERROR", "INTENDED_SYSTEM_EXIT", "USER_ERROR", "INTENDED_USER_EXIT",
		"NODE_OUT_OF_MEMORY"}, name)
	if i < 0 {
		return name
	}
	return strconv.Itoa(i)
}
