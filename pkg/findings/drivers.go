package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/jobstatus"
)

// driverFailed adds the finding about a failed submission, with the end of its log, and links it to its causes. log is
// what its driver printed.
func (b *builder) driverFailed(j *job, log *logText) {
	stored := j
	if !jobstatus.Ended(j.Status) { // the head was lost before it could record the end
		ended := *j
		ended.Status, ended.End = jobstatus.Failed, cmp.Or(j.End, b.lastSign(log))
		j = &ended
	}
	e := b.driverEndOf(j, log)
	if j.Message == moment.EndNotRecorded && e.outer.Type == "" && output.LogsError(output.Behind(e.trace, e.raised)) {
		e = driverEnd{log: log, traceAt: -1} // it went on after the exception: its last words made it a failure
	}
	f, waited := b.driverFinding(j, &e) // may clear e, see supervisorFailed
	f.earlierError, f.silent = e.earlierError(f.Title), e.message() == ""
	b.showEnd(f, &e)
	b.showStatus(f, stored, log)
	b.linkDriver(f, j, &e)
	// With a node's raylet end its servers, and whoever records how its drivers end.
	if lost := b.lostNodes[j.Node]; len(f.because) == 0 && !jobstatus.Ended(stored.Status) && b.endedWith(lost, &e) {
		f.causedBy(lost)
	}
	if len(f.because) > 0 {
		b.tellLeftBehind(f, j, &e)
		return
	}
	b.showLookedUp(f)
	if waited || f.Kind == JobFailed {
		b.linkUndone(f, j, &e, waited)
		f.rootCause().addBarrierToTitle(log)
	}
}

// connection matches exceptions about a connection that was refused or lost, also as librdkafka has it.
var connection = lazyregexp.New(`^(?:\w*Connect(?:ion\w*|or)?Error|ConnectionClosed\w*|BrokenPipeError|\w*RpcError)\b|` +
	`(?i:\bconnection (?:was |is |has been )?(?:refused|reset|closed|lost|aborted|failed)\b|\bbroken pipe\b|` +
	`\bbroker transport failure\b)`)

// endedWith reports whether a driver, whose end nobody recorded, ended because its connection to a lost node broke. Its
// log must have no line from long after the loss. lost is nil if no node was lost.
func (b *builder) endedWith(lost *finding, e *driverEnd) bool {
	if lost == nil || !connection().MatchString(e.raised.String()) {
		return false
	}
	last, _, _ := b.lastTime(e.log)
	return last-lost.last <= atTheEnd
}

// driverFinding adds the finding about how a driver ended: the surest that is known counts. waited says that the driver
// had waited too long for something.
func (b *builder) driverFinding(j *job, e *driverEnd) (f *finding, waited bool) {
	f = b.neverStarted(j)
	if f == nil && j.supervisorFailed() {
		f = b.supervisorFailed(j, e)
	}
	waited = isTimeout(e.raised)
	switch {
	case f != nil: // the driver did not start, or nobody knows how it ended
	case e.couldNotRun():
		f = b.entrypointMissing(j, e)
	case e.exited && e.code == timedOut && timeoutCommand().MatchString(j.Entrypoint),
		e.signal == "SIGKILL" && j.timeoutKilled():
		waited = true
		f = b.jobFinding(Timeout, j, "Job %s took too long: timeout ended its driver (exit code %d): %s", j.name(),
			e.code, output.Clip(j.Entrypoint, output.MaxTitle))
	case e.signal != "":
		f = b.driverKilled(j, e)
	case e.dump != nil:
		waited = true
		f = b.jobFinding(Timeout, j, "Job %s took too long: faulthandler ended its driver: %s", j.name(),
			e.log.text[e.dump[0]:e.dump[1]])
	case e.hasException():
		f = b.driverRaised(j, e)
	case e.exited:
		f = b.jobFinding(JobFailed, j, "Job %s failed: its entrypoint ended with exit code %d", j.name(), e.code)
		if said := e.lastWords(); said != "" {
			f.Title = fmt.Sprintf("Job %s failed with exit code %d: %s", j.name(), e.code, said)
		}
	case j.Message == moment.EndNotRecorded && e.lastWords() != "":
		f = b.jobFinding(JobFailed, j, "Job %s failed: %s (its exit code was not recorded)", j.name(), e.lastWords())
	default:
		f = b.jobFinding(JobFailed, j, "Job %s failed: %s", j.name(),
			cmp.Or(output.FirstSentence(messageOf(j)), "how it ended was not recorded"))
	}
	return f, waited
}

