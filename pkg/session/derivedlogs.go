package session

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/rayid"
)

// deriveLogs finds out where the logs of tasks begin in sessions of Ray before 2.58: where a task was over soon, its events tell only where
// its log ends.
//
// A worker that runs one task after the other writes a line with its job's ID first and one with the task's name before each task
// (LOG_PREFIX_JOB_ID, LOG_PREFIX_TASK_NAME and LOG_PREFIX_ACTOR_NAME in ray/_private/ray_constants.py), to both of its logs; a task's
// part starts after that line. What a program writes between two tasks counts to the later one.
func (t *Tasks) deriveLogs(session string, logs *LogSet) {
	if !t.logStartsMissing() {
		return
	}
	files := workerLogs(logs)
	byWorker := make(map[textID][]int)
	for n := range t.n {
		if p, i := t.row(n); p.worker[i] != 0 && p.def[i] != 0 && p.flags[i]&hasLogInfo != 0 {
			byWorker[p.worker[i]] = append(byWorker[p.worker[i]], n)
		}
	}
	for worker, rows := range byWorker {
		base, stored := files[rayid.Worker(t.interners.texts.get(worker))]
		if !stored {
			continue
		}
		base = "/tmp/ray/" + session + "/logs/" + base
		t.deriveWorkerLogs(rows, t.interners.texts.intern([]byte(base+".out")), t.interners.texts.intern([]byte(base+".err")))
	}
	t.texts = t.interners.texts.view()
}

// logStartsMissing says whether some attempt's log has an end but no file.
func (t *Tasks) logStartsMissing() bool {
	for n := range t.n {
		if p, i := t.row(n); p.flags[i]&hasLogInfo != 0 && p.stdoutFile[i] == 0 {
			return true
		}
	}
	return false
}

// workerLogs finds the stored logs of workers: their paths without ending.
func workerLogs(logs *LogSet) map[rayid.Worker]string {
	files := make(map[rayid.Worker]string)
	for _, node := range logs.Nodes() {
		for _, path := range logs.Paths(node) {
			name, isWorker := strings.CutPrefix(path, "worker-")
			base, isOut := strings.CutSuffix(path, ".out")
			id, _, _ := strings.Cut(name, "-")
			if !isWorker || !isOut {
				continue
			}
			if worker, err := rayid.Parse[rayid.Worker](id); err == nil {
				files[worker] = base
			}
		}
	}
	return files
}

func (t *Tasks) deriveWorkerLogs(rows []int, stdout, stderr textID) {
	started := func(n int) int64 {
		p, i := t.row(n)
		return p.times[commonColumn(stateRunning)][i]
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
func (t *Tasks) nameLine(p *taskPage, i int) int64 {
	def := t.defs.at(int(p.def[i]))
	if bytes.Equal(t.texts.get(def.kind), creationTask) {
		class, _, _ := bytes.Cut(t.texts.get(def.function), []byte("."))
		return int64(len(":actor_name:\n") + len(class))
	}
	return int64(len(":task_name:\n") + len(t.texts.get(def.name)))
}

// forgetDerivedLog takes back what deriveLogs did to a row.
func (p *taskPage) forgetDerivedLog(i int) {
	if p.flags[i]&derivedLog == 0 {
		return
	}
	p.flags[i] &^= derivedLog | hasStdoutStart | hasStderrStart
	p.stdoutFile[i], p.stderrFile[i], p.stdoutStart[i], p.stderrStart[i] = 0, 0, 0, 0
}
