package findings

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/logname"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// Types of a worker's exit (ray.rpc.WorkerExitType).
const (
	exitOutOfMemory  = "NODE_OUT_OF_MEMORY"
	exitIntendedUser = "INTENDED_USER_EXIT"
	exitIntended     = "INTENDED_SYSTEM_EXIT"
)

// death is the end of the process of a worker or a driver. exit and detail are Ray's type of the exit and its message
// about it.
type death struct {
	at      int64 // Unix ns; 0 if not known
	exit    string
	detail  string
	node    rayid.Node
	driver  bool
	job     rayid.Job
	evident Evidence
}

// wasIntended reports whether the process was told to end, so that its end is no failure.
func (d death) wasIntended() bool { return d.exit == exitIntended || d.exit == exitIntendedUser }

var (
	// reportedExit matches the GCS's line about a worker's end. Before Ray 2.58 nothing else reports it.
	reportedExit = lazyregexp.New(
		`Reporting worker exit, worker id = ([0-9a-f]{56}), node id = ([0-9a-f]{56}), address = \S*, exit_type = (\w+), exit_detail = (.*)`)
	// exitCode matches the exit code in Ray's text about the end of a process.
	exitCode = lazyregexp.New(`exit(?:s|ed)? with (?:an )?(?:exit )?code:? ?(-?\d+)`)
)

const maxReadWorkers = 40 // workers whose own logs one report reads

// readDeaths reads how the processes of workers and drivers ended: from events and the saved list of workers, or else
// from the GCS's log.
func (b *builder) readDeaths() {
	workers, err := b.moment.Workers(b.ctx)
	if b.stopOn(err) {
		return
	}
	for i := range workers {
		w := &workers[i]
		source, ended := "snapshot", w.WorkerState
		if w.Events != nil && !w.ByEvents.Alive && w.ByEvents.ExitType != "" {
			source, ended = "event", w.ByEvents
		}
		id, err := rayid.Parse[rayid.Worker](w.ID)
		if err != nil || ended.Alive || ended.ExitType == "" || w.Saved == nil && w.Events == nil {
			continue
		}
		const maxTime = 1 << 43 // ms: in ns it still is an int64
		d := death{at: int64(min(ended.Ended, maxTime)) * 1e6, exit: ended.ExitType, detail: ended.ExitDetail,
			driver: w.Type == moment.TypeDriver}
		d.node, _ = rayid.Parse[rayid.Node](w.Node) // nil if it is not known
		if w.Events != nil {
			d.job = w.Events.Job
		}
		d.evident = Evidence{
			Source: source, NodeID: d.node.String(), Time: timestamp(d.at),
			Text: fmt.Sprintf("worker %s died: %s: %s", id, d.exit, d.detail),
		}
		b.deaths[id] = d
	}
	b.readLoggedDeaths()
}

// readLoggedDeaths adds to b.deaths the processes of whose ends only the GCS's log tells.
func (b *builder) readLoggedDeaths() {
	for _, m := range b.logs.inHeads("gcs_server.out", reportedExit()) {
		id, err := rayid.Parse[rayid.Worker](m.groups[1])
		if _, known := b.deaths[id]; err != nil || known {
			continue
		}
		d := death{at: m.at, exit: m.groups[3], detail: m.groups[4], evident: b.lineEvidence(m)}
		// the expression matched 56 hexadecimal digits
		d.node, _ = rayid.Parse[rayid.Node](m.groups[2])
		job, _ := rayid.Parse[rayid.Job](m.groups[1][:2*rayid.JobSize])
		if d.driver = m.groups[1] == moment.DriverWorker(job); d.driver {
			d.job = job
		}
		b.deaths[id] = d
	}
}

// notStarted matches the raylet's line about worker processes that did not register in time.
var notStarted = lazyregexp.New(
	`(?m)^\[.*worker_pool\.cc:\d+: Some workers of the worker process\(\d+\) have not registered within the timeout\. ([^\n]*)$`)

// startTimeout is how long the raylet waits for a worker process before it says that the process did not register (ns).
const startTimeout = 60e9