// neverStarted returns the finding about a job whose driver was not started; nil if it was started, or if Ray does not
// say.
func (b *builder) neverStarted(j *job) (f *finding) {
	env := envFailure(j)
	said, _, _ := strings.Cut(j.Message, logsInMessage) // the rest is the driver's own
	switch {
	case env != "":
		f = b.jobFinding(RuntimeEnv, j, "Job %s could not start: its runtime environment could not be set up: %s",
			j.name(), envReason(env))
	case strings.Contains(j.ErrorType, "UNSCHEDULABLE") || strings.Contains(said, "could not be scheduled"):
		f = b.jobFinding(Unschedulable, j, "Job %s could not start: %s", j.name(), output.FirstSentence(said))
	case strings.Contains(j.ErrorType, "START_TIMEOUT") || strings.Contains(said, "failed to start within"):
		f = b.jobFinding(Timeout, j, "Job %s did not start in time: %s", j.name(), output.FirstSentence(said))
	}
	return f
}

// supervisorFailed reports whether the job failed because the actor that runs its driver failed. Then nobody knows how
// the driver ended, if it did.
func (j *job) supervisorFailed() bool {
	return j.ExitCode == nil && (strings.HasPrefix(j.ErrorType, "JOB_SUPERVISOR_ACTOR_") ||
		strings.HasPrefix(j.Message, "Job supervisor actor died") ||
		strings.HasPrefix(j.Message, "Unexpected error occurred: "))
}

// supervisorFailed adds the finding about a job whose supervisor failed. It clears what was read of the driver's log in
// e, because a traceback there is about something else.
func (b *builder) supervisorFailed(j *job, e *driverEnd) *finding {
	*e = driverEnd{log: e.log, traceAt: -1}
	f := b.jobFinding(JobFailed, j, "Job %s failed because the actor that runs its driver failed: %s", j.name(),
		deathSentence(messageOf(j)))
	f.causedBy(b.lostNodes[b.lostNodeIn(j.Message)])
	return f
}

// messageOf returns Ray's message about a job; only the exception if the message has a traceback.
func messageOf(j *job) string {
	if strings.Contains(j.Message, output.TracebackStart) {
		return cmp.Or(output.ExceptionOf(j.Message).String(), j.Message)
	}
	return j.Message
}

// envFailure returns Ray's text that a job did not start because of its runtime environment; "" if it does not say so.
func envFailure(j *job) string {
	if strings.Contains(j.ErrorType, "RUNTIME_ENV") || strings.HasPrefix(j.Message, "runtime_env setup failed") {
		return j.Message
	}
	return ""
}

// driverKilled adds the finding about a driver that a signal ended. What the log says of a crash belongs to that end
// only if it stands behind the last traceback.
func (b *builder) driverKilled(j *job, e *driverEnd) *finding {
	f := b.jobFinding(DriverKilled, j, "The driver of job %s was ended by %s (%sexit code %d)", j.name(), e.signal,
		limits[e.signal], e.code)
	if said, at := output.Crash(e.log.text); said != "" && at > e.traceAt {
		f.Title += ": " + said
	} else if said = e.lastPrinted(); said != "" {
		f.Title += lastPrinted + said
	}
	if signal, at := output.Signal(e.log.text); signal != "" {
		from, to := e.log.lineBounds(at)
		f.addEvidence(b.evidence(e.log, from, to))
	}
	if e.hasException() && output.FromModule(e.trace) && slices.Contains(ofCrashes, e.signal) {
		f.appendTitle(beforeThat + "it raised " + e.raised.String())
	}
	return f
}

// limits says which limit of a process the kernel had enforced by a signal.
var limits = map[string]string{"SIGXCPU": "CPU time limit exceeded, ", "SIGXFSZ": "File size limit exceeded, "}

