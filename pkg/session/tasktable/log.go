package tasktable

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// LogInfo is task_log_info: where an attempt's lines are in its worker's log files. Offsets are in bytes; nil if no
// event has the value. All of them point into the table, so what they point to must not be changed.
type LogInfo struct {
	StdoutFile, StderrFile                         []byte // paths on the node
	StdoutStart, StdoutEnd, StderrStart, StderrEnd *int64
}

// LogInfo returns in which files, and where in them, the attempt's output is. An offset is nil if it is not known, or
// was not at the row's moment. ok is false if nothing is known, as for methods of concurrent actors.
func (r Row) LogInfo() (info LogInfo, ok bool) {
	f := r.p.flags[r.i]
	if f&hasLogInfo == 0 || !r.reached(runningColumn) {
		return info, false
	}
	info.StdoutFile, info.StderrFile = r.t.strings.Get(r.p.stdoutFile[r.i]), r.t.strings.Get(r.p.stderrFile[r.i])
	offset := func(has rowFlags, column *[pageRows]int64) *int64 {
		if f&has == 0 {
			return nil
		}
		return &column[r.i]
	}
	info.StdoutStart = offset(hasStdoutStart, &r.p.stdoutStart)
	info.StderrStart = offset(hasStderrStart, &r.p.stderrStart)
	if r.at == math.MaxInt64 || r.endedAt() != 0 { // the worker tells them when the attempt is over
		info.StdoutEnd, info.StderrEnd = offset(hasStdoutEnd, &r.p.stdoutEnd), offset(hasStderrEnd, &r.p.stderrEnd)
	}
	return info, info.StdoutFile != nil || info.StderrFile != nil || info.StdoutStart != nil || info.StdoutEnd != nil ||
		info.StderrStart != nil || info.StderrEnd != nil
}

// TaskLog is the data needed to show one attempt's log.
type TaskLog struct {
	Node    rayid.Node   // nil if the attempt was not sent to any
	Worker  rayid.Worker // likewise
	Actor   rayid.Actor  // nil if the task is no actor's
	Info    LogInfo
	HasInfo bool
	Started int64 // when the attempt began to run, Unix ns; 0: not known
}

// Log returns the data needed to show an attempt's log at a moment (Unix nanoseconds; 0: the session's end). ok is
// false if there was no such attempt by then; an error says that rows cannot be read.
func (t *Table) Log(id rayid.Task, attempt int, at int64) (log TaskLog, ok bool, err error) {
	from, to := t.find(id)
	for n := from; n < to; n++ {
		r := t.Row(n, at)
		if int(r.Attempt()) != attempt || !r.hadBegun() {
			continue
		}
		copy(log.Node[:], r.Node())
		copy(log.Worker[:], r.Worker())
		if r.Defined() {
			copy(log.Actor[:], r.Actor())
		}
		log.Info, log.HasInfo = r.LogInfo()
		log.Started, _, _ = r.Span()
		return log, true, t.Err()
	}
	return log, false, t.Err()
}

// DeriveLogs computes where the logs of tasks begin in sessions of Ray before 2.58. There the events of short tasks say
// only where the log ends.
//
// A worker that runs one task after the other writes a line with its job's ID first and one with the task's name before
// each task (LOG_PREFIX_JOB_ID, LOG_PREFIX_TASK_NAME and LOG_PREFIX_ACTOR_NAME in ray/_private/ray_constants.py), to
// both of its logs; a task's lines start after that line. Output between two tasks counts to the later one.
//
// dir is the folder of logs on nodes. logs has the path of each worker's stored log below it, without the file
// extension.
func (t *Table) DeriveLogs(dir string, logs map[rayid.Worker]string) {
	byWorker := make(map[stringtable.ID][]int)
	for n := range t.n {
		if p, i := t.row(n); p.worker[i] != 0 && p.def[i] != 0 && p.flags[i]&hasLogInfo != 0 {
			byWorker[p.worker[i]] = append(byWorker[p.worker[i]], n)
		}
	}
	for worker, rows := range byWorker {
		var id rayid.Worker
		copy(id[:], t.builder.Strings.Get(worker))
		base, stored := logs[id]
		if !stored {
			continue
		}
		base = dir + base
		t.deriveWorkerLogs(rows, t.builder.Strings.Intern([]byte(base+".out")),
			t.builder.Strings.Intern([]byte(base+".err")))
	}
	t.strings = t.builder.Strings.View()
}

// LogStartsMissing reports whether the log of some attempt has an end but no file. It is not known of an index.
func (t *Table) LogStartsMissing() bool { return t.logStartsMissing }

func (r Row) logStartMissing() bool {
	return r.p.flags[r.i]&hasLogInfo != 0 && r.p.stdoutFile[r.i] == 0
}

// deriveWorkerLogs fills in, for the tasks of one worker, what their events do not say of its logs: the files stdout
// and stderr, and where each task's part begins. A worker runs one task after the other, so a part begins where the
// part before it ends, behind the lines in which the worker names job and task. rows are the tasks' rows, which it
// sorts.
func (t *Table) deriveWorkerLogs(rows []int, stdout, stderr stringtable.ID) {
	started := func(n int) int64 {
		p, i := t.row(n)
		return p.times[runningColumn][i]
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Or(cmp.Compare(started(a), started(b)), cmp.Compare(a, b)) })
	jobLine := int64(len(":job_id:\n") + hex.EncodedLen(rayid.JobSize))
	outEnd, errEnd := jobLine, jobLine
	for _, n := range rows {
		p, i := t.row(n)
		if p.stdoutFile[i] == 0 {
			line := t.nameLine(p, i)
			p.stdoutFile[i], p.stderrFile[i] = stdout, stderr
			p.stdoutStart[i], p.stderrStart[i] = min(outEnd+line, p.stdoutEnd[i]), min(errEnd+line, p.stderrEnd[i])
			p.flags[i] |= hasStdoutStart | hasStderrStart | derivedLog
		}
		outEnd, errEnd = max(outEnd, p.stdoutEnd[i]), max(errEnd, p.stderrEnd[i])
	}
}

// nameLine is the length of the line that names a task.
func (t *Table) nameLine(p *page, i int) int64 {
	def := t.defs.At(int(p.def[i]))
	if string(t.strings.Get(def.Kind)) == eventjson.TypeActorCreation {
		class, _, _ := bytes.Cut(t.strings.Get(def.Function), []byte("."))
		return int64(len(":actor_name:\n") + len(class))
	}
	return int64(len(":task_name:\n") + len(t.strings.Get(def.Name)))
}

// forgetDerivedLog undoes DeriveLogs for a row.
func (p *page) forgetDerivedLog(i int) {
	if p.flags[i]&derivedLog == 0 {
		return
	}
	p.flags[i] &^= derivedLog | hasStdoutStart | hasStderrStart
	p.stdoutFile[i], p.stderrFile[i], p.stdoutStart[i], p.stderrStart[i] = 0, 0, 0, 0
}