// readStarts finds worker processes that ended before Ray could use them, and the error that they printed. Processes
// that are started together print first, and then the raylet says of each that it did not register. So the error that
// was printed last counts for all lines of the raylet within startTimeout after the first one.
func (b *builder) readStarts() {
	for log := range b.logs.ofNodes(pathIs("raylet.err")) {
		// the last error that was printed, when the raylet first told of it, and up to where the log was read
		said, evident, since, read := "", Evidence{}, int64(0), 0
		for _, m := range b.logs.matches(log, notStarted()) {
			reason, from, to := startError(log.text[read:m.from])
			if reason != "" || m.at-since > startTimeout {
				said, evident, since = reason, b.evidence(log, read+from, read+to), m.at
			}
			read = m.to
			told := cmp.Or(said, output.Clip(m.groups[1], output.MaxTitle))
			f := b.findOrAdd(WorkerStart, told)
			f.Title = "Worker processes did not start: " + told
			f.late = said == "" && strings.Contains(told, "still alive")
			f.add(occurrence{at: m.at, entity: b.nodeEntity(log.file.Node)})
			f.first = min(f.first, m.at-startTimeout)
			if said != "" {
				f.addEvidence(evident)
			}
			f.addEvidence(b.lineEvidence(m))
		}
	}
}

// driverToldOf reports whether a finding is about worker processes that did not start, and a job's driver may have
// waited for them in vain. The raylet prints what such processes printed into the logs of the drivers that are there:
// its end must be in log, until shortly before the driver's end. A driver that submitted more after it did not wait for
// them.
func (b *builder) driverToldOf(f *finding, j *job, log *logText) bool {
	return f.Kind == WorkerStart && f.job.Nil() && j.End-f.last <= maxStart &&
		strings.Contains(log.text, f.Title[max(0, len(f.Title)-toldEnd):]) && !b.driverWentOnAfter(f, j.id)
}

const toldEnd = 40 // bytes: uv's tree has marks between its lines

// startError returns the last error that worker processes printed in a part of a raylet.err, and where the lines that
// have it begin and end; "" if they printed none. Lines of the raylet itself do not count: they begin with "[", and a
// traceback that begins in one ends at an empty line.
func startError(text string) (reason string, from, to int) {
	at, begin, ofEntry := 0, 0, false
	printed := func() {
		if said := output.ToolError(text[begin:at]); said != "" {
			reason, from, to = said, begin, at
		}
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "["):
			printed()
			begin, ofEntry = at+len(line), strings.HasSuffix(strings.TrimRight(line, "\r\n"), output.TracebackStart)
		case ofEntry:
			begin, ofEntry = at+len(line), strings.TrimSpace(line) != ""
		}
		at += len(line)
	}
	printed()
	return reason, from, to
}

// crashOfWorker searches the logs of a worker for the lines that a crash leaves there. It returns what crashIn does.
func (b *builder) crashOfWorker(worker rayid.Worker) (how string, e Evidence) {
	var logs []match
	for _, file := range b.logsOf(worker) {
		logs = append(logs, b.readWorkerLog(worker, file).whole())
	}
	return b.crashIn(logs)
}

// crashIn searches parts of the logs of one process for the lines that a crash leaves there. how is the signal, the C++
// exception or error, or both as "SIGABRT: std::bad_alloc", and e are the lines. Both are empty if there are none.
func (b *builder) crashIn(parts []match) (how string, e Evidence) {
	signal, said := "", ""
	for _, part := range parts {
		text := part.log.text[part.from:part.to]
		crash, at := output.CrashInPython(text)
		ended, signalAt := output.Signal(text)
		said = cmp.Or(said, crash)
		if signalAt >= 0 && (at < 0 || signalAt < at) {
			at = signalAt
		}
		if at >= 0 && (e.Text == "" || signal == "") { // a part with a signal shows more than one with only an error
			signal = ended
			from, _ := part.log.lineBounds(part.from + at)
			e = b.evidence(part.log, from, part.log.stackEnd(part.from+at))
		}
	}
	return strings.Trim(signal+": "+said, ": "), e
}

// processDied returns the finding about processes that died in the same way. key and title say what ran in them, and d
// is how Ray says that this worker's process ended.
func (b *builder) processDied(kind, key, title string, worker rayid.Worker, d death) *finding {
	signal, inLogs := b.crashOfWorker(worker)
	if signal != "" {
		b.signals[key] = signal
	} else if !b.examinedWorkers[worker] && len(b.examinedWorkers) >= maxReadWorkers {
		signal = b.signals[key] // its logs are not read; the signal is from the logs of another worker
	}
	how := cmp.Or(d.exitText(signal), "Ray did not record how")
	said, printed := b.lastWords(worker, d, signal)
	f := b.findOrAdd(kind, key+output.Normalised(how))
	if said != "" || f.Title == "" { // the logs of many workers are not read
		f.Title = fmt.Sprintf("%s: %s%s", title, how, said)
	}
	f.addEvidence(inLogs)
	f.addEvidence(printed)
	return f
}

