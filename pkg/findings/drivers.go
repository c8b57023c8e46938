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
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

var (
	// notFound matches what shells and Python print if an entrypoint does not exist or cannot be executed.
	notFound = lazyregexp.New(`(?m)^.*(?:command not found|: not found$|No such file or directory|can't open file|cannot open|cannot execute|[Pp]ermission denied|` +
		`is not recognized as|No module named|can't find '__main__').*$`)
	// noScript matches what Python and sh print if the script that they should run does not exist. Their exit code is
	// then 1 or 2, as after many other failures.
	noScript    = lazyregexp.New(`(?m)^\S*python[\d.]*: (?:can't open file|can't find '__main__'|No module named|Error while finding module specification) ?.*$|^\S*sh: \d+: cannot open .*$`)
	dumpedLater = lazyregexp.New(`(?m)^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$`)
)

// driverEnd says how a driver ended, according to Ray and to the driver's log.
type driverEnd struct {
	code   int64
	exited bool   // code is known
	signal string // by which it ended; "" if by none

	log    *logText         // nil if there is none
	at     int              // where the log's last traceback begins, -1 if there is none
	trace  string           // the traceback
	raised output.Exception // the exception of the traceback
	// the driver's own exception, if raised is of a process that the driver ran: it only says that this process failed
	by    output.Exception
	rank  string // if what was raised in a worker of Train: its rank
	ranks int    // where the log tells of the ranks that failed

	// the driver handled the exception and ended for another reason, as far as its code and its log tell
	wentOn   bool
	later    string // the error that it printed after the exception; "" if none
	logged   bool   // the traceback belongs to a record of a log
	replaced bool   // another program of the entrypoint connected to Ray after it, and printed something

	// where the log says that faulthandler.dump_traceback_later ended the driver; nil if it does not
	dump []int
}

// driverEndOf reads how a driver ended from its exit code and its log, if there is one. What the log says last counts:
// a traceback or an exception group. A dump after it counts only if the driver ended with the dump's exit code.
func driverEndOf(j *job, log *logText) (e driverEnd) {
	e = driverEnd{log: log, at: -1}
	if e.exited = j.ExitCode != nil; e.exited {
		e.code = pyjson.Obj("code", j.ExitCode).Int("code")
	}
	e.signal = signalOf(e.code)
	if log == nil {
		return e
	}
	e.trace, e.at = output.LastTraceback(log.text)
	e.trace = output.OwnLines(e.trace)
	e.raised = output.ExceptionOf(e.trace)
	e.ofProcess()
	e.ofRank()
	if group, from := output.LastGroup(log.text); from > e.at {
		e.raised, e.at, e.trace = group, from, log.text[from:]
	}
	e.readLater()
	if dump := dumpedLater().FindStringIndex(log.text); dump != nil && dump[0] > e.at && e.exited &&
		e.code == uncaught {
		e.dump = dump
	}
	return e
}

const (
	maxBetween   = 16 << 10 // bytes between the traceback of a process and the later one of what ran it
	maxProcesses = 4        // processes that run each other
)

// ofProcess looks at an exception that only says that a process failed. It replaces it by the exception that the
// process raised, if the log has that.
func (e *driverEnd) ofProcess() {
	for range maxProcesses {
		failed, above := ofProcesses().MatchString(e.raised.Type), toldAbove().MatchString(e.raised.String())
		if !failed && !above {
			return
		}
		text, at := output.LastTraceback(e.log.text[:e.at])
		raised := output.ExceptionOf(text)
		if at < 0 || e.at-at > maxBetween || raised.Type == "" || !failed && !output.OfOwnProcess(e.log.text[at:]) {
			return
		}
		if e.by.Type == "" {
			e.by = e.raised
		}
		e.raised, e.trace, e.at = raised, text+e.trace, at
	}
}

