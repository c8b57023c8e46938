package findings

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Exit codes of drivers: of Python after an exception that the program did not catch, and of shells for a program that
// cannot be executed or is not there.
const (
	uncaught        = 1
	notExecutable   = 126
	commandNotFound = 127
)

// driverEnd says how a driver ended, according to Ray and to the driver's log.
type driverEnd struct {
	code   int64
	exited bool   // code is known
	signal string // by which it ended; "" if by none

	piped   bool // its entrypoint is a pipe
	log     *logText
	traceAt int              // where the log's last traceback begins, -1 if there is none
	trace   string           // the traceback
	raised  output.Exception // the exception of the traceback
	// the driver's own exception, if raised is of a process that the driver ran: it only says that the process failed
	outer output.Exception
	// if what was raised in a worker of Train: its rank, and what Train says of it
	rank, rankReason string

	aftermath  aftermath
	laterError string // the error that it printed after the exception; "" if none

	// where the log says that faulthandler.dump_traceback_later ended the driver; nil if it does not
	dump []int
}

// aftermath says whether a driver went on after the exception in its log, and ended for another reason, as far as its
// exit code and its log tell.
type aftermath int

const (
	endedByIt aftermath = iota // the exception ended it
	// Another exit code than that of an exception, or an error behind one that the module did not catch, may be of a
	// shell: python train.py || exit 3.
	mayHaveGoneOn
	wentOn   // another program of the entrypoint followed, or an error behind the traceback of a function
	loggedIt // a record of a log has the traceback
)

// dumpedLater matches what faulthandler.dump_traceback_later prints before its stacks.
var dumpedLater = lazyregexp.New(`(?m)^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$`)

// driverEndOf reads how a driver ended from its exit code and its log. The last traceback in the log counts.
// A dump of faulthandler behind it counts only if the driver ended with the dump's exit code.
func (b *builder) driverEndOf(j *job, log *logText) (e driverEnd) {
	e = driverEnd{log: log, piped: strings.Contains(j.Entrypoint, "|")}
	if e.exited = j.ExitCode != nil; e.exited {
		e.code = pyjson.Obj("code", j.ExitCode).Int("code")
	}
	e.signal = signalOf(e.code)
	e.trace, e.traceAt = output.LastTraceback(log.text)
	e.trace = output.OwnLines(e.trace)
	caught := output.CaughtAtEnd(log.text)                      // Ray's handler of SIGTERM exits with 15 or aborts
	ofChild := e.code == uncaught && output.FromModule(e.trace) // a process that the driver had started, and ended
	if e.exited && strings.HasPrefix(caught, "SIG") && (e.signal == "" || e.signal == "SIGABRT") && !ofChild {
		e.signal = caught
	}
	e.raised = output.ExceptionOf(e.trace)
	e.takeProcessException()
	e.takeRankException(b.loggedBy(j.id, "", j.End))
	e.takeEnvException()
	e.readLater()
	if dump := dumpedLater().FindStringIndex(log.text); dump != nil && dump[0] > e.traceAt && e.exited &&
		e.code == uncaught {
		e.dump = dump
	}
	return e
}

const (
	maxBetween   = 16 << 10 // bytes between the traceback of a process and the later one of what ran it
	maxProcesses = 4        // processes that run each other
)

// takeProcessException replaces an exception that only says that a process failed, or only refers to an error above, by
// the one that this process raised, if the log has it above. What is above a reference may be of any process: it counts
// if it has the mark of one that the program itself started.
func (e *driverEnd) takeProcessException() {
	for range maxProcesses { // a process may have run another one
		ofProcess := ofProcesses().MatchString(e.raised.Type)
		if !ofProcess && !output.ToldAbove(e.raised.String()) {
			return
		}
		text, at := output.LastTraceback(e.log.text[:e.traceAt])
		raised := output.ExceptionOf(text)
		if at < 0 || e.traceAt-at > maxBetween || raised.Type == "" ||
			!ofProcess && !output.OfOwnProcess(e.log.text[at:]) {
			return
		}
		if e.outer.Type == "" {
			e.outer = e.raised
		}
		e.raised, e.trace, e.traceAt = raised, text+e.trace, at
	}
}

// workerErrors begins Train's message about all ranks that failed.
const workerErrors = "Training failed due to worker errors:"