// lastWords returns how a title goes on with what a worker printed last, and the lines that show it; both are empty if
// that does not count. A library that ends its process says why only there, so an error is best, and else the last line
// counts. If the worker ended itself by a signal, only an error that it printed above the crash counts. If another
// process sent the signal, what the worker printed does not explain it.
func (b *builder) lastWords(worker rayid.Worker, d death, signal string) (said string, e Evidence) {
	crashed := slices.Contains(ofCrashes, signal)
	if signal != "" && !crashed || strings.Contains(d.detail, output.TracebackStart) {
		return "", e
	}
	searches := []func(log string) string{output.LastError, output.LastErrorOrLine} // the best one first
	if crashed {
		searches = searches[:1]
	}
	for _, lastOf := range searches {
		for log := range b.printedBy(worker) {
			printed := logText{text: log.text}
			if crashed {
				_, at := output.Signal(log.text)
				printed.text = log.text[:max(0, at)]
			}
			if said = lastOf(printed.text); said != "" {
				said = lastPrinted + said
			} else if crashed {
				said = output.CrashedIn(log.text)
			}
			if said != "" {
				return said, b.evidence(log, printed.lastLinesStart(workerTail), len(printed.text))
			}
		}
	}
	return "", e
}

// logsOf returns the logs of a worker process, by their names.
func (b *builder) logsOf(worker rayid.Worker) []moment.LogFile {
	b.groupLogs()
	return b.logsByWorker[worker]
}

// printedBy reads what a worker process printed, without what its core logged.
func (b *builder) printedBy(worker rayid.Worker) iter.Seq[*logText] {
	return func(yield func(*logText) bool) {
		for _, file := range b.logsOf(worker) {
			if strings.HasPrefix(file.Path, "worker-") && !yield(b.readWorkerLog(worker, file)) {
				return
			}
		}
	}
}

// noJob is the job in the names of logs of workers that were started before they had one.
var noJob = rayid.Job{0xff, 0xff, 0xff, 0xff}

// groupLogs groups the logs by worker and by job, when it is called first: there may be many logs, and many jobs that
// failed.
func (b *builder) groupLogs() {
	if b.logsByWorker != nil {
		return
	}
	b.logsByWorker, b.outputsByJob = map[rayid.Worker][]moment.LogFile{}, map[rayid.Job][]moment.LogFile{}
	for _, node := range b.session.Logs.Nodes() {
		for _, path := range b.session.Logs.Paths(node) {
			worker, ok := workerOfLog(path)
			if !ok {
				continue
			}
			file := moment.LogFile{Node: node, Path: path}
			b.logsByWorker[worker] = append(b.logsByWorker[worker], file)
			printed, _ := logname.ParseOutput(path)
			if job, err := rayid.Parse[rayid.Job](printed.Job); err == nil {
				b.outputsByJob[job] = append(b.outputsByJob[job], file)
			}
		}
	}
}

// readWorkerLog returns a log of a worker. If the logs of maxReadWorkers other workers were read already, it notes that
// this one was not, and returns an empty log.
func (b *builder) readWorkerLog(worker rayid.Worker, file moment.LogFile) *logText {
	if len(b.examinedWorkers) >= maxReadWorkers && !b.examinedWorkers[worker] {
		b.logs.unread[file] = true
		return &logText{file: file}
	}
	b.examinedWorkers[worker] = true
	return b.logs.read(file)
}

// workerOfLog returns the worker to whose process the log at a path belongs; ok is false for logs of drivers and
// others.
func workerOfLog(path string) (id rayid.Worker, ok bool) {
	printed, _ := logname.ParseOutput(path)
	core, _ := logname.ParseCore(path)
	id, err := rayid.Parse[rayid.Worker](cmp.Or(printed.Worker, core.Worker))
	return id, err == nil && !core.Driver
}

// exitText returns in a few words how a worker ended. signal is the one that its logs tell of; "" if they tell of none.
func (d death) exitText(signal string) string {
	switch {
	case signal != "":
		return signal
	case strings.Contains(d.detail, output.TracebackStart):
		before, _, _ := strings.Cut(d.detail, output.TracebackStart)
		return strings.TrimPrefix(strings.TrimSuffix(output.FirstSentence(before), ".")+": "+
			output.ExceptionOf(d.detail).String(), ": ")
	case exitCode().MatchString(d.detail):
		how := "exit code " + exitCode().FindStringSubmatch(d.detail)[1]
		if strings.Contains(d.detail, "SIGTERM") {
			how += ", SIGTERM"
		}
		return how
	case strings.Contains(d.detail, "connection error code 2"):
		return "its process ended without telling Ray why, as after SIGKILL or os._exit"
	}
	return output.FirstSentence(d.detail)
}