// ofRank looks at an exception that Train raised over those of its workers. Of several the one is taken that is the
// cause of the others.
func (e *driverEnd) ofRank() {
	if e.at < 0 {
		return
	}
	e.ranks = max(0, e.at-(1<<10))
	if all := strings.LastIndex(e.log.text[:e.at], "Training failed due to worker errors:"); all >= 0 &&
		e.at-all <= maxBetween {
		e.ranks = all
	}
	r := firstRank(e.log.text[e.ranks:])
	e.rank = r.rank
	if r.rank != "" && r.raised.Type != "" && !wrappers[r.raised.Type] {
		e.raised = r.raised
	}
}

// missing reports whether the entrypoint could not be run.
func (e *driverEnd) missing() bool {
	if !e.exited {
		return false
	}
	if e.code == 127 && e.log != nil && !notFound().MatchString(e.log.text) && e.lastWords() != "" {
		return false // a shell also ends with it for others of its own errors, such as a variable that is not set
	}
	return e.code == 127 || e.code == 126 || e.at < 0 && e.log != nil &&
		noScript().MatchString(e.log.text[e.log.lastLines(5):])
}

// lastWords returns what the entrypoint printed about its end; "" if the log has nothing of it.
func (e *driverEnd) lastWords() string {
	if e.log == nil {
		return ""
	}
	return output.LastWords(e.log.text)
}

// said returns what the program said of its end: its exception's message, or else its last words.
func (e *driverEnd) said() string {
	if e.raised.Type == "" {
		return cmp.Or(e.later, e.lastWords())
	}
	return e.raised.Message + " " + e.raised.Rest
}

// hasException reports whether the log has a traceback with an exception: it ended the driver, or is at least the last
// one in the log.
func (e *driverEnd) hasException() bool { return e.at >= 0 && e.raised.Type != "" }

// driverFailed adds the finding about a failed submission.
func (b *builder) driverFailed(j *job, log *logText) {
	stored := j
	if !jobstatus.Ended(j.Status) { // the head was lost before it could record the end
		ended := *j
		ended.Status, ended.End = jobstatus.Failed, cmp.Or(j.End, b.until(log))
		j = &ended
	}
	e := driverEndOf(j, log)
	if j.Message == moment.EndNotRecorded && e.by.Type == "" && output.LogsError(output.Behind(e.trace, e.raised)) {
		e = driverEnd{log: log, at: -1} // it went on after the exception: its last words made it a failure
	}
	f, waited := b.driverFinding(j, &e)
	f.earlierError, f.silent = e.earlierError(f.Title), e.said() == ""
	b.showEnd(f, &e)
	logged := len(f.Evidence) > 0
	b.showStatus(f, stored, logged)
	b.linkDriver(f, j, &e)
	// With a node's raylet end its servers, and whoever records how its drivers end.
	if lost := b.lost[j.Node]; len(f.because) == 0 && !jobstatus.Ended(stored.Status) && b.endedWith(lost, &e) {
		f.causedBy(lost)
	}
	if len(f.because) > 0 {
		b.tellLeftBehind(f, j, &e)
		return
	}
	b.showLookedUp(f)
	if waited || f.Kind == JobFailed {
		b.linkUndone(f, j, &e, waited)
	}
}

// connection matches exceptions about a connection that was refused or lost.
var connection = lazyregexp.New(`^(?:\w*Connect(?:ion\w*|or)?Error|ConnectionClosed\w*|BrokenPipeError|\w*RpcError)\b|` +
	`(?i:\bconnection (?:was |is |has been )?(?:refused|reset|closed|lost|aborted)\b|\bbroken pipe\b)`)

// endedWith reports whether a driver, whose end nobody recorded, ended because of a connection, and its log has no time
// that is long after its node was lost.
func (b *builder) endedWith(lost *finding, e *driverEnd) bool {
	if lost == nil || e.log == nil || !connection().MatchString(e.raised.String()) {
		return false
	}
	last, _, _ := b.lastTime(e.log)
	return last-lost.last <= atTheEnd
}