// takeRankException replaces an exception that Train raised over those of its workers by the one of the rank whose
// failure is the cause of the others. It does nothing if the traceback begins in the driver's module and names no rank:
// then the exception is the driver's own. logged returns the exception that a rank's own log has.
func (e *driverEnd) takeRankException(logged func(rank string) output.Exception) {
	if e.traceAt < 0 || output.FromModule(e.trace) && !strings.Contains(e.trace, ofRanks) {
		return
	}
	from := max(0, e.traceAt-(1<<10)) // the lines above tell of ranks, or Train's message about all of them
	if all := strings.LastIndex(e.log.text[:e.traceAt], workerErrors); all >= 0 && e.traceAt-all <= maxBetween {
		from = all
	}
	first := firstRankFailure(e.log.text[from:], logged)
	e.rank, e.rankReason = first.rank, first.reason()
	if first.rank != "" && first.raised.Type != "" && !wrappers[first.raised.Type] {
		e.raised = first.raised
	}
}

// lastWords returns the line of the log that says best why the entrypoint ended; "" if the log has none.
func (e *driverEnd) lastWords() string { return output.LastWords(e.log.text) }

// message returns what the program said about its end: its exception's message, or without an exception its last words.
func (e *driverEnd) message() string {
	if e.raised.Type == "" {
		return cmp.Or(e.laterError, e.lastWords())
	}
	return e.raised.Message + " " + e.raised.Rest
}

// hasException reports whether the log has a traceback with an exception. Whether that ended the driver says aftermath.
func (e *driverEnd) hasException() bool { return e.traceAt >= 0 && e.raised.Type != "" }

// trimmed begins the line above a traceback that ended a program, of which hydra leaves out the first frames.
const trimmed = "Error executing job with overrides"

// readLater sets aftermath and laterError: whether the exception of the last traceback ended the driver, and which
// error the driver printed after it. It decides by the exit code, the line above the traceback, the traceback's first
// frame, and what was printed behind it. If no heading stands above a traceback that begins in a function, the program
// printed it, unless it may be a part of the message of another traceback.
func (e *driverEnd) readLater() {
	if e.traceAt < 0 || !e.exited {
		return
	}
	from, to := e.log.lineBounds(max(0, e.traceAt-1))
	heading := e.log.text[from:min(to, from+logline.MaxHeader, e.traceAt)]
	recorded := output.RecordLevel(heading) >= logline.Warning // the traceback is a part of a record of a log
	behind, ofFunction := output.Behind(e.trace, e.raised), !output.FromModule(e.trace)
	printed := strings.HasPrefix(e.log.text[e.traceAt:], output.TracebackStart) && e.outer.Type == "" &&
		!strings.HasPrefix(heading, trimmed) && !strings.HasSuffix(heading, ":") &&
		!strings.Contains(e.log.text[:e.traceAt], ", in <module>\n")
	e.laterError = cmp.Or(output.LastCrash(behind), output.LastError(behind))
	_, next, _ := strings.Cut(behind, output.Connected)
	_, next, _ = strings.Cut(next, "\n")
	said := output.LastWords(next) // a thread that connects once more as the program ends prints nothing
	switch {
	case said != "": // another program connected to Ray after it
		e.laterError, e.aftermath = cmp.Or(e.laterError, said), wentOn
	case e.code != uncaught, output.LogsError(behind), recorded && (e.laterError != "" || ofFunction):
		e.aftermath = mayHaveGoneOn
	case printed && ofFunction && !recorded:
		// a line that is no error shows, too, that the program went on
		if e.laterError = output.LastErrorOrLine(behind); e.laterError != "" {
			e.aftermath = wentOn
		}
	}
	if e.outer.Type != "" {
		e.laterError = "" // the driver's own traceback follows
	}
	switch {
	case e.aftermath == endedByIt:
	case recorded:
		e.aftermath = loggedIt
	case e.laterError != "" && ofFunction:
		e.aftermath = wentOn
	}
}

// wasHandled reports whether the log shows that the driver handled the exception and went on.
func (e *driverEnd) wasHandled() bool { return e.aftermath >= wentOn }

