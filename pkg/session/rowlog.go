package session

import (
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// LogInfo is task_log_info: where an attempt's lines are in its worker's log files. Offsets are in bytes; what was not told is nil.
type LogInfo struct {
	StdoutFile, StderrFile                         []byte // paths on the node
	StdoutStart, StdoutEnd, StderrStart, StderrEnd *int64
}

// LogInfo tells where the attempt's lines are; ok is false where no event told, as for methods of concurrent actors.
func (r Row) LogInfo() (info LogInfo, ok bool) {
	f := r.p.flags[r.i]
	if f&hasLogInfo == 0 || !r.reached(commonColumn(stateRunning)) {
		return info, false
	}
	info.StdoutFile, info.StderrFile = r.t.texts.get(r.p.stdoutFile[r.i]), r.t.texts.get(r.p.stderrFile[r.i])
	offset := func(told rowFlags, column *[pageRows]int64) *int64 {
		if f&told == 0 {
			return nil
		}
		return &column[r.i]
	}
	info.StdoutStart, info.StdoutEnd = offset(hasStdoutStart, &r.p.stdoutStart), offset(hasStdoutEnd, &r.p.stdoutEnd)
	info.StderrStart, info.StderrEnd = offset(hasStderrStart, &r.p.stderrStart), offset(hasStderrEnd, &r.p.stderrEnd)
	return info, info.StdoutFile != nil || info.StderrFile != nil || f&(hasStdoutStart|hasStdoutEnd|hasStderrStart|hasStderrEnd) != 0
}

// TaskLog is what is needed to show one attempt's log.
type TaskLog struct {
	Node    rayid.Node   // nil if the attempt was not sent to any
	Worker  rayid.Worker // likewise
	Job     rayid.Job
	Actor   rayid.Actor // nil if the task is no actor's
	PID     int32
	State   string
	Info    LogInfo
	HasInfo bool
}

// Log finds what is needed to show an attempt's log; ok is false if there is no such attempt.
func (t *Tasks) Log(id rayid.Task, attempt int) (log TaskLog, ok bool) {
	from, to := t.find(id)
	for n := from; n < to; n++ {
		r := t.Row(n, 0)
		if int(r.Attempt()) != attempt {
			continue
		}
		log = TaskLog{Job: r.Job(), PID: r.PID(), State: r.State()}
		copy(log.Node[:], r.Node())
		copy(log.Worker[:], r.Worker())
		if r.Defined() {
			copy(log.Actor[:], r.Actor())
		}
		log.Info, log.HasInfo = r.LogInfo()
		return log, true
	}
	return log, false
}

// find gives the rows of a task.
func (t *Tasks) find(id rayid.Task) (from, to int) {
	after := func(limit int) int {
		lo, hi := 0, t.n
		if t.paged != nil {
			lo, hi = t.paged.span(&id, limit == 1)
		}
		for lo < hi {
			mid := (lo + hi) / 2
			p, i := t.row(mid)
			if compareIDs(p.id[i][:], id[:]) < limit {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		return lo
	}
	return after(0), after(1)
}