// driverFinding adds the finding about how a driver ended. waited says that it had waited for too long.
func (b *builder) driverFinding(j *job, e *driverEnd) (f *finding, waited bool) {
	f = b.neverStarted(j, e)
	if f == nil && j.supervisorFailed() {
		f = b.supervisorFailed(j, e)
	}
	waited = isTimeout(e.raised)
	switch {
	case f != nil:
	case e.missing():
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

// trimmed begins the line above a traceback that ended a program, of which hydra leaves out the first frames.
const trimmed = "Error executing job with overrides"

// readLater finds out whether the exception of the last traceback ended the driver: from its exit code, the heading and
// the first frame of the traceback, and what the driver printed after it. Without a heading, a first frame of a
// function shows that a program printed it, unless the traceback may be a part of another one's message.
func (e *driverEnd) readLater() {
	if e.at < 0 || !e.exited {
		return
	}
	from, to := e.log.line(max(0, e.at-1))
	heading := e.log.text[from:min(to, from+logline.MaxHeader, e.at)]
	e.logged = !output.OfRay(heading) && logline.Parse([]byte(heading), &logline.Clock{}).Level >= logline.Warning
	after := output.Behind(e.trace, e.raised)
	printed := strings.HasPrefix(e.log.text[e.at:], output.TracebackStart) && e.by.Type == "" &&
		!strings.HasPrefix(heading, trimmed) && !strings.HasSuffix(heading, ":") &&
		!strings.Contains(e.log.text[:e.at], ", in <module>\n")
	e.later = cmp.Or(output.LastCrash(after), output.LastError(after))
	_, next, _ := strings.Cut(after, connected)
	_, next, _ = strings.Cut(next, "\n")
	said := output.LastWords(next) // a thread that connects once more as the program ends prints nothing
	switch e.replaced = said != ""; {
	case e.replaced:
		e.later, e.wentOn = cmp.Or(e.later, said), true
	case e.code != uncaught, output.LogsError(after):
		e.wentOn = true
	case e.logged:
		e.wentOn = e.later != "" || !output.FromModule(e.trace)
	case printed && !output.FromModule(e.trace):
		e.later = output.LastErrorOrLine(after) // a line shows, too, that something was printed after it
		e.wentOn = e.later != ""
	}
	if e.by.Type != "" {
		e.later = "" // the driver's own traceback follows
	}
}

// handled reports whether the log shows that the driver handled the exception: a record has it, another program
// followed, or an error was printed behind the traceback of a function. An exit code alone, and an error behind an
// exception that the module did not catch, may be of a shell: python train.py || exit 3.
func (e *driverEnd) handled() bool {
	return e.wentOn && (e.logged || e.replaced || e.later != "" && !output.FromModule(e.trace))
}

// earlierError returns the error that the entrypoint printed, or handled, before the one that ended it, if that one
// says little: words that are no exception, an exception with words about failures, or about something that was not
// there. The exception that ended another of its programs, as in a pipe, counts in any case. title is of the finding
// about it. It returns "" if there is none.
func (e *driverEnd) earlierError(title string) string {
	switch {
	case e.log == nil || !e.exited || e.signal != "" && !strings.Contains(title, lastPrinted):
		return ""
	case e.signal != "":
		return output.ErrorBefore(output.BeforeSignal(e.log.text), title)
	case e.at < 0:
		crash, _ := output.Crash(e.log.text)
		switch {
		case !strings.Contains(title, crash):
			return crash // the title has what was printed behind it
		case crash != "", output.ExceptionOf(e.lastWords()).Type != "":
			return ""
		}
		return output.ErrorBefore(e.log.text, title)
	case e.handled():
		return ""
	}
	if other := output.EndOfAnother(e.log.text, e.at); other.Type != "" && !other.Same(e.raised) {
		return other.String()
	}
	if !ownBugs[e.raised.Type] && !general().MatchString(e.raised.Type) && !tellsOfOthers(e.raised, e.said()) &&
		!toldElsewhere().MatchString(e.raised.String()) {
		return ""
	}
	if handled := output.Handled(e.trace); handled.Message != "" && !strings.Contains(title, handled.Message) {
		return handled.String()
	}
	return output.ErrorBefore(e.log.text[:e.at], title)
}

// neverStarted returns the finding about a job whose driver was not started; nil if it was started.
func (b *builder) neverStarted(j *job, e *driverEnd) (f *finding) {
	env := envFailure(j, e.log)
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

// supervisorFailed adds the finding about a job whose supervisor failed. A traceback in the driver's log is about
// something else.
func (b *builder) supervisorFailed(j *job, e *driverEnd) *finding {
	*e = driverEnd{log: e.log, at: -1}
	f := b.jobFinding(JobFailed, j, "Job %s failed because the actor that runs its driver failed: %s", j.name(),
		deathSentence(messageOf(j)))
	f.causedBy(b.lost[b.lostNodeIn(j.Message)])
	return f
}

// messageOf returns Ray's message about a job. If it contains a traceback, it returns the exception.
func messageOf(j *job) string {
	if strings.Contains(j.Message, output.TracebackStart) {
		return cmp.Or(output.ExceptionOf(j.Message).String(), j.Message)
	}
	return j.Message
}

// entrypointMissing adds the finding about an entrypoint that could not be run, with the last line that says so.
func (b *builder) entrypointMissing(j *job, e *driverEnd) *finding {
	said, shown := j.Entrypoint, Evidence{}
	if e.log != nil {
		for _, m := range slices.Backward(notFound().FindAllStringIndex(e.log.text, -1)) {
			if line := e.log.text[m[0]:m[1]]; output.OwnLines(line) != "" {
				said, shown = strings.TrimSpace(line), b.evidence(e.log, m[0], m[1])
				break
			}
		}
	}
	f := b.jobFinding(Entrypoint, j, "The entrypoint of job %s could not be run (exit code %d): %s", j.name(), e.code,
		output.Clip(said, output.MaxTitle))
	f.addEvidence(shown)
	return f
}

// ofCrashes are the signals by which a process ends itself, as it may do while an exception ends it.
var ofCrashes = []string{"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"}

// driverKilled adds the finding about a driver that a signal ended. What the log says of a crash ended the driver only
// if it stands behind the last traceback.
func (b *builder) driverKilled(j *job, e *driverEnd) *finding {
	f := b.jobFinding(DriverKilled, j, "The driver of job %s was ended by %s (exit code %d)", j.name(), e.signal,
		e.code)
	if e.log != nil {
		if said, at := output.Crash(e.log.text); said != "" && at > e.at {
			f.Title += ": " + said
		} else if said = e.lastPrinted(); said != "" {
			f.Title += lastPrinted + said
		}
		if signal, at := output.Signal(e.log.text); signal != "" {
			from, to := e.log.line(at)
			f.addEvidence(b.evidence(e.log, from, to))
		}
		if e.hasException() && output.FromModule(e.trace) && slices.Contains(ofCrashes, e.signal) {
			f.goOn(beforeThat + "it raised " + e.raised.String())
		}
	}
	return f
}

// lastPrinted is how a title goes on with what a process printed last.
const lastPrinted = "; the last it printed: "

// lastPrinted returns the error that a driver printed before a signal ended it: one among its last few lines if it
// crashed, behind what it raised, or else its last line. It returns "" if there is none.
func (e *driverEnd) lastPrinted() string {
	text, crashed := e.log.text, slices.Contains(ofCrashes, e.signal)
	if crashed && e.hasException() {
		text = output.Behind(e.trace, e.raised)
	}
	if _, at := output.Signal(text); at >= 0 && crashed {
		text = text[:at]
	}
	if text = output.BeforeSignal(text); !crashed && !output.EndsInError(text) {
		return ""
	}
	return output.LastError(text)
}

// driverRaised is the finding about a driver whose log has an exception. With another exit code than that of an
// exception that nobody caught, or an error that was logged later, the title does not say that the exception ended it.
func (b *builder) driverRaised(j *job, e *driverEnd) *finding {
	kind := JobFailed
	switch {
	case isTimeout(e.raised):
		kind = Timeout
	case e.raised.Type == "ObjectStoreFullError" || e.raised.Type == "OutOfDiskError":
		kind = ObjectStore
	}
	f := b.jobFinding(kind, j, "Job %s failed: %s", j.name(), b.raised(j, e))
	f.raised, f.handled = e.raised, output.Handled(e.trace)
	if e.raised.More > 0 {
		f.Title += fmt.Sprintf(" and %d more in its group", e.raised.More)
	}
	if e.by.Type != "" {
		e.by.Rest = "" // it repeats what the process said
		f.Title = fmt.Sprintf("Job %s failed: a process that its driver ran raised %s; then the driver raised %s",
			j.name(), e.raised, output.Clip(e.by.String(), output.MaxMessage))
	}
	switch {
	case e.wentOn && e.later != "":
		f.Title = fmt.Sprintf("Job %s failed with exit code %d: %s; the last exception in its log is %s", j.name(),
			e.code, e.later, e.raised)
	case e.wentOn && (e.code != uncaught || !e.logged):
		f.Title = fmt.Sprintf("Job %s failed: its driver ended with exit code %d; the last exception in its log is %s",
			j.name(), e.code, e.raised)
	}
	return f
}

// evidenceOf returns the driver's log from its last traceback to the end, without lines that workers printed. Of a
// record in JSON that has the traceback it is all.
func (b *builder) evidenceOf(e *driverEnd) Evidence {
	shown := b.evidence(e.log, e.log.recordStart(e.at), len(e.log.text))
	shown.Text = output.OwnLines(shown.Text)
	return shown
}

// showEnd adds the end of the driver's log to the evidence.
func (b *builder) showEnd(f *finding, e *driverEnd) {
	switch {
	case e.dump != nil:
		f.addEvidence(b.evidence(e.log, e.dump[0], len(e.log.text)))
	case e.at > 0 && e.wentOn: // the program logged the traceback, with its message in the line before
		from, _ := e.log.line(e.at - 1)
		f.addEvidence(b.evidence(e.log, from, len(e.log.text)))
	case e.at >= 0:
		f.addEvidence(b.evidenceOf(e))
	case e.log != nil && e.log.text != "":
		if said, at := output.Crash(e.log.text); said != "" && at < e.log.lastLines(12) {
			f.addEvidence(b.evidence(e.log, at, len(e.log.text)))
			return
		}
		f.addEvidence(b.evidence(e.log, e.log.lastLines(12), len(e.log.text)))
	}
}

// showStatus adds what Ray says about a job to the evidence, without the lines of its log if the log is shown already.
func (b *builder) showStatus(f *finding, j *job, logged bool) {
	message := j.Message
	if logged {
		message, _, _ = strings.Cut(message, logsInMessage)
	}
	f.addEvidence(b.jobEvidence(j, message))
}

// envFailure returns the text that says that a job did not start because of its runtime environment; "" if there is
// none.
func envFailure(j *job, log *logText) string {
	const begins = "runtime_env setup failed"
	if strings.Contains(j.ErrorType, "RUNTIME_ENV") || strings.HasPrefix(j.Message, begins) {
		return j.Message
	}
	if log != nil {
		if at := strings.Index(log.text, "\n"+begins); at >= 0 {
			return log.text[at:]
		}
	}
	return ""
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

// timeoutKilled reports whether it may have been timeout that ended the job's driver with SIGKILL: it was told to, and
// its time was over.
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

// uncaught is Python's exit code after an exception that the program did not catch.
const uncaught = 1

// signalOf returns the signal that an exit code stands for; "" if it stands for none. Such codes are below 0 in Python
// and above 128 in shells.
func signalOf(code int64) string {
	if code > 128 {
		code = 128 - code
	}
	return map[int64]string{-1: "SIGHUP", -2: "SIGINT", -3: "SIGQUIT", -4: "SIGILL", -5: "SIGTRAP", -6: "SIGABRT",
		-7: "SIGBUS", -8: "SIGFPE", -9: "SIGKILL", -10: "SIGUSR1", -11: "SIGSEGV", -12: "SIGUSR2", -13: "SIGPIPE",
		-14: "SIGALRM", -15: "SIGTERM", -24: "SIGXCPU", -25: "SIGXFSZ", -31: "SIGSYS"}[code]
}