// earlierError returns the error that the entrypoint printed, or handled, before the one that ended it; "" if there is
// none, or if the one that ended it explains itself. title is the title of the finding about it. An error explains
// itself if it is an exception whose message is not about failures, missing things or a process's exit status. An
// exception that ended another program of the entrypoint, as in a pipe, is returned in any case.
func (e *driverEnd) earlierError(title string) string {
	switch {
	case !e.exited || e.signal != "" && !strings.Contains(title, lastPrinted),
		e.code == notExecutable, e.code == commandNotFound: // what a shell does not find is missing from the machine
		return ""
	case e.signal != "":
		return output.ErrorBefore(output.BeforeSignal(e.log.text), title)
	case e.traceAt < 0:
		crash, _ := output.Crash(e.log.text)
		switch {
		case !strings.Contains(title, crash):
			return crash // the title has what was printed behind it
		case crash != "", output.ExceptionOf(e.lastWords()).Type != "":
			return ""
		}
		return output.ErrorBefore(e.log.text, title)
	case e.wasHandled():
		return ""
	}
	if other := output.EndOfAnother(e.log.text, e.traceAt); other.Type != "" && !other.Same(e.raised) {
		return other.String()
	}
	onlyStatus := output.OnlyStatus(e.raised.String())
	saysLittle := ownBugs[e.raised.Type] || isGeneric(e.raised) ||
		tellsOfOthers(e.raised, e.message()) || toldElsewhere().MatchString(e.raised.String()) || onlyStatus
	if saysLittle || output.CleaningFailed(e.trace) {
		handled := output.Handled(e.trace)
		if handled.Message != "" && !strings.Contains(title, handled.Message) {
			return handled.String()
		}
	}
	before, above := "", e.log.text[:e.traceAt]
	if at := strings.LastIndex(above, workerErrors); e.rank != "" && at >= 0 {
		from, _ := e.log.lineBounds(at)
		above = above[:from]
	}
	if saysLittle {
		before = output.ErrorBefore(above, title)
	}
	if before == "" && (foundNothing(e.raised) || e.raised.Type == "ZeroDivisionError") {
		before = output.LastWarning(above)
	}
	// The process, or the one that did not read a pipe to its end, may have said why in words that are no error.
	if before == "" && (onlyStatus || e.piped && e.raised.Type == "BrokenPipeError") {
		before = output.LastErrorOrLine(above)
	}
	return before
}

// ofCrashes are the signals by which a process ends itself, as it may do while an exception ends it.
var ofCrashes = []string{"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"}

// lastPrinted is how a title goes on with what a process printed last.
const lastPrinted = "; the last it printed: "

// lastPrinted returns the error that a driver printed before a signal ended it; "" if it printed none. If the driver
// crashed, that is an error among its last lines behind its exception; if another process sent the signal, only its
// last line counts.
func (e *driverEnd) lastPrinted() string {
	text, crashed := e.log.text, slices.Contains(ofCrashes, e.signal)
	if crashed && e.hasException() {
		text = output.Behind(e.trace, e.raised)
	}
	if _, at := output.Signal(text); at >= 0 && crashed {
		text = text[:at]
	}
	if above := output.BeforeSignal(text); crashed || output.EndsInError(above) {
		return output.LastError(above)
	} else if last := output.LastErrorOrLine(above); endsProcess().MatchString(last) &&
		above != strings.TrimRight(text, "\r\n ") {
		return last // of the script that sent the signal
	}
	return ""
}

// endsProcess matches what a script says that ends a process of its own: "no checkpoint for 30 min, stopping pid 431".
var endsProcess = lazyregexp.New(`(?i)\b(?:kill|stopp|end|terminat|abort)ing\b`)

// signalOf returns the signal that an exit code stands for, such as "SIGKILL"; "" if it stands for none. Python gives
// such codes below 0, shells above 128.
func signalOf(code int64) string {
	if code > 128 {
		code = 128 - code
	}
	return map[int64]string{-1: "SIGHUP", -2: "SIGINT", -3: "SIGQUIT", -4: "SIGILL", -5: "SIGTRAP", -6: "SIGABRT",
		-7: "SIGBUS", -8: "SIGFPE", -9: "SIGKILL", -10: "SIGUSR1", -11: "SIGSEGV", -12: "SIGUSR2", -13: "SIGPIPE",
		-14: "SIGALRM", -15: "SIGTERM", -24: "SIGXCPU", -25: "SIGXFSZ", -31: "SIGSYS"}[code]
}