// driverRaised returns the finding about a driver whose log has an exception. If the exit code or a later error shows
// that the driver may have gone on, the title does not say that the exception ended it.
func (b *builder) driverRaised(j *job, e *driverEnd) *finding {
	kind := JobFailed
	switch {
	case isTimeout(e.raised):
		kind = Timeout
	case e.raised.Type == "ObjectStoreFullError" || e.raised.Type == "OutOfDiskError":
		kind = ObjectStore
	case e.raised.Type == "RuntimeEnvSetupError":
		kind = RuntimeEnv
	}
	f := b.jobFinding(kind, j, "Job %s failed: %s", j.name(), b.whoRaised(j, e))
	f.raised, f.handled = e.raised, output.Handled(e.trace)
	if e.raised.More > 0 {
		f.Title += fmt.Sprintf(" and %d more in its group", e.raised.More)
	}
	if outer := e.outer; outer.Type != "" {
		outer.Rest = "" // it repeats what the process said
		f.Title = fmt.Sprintf("Job %s failed: a process that its driver ran raised %s; then the driver raised %s",
			j.name(), e.raised, output.Clip(outer.String(), output.MaxMessage))
	}
	switch {
	case e.aftermath > endedByIt && e.laterError != "":
		f.Title = fmt.Sprintf("Job %s failed with exit code %d: %s; the last exception in its log is %s", j.name(),
			e.code, e.laterError, e.raised)
	case e.aftermath > endedByIt && (e.code != uncaught || e.aftermath != loggedIt):
		f.Title = fmt.Sprintf("Job %s failed: its driver ended with exit code %d; the last exception in its log is %s",
			j.name(), e.code, e.raised)
	}
	return f
}

// whoRaised says, for a title, who raised the exception that ended a driver, and which: the driver itself, or the task,
// trial or rank that it had waited for.
func (b *builder) whoRaised(j *job, e *driverEnd) string {
	function := e.raised.Function
	if e.rank != "" {
		run := "its Train run"
		if name := b.trainRuns[j.id]; name != "" {
			run = "Train run " + name
		}
		if wrappers[e.raised.Type] {
			return fmt.Sprintf("%s failed: %s", run, e.rankReason)
		}
		return fmt.Sprintf("rank %s of %s raised %s", e.rank, run, e.raised)
	}
	if trial := trialOf(e.trace); trial != "" {
		return fmt.Sprintf("a Tune trial of %s raised %s", trial, e.raised)
	}
	if function == "" || e.raised.Type == "TaskCancelledError" || !strings.Contains(e.trace, "ray::") {
		return fmt.Sprintf("its driver raised %s", e.raised)
	}
	return fmt.Sprintf("%s raised %s", output.Clip(function, output.MaxMessage), e.raised)
}

// tracebackEvidence returns the driver's log from its last traceback to the end, without lines that workers printed. If
// a record in JSON has the traceback, the evidence begins with the record.
func (b *builder) tracebackEvidence(e *driverEnd) Evidence {
	shown := b.evidence(e.log, e.log.recordStart(e.traceAt), len(e.log.text))
	shown.Text = output.OwnLines(shown.Text)
	return shown
}

// showEnd adds the end of the driver's log to the evidence: from the dump or the last traceback on, or else its last
// lines.
func (b *builder) showEnd(f *finding, e *driverEnd) {
	switch {
	case e.dump != nil:
		f.addEvidence(b.evidence(e.log, e.dump[0], len(e.log.text)))
	case e.traceAt > 0 && e.aftermath > endedByIt:
		from, _ := e.log.lineBounds(e.traceAt - 1) // the line before has the message with which it was logged
		f.addEvidence(b.evidence(e.log, from, len(e.log.text)))
	case e.traceAt >= 0:
		f.addEvidence(b.tracebackEvidence(e))
	case e.log.text != "":
		if said, at := output.Crash(e.log.text); said != "" && at < e.log.lastLinesStart(driverTail) {
			f.addEvidence(b.evidence(e.log, at, len(e.log.text)))
			return
		}
		f.addEvidence(b.tailEvidence(e.log, driverTail))
	}
}