var (
	// nodeMemory matches what Ray's memory monitor says of the node, in GB; before Ray 2.56 without "used".
	nodeMemory = lazyregexp.New(`was ([\d.]{1,12})GB(?: used)? / ([\d.]{1,12})GB`)
	// killedMemory matches what it says of a process that it killed: the task that ran in it and its GB.
	killedMemory = lazyregexp.New(
		`(?:Selected to kill: \([^\n]{0,400}?task name=([^,\n]{1,200}),[^\n]{0,400}?actual |` +
			`name=([^,\n]{1,200}), pid=\d+, )memory used=([\d.]{1,12})GB`)
	// topMemory matches the process that used most of the node's memory.
	topMemory = lazyregexp.New(`Top 10 memory users: PID\s+MEM\(GB\)\s+COMMAND\s+\d+\s+([\d.]{1,12})\s+([^\n]{1,300})`)
)

// outOfMemory returns the finding about workers of a job that were killed because one node ran out of memory. name is
// what ran in a worker, and said is Ray's message about it.
func (b *builder) outOfMemory(job rayid.Job, node rayid.Node, name, said string) *finding {
	f := b.findOrAdd(OutOfMemory, job.String()+rayid.Hex(node))
	f.addName(name)
	f.addEntity(b.nodeEntity(node))
	if f.memory == "" {
		f.memory = f.memoryIn(said)
	}
	return f
}

// memoryIn returns the amounts of memory that a message of Ray's memory monitor tells, as the end of a title: of the
// node, of the largest process that was killed, and of the largest process if that is another one. It is "" if it tells
// none.
func (f *finding) memoryIn(said string) string {
	said = output.Clip(said, maxMemoryText)
	ofNode := nodeMemory().FindStringSubmatch(said)
	if ofNode == nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s GB were used", ofNode[1], ofNode[2])
	// since Ray 2.56 several may be killed at once
	if all := killedMemory().FindAllStringSubmatch(said, -1); all != nil {
		gb := func(killed []string) float64 { n, _ := strconv.ParseFloat(killed[3], 64); return n }
		largest := slices.MaxFunc(all, func(x, y []string) int { return cmp.Compare(gb(x), gb(y)) })
		name := largest[1] + largest[2] // one of them is empty: they are of two forms of the message
		text += fmt.Sprintf(", %s GB of it by %s", largest[3], withPlainNames(name))
	}
	top := topMemory().FindStringSubmatch(said)
	if top == nil {
		return text
	}
	command, ofTask := strings.CutPrefix(withPlainNames(strings.TrimSpace(top[2])), "ray::")
	// the largest process is told apart only if it is none of those killed
	if !strings.Contains(text, command) && (!ofTask ||
		!slices.ContainsFunc(f.names, func(n string) bool { return strings.HasPrefix(command, n) })) {
		return text + fmt.Sprintf("; the largest process was %s with %s GB", output.Clip(command, maxCommand), top[1])
	}
	if !strings.Contains(text, "GB of it") {
		text += fmt.Sprintf(", %s GB of it by %s", top[1], output.Clip(command, maxCommand))
	}
	return text
}

const (
	maxMemoryText = 16 << 10 // bytes of a message about memory that are looked at
	maxCommand    = 80       // bytes of a process's command in a title
)

// isOutOfMemory reports whether the finding, which may be nil, is about memory that ran out.
func (f *finding) isOutOfMemory() bool { return f != nil && f.Kind == OutOfMemory }

// memoryTitle returns the title of a finding about memory that ran out. Of Ray's own actors it tells only if it is
// about no others.
func (b *builder) memoryTitle(f *finding) string {
	names := slices.DeleteFunc(slices.Clone(f.names), func(name string) bool {
		class, _, _ := strings.Cut(name, ".")
		class, _, _ = strings.Cut(class, " (")
		return b.runsForRay(class, f.job)
	})
	if len(names) == 0 {
		names = f.names
	}
	title := fmt.Sprintf("%s ran out of memory: Ray's memory monitor killed its process", listNames(names))
	if f.Count > 1 {
		title += fmt.Sprintf(" %d times", f.Count)
	}
	if i := slices.IndexFunc(f.Entities, func(e Entity) bool { return e.Type == "node" }); i >= 0 {
		title += " on node " + f.Entities[i].Name
	}
	if f.memory != "" {
		title += " (" + f.memory + ")"
	}
	return title
}