// showStatus adds what Ray says about a job to the evidence. If the job's log is stored, which is shown already, the
// lines of it in Ray's message are left out.
func (b *builder) showStatus(f *finding, j *job, log *logText) {
	message := j.Message
	if log.text != "" {
		message, _, _ = strings.Cut(message, logsInMessage)
	}
	f.addEvidence(b.jobEvidence(j, message))
}

var (
	// notFound matches what shells and Python print if an entrypoint does not exist or cannot be executed.
	notFound = lazyregexp.New(`(?m)^.*(?:command not found|: not found$|No such file or directory|can't open file|` +
		`cannot open|cannot execute|Exec format error|[Pp]ermission denied|` +
		`is not recognized as|No module named|can't find '__main__').*$`)
	// noScript matches what Python and sh print if the script that they should run does not exist. Their exit code is
	// then 1 or 2, as after many other failures.
	noScript = lazyregexp.New(`(?m)^\S*python[\d.]*: (?:can't open file|can't find '__main__'|No module named|` +
		`Error while finding module specification) ?.*$|^\S*sh: \d+: cannot open .*$`)
)

// couldNotRun reports whether a driver ended because its entrypoint could not be run, as its exit code or the end of
// its log says.
func (e *driverEnd) couldNotRun() bool {
	if !e.exited {
		return false
	}
	if e.code == commandNotFound && !notFound().MatchString(e.log.text) && e.lastWords() != "" {
		return false // a shell also ends with it for others of its own errors, such as a variable that is not set
	}
	const maxBelow = 5 // lines from the one that says so to the end of the log
	return e.code == commandNotFound || e.code == notExecutable || e.traceAt < 0 &&
		noScript().MatchString(e.log.text[e.log.lastLinesStart(maxBelow):])
}

// entrypointMissing adds the finding about an entrypoint that could not be run. Its title has the last line of the log
// that says so, or else the entrypoint.
func (b *builder) entrypointMissing(j *job, e *driverEnd) *finding {
	said, shown := j.Entrypoint, Evidence{}
	for _, m := range slices.Backward(notFound().FindAllStringIndex(e.log.text, -1)) {
		if line := e.log.text[m[0]:m[1]]; output.OwnLines(line) != "" {
			said, shown = strings.TrimSpace(line), b.evidence(e.log, m[0], m[1])
			break
		}
	}
	if shown.Text == "" {
		said = cmp.Or(e.lastWords(), said) // a shell may say it in another language
	}
	f := b.jobFinding(Entrypoint, j, "The entrypoint of job %s could not be run (exit code %d): %s", j.name(), e.code,
		output.Clip(said, output.MaxTitle))
	f.addEvidence(shown)
	return f
}

// timedOut is the exit code of the command timeout if it ended a program that took too long. timeoutCommand finds this
// command in an entrypoint, timeoutOptions its options and its time with the unit, and timeoutKills the option by which
// it ends a program with SIGKILL, at once or after some more time.
const timedOut = 124

var (
	timeoutCommand = lazyregexp.New(`(?:^|[\s/;&|('"])timeout\s`)
	timeoutOptions = lazyregexp.New(`(?:^|[\s/;&|('"])timeout((?:\s+(?:-[ks]\s*\S+|--(?:signal|kill-after)[= ]\S+|-\S+))+)\s+` +
		`(\d+(?:\.\d+)?)([smhd]?)\s`)
	timeoutKills = lazyregexp.New(`\s(?:(?:-s\s*|--signal[= ])(?:SIG)?(?:KILL|9)\b|-k|--kill-after)`)
)

// timeoutKilled reports whether the command timeout may have ended the job's driver with SIGKILL: the entrypoint tells
// it to use that signal, and the job lasted for the time that the entrypoint gives.
func (j *job) timeoutKilled() bool {
	m := timeoutOptions().FindStringSubmatch(j.Entrypoint)
	if m == nil || !timeoutKills().MatchString(m[1]) || j.Start == 0 {
		return false
	}
	limit, err := strconv.ParseFloat(m[2], 64)
	unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour}[m[3]]
	return err == nil && limit > 0 && float64(j.End-j.Start) >= limit*float64(unit) // 0 is no limit
}
