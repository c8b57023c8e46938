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

// uncaught is Python's exit code after an exception that the program did not catch.
const uncaught = 1

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

	after after
	later string // the error that it printed after the exception; "" if none

	// where the log says that faulthandler.dump_traceback_later ended the driver; nil if it does not
	dump []int
}

// after says whether a driver went on after the exception and ended for another reason, as far as its code and its log
// tell.
type after int

const (
	endedByIt after = iota // the exception ended it
	// Another exit code than that of an exception, or an error behind one that the module did not catch, may be of a
	// shell: python train.py || exit 3.
	mayHaveGoneOn
	wentOn   // another program of the entrypoint followed, or an error behind the traceback of a function
	loggedIt // a record of a log has the traceback
)

// dumpedLater matches what faulthandler.dump_traceback_later prints before its stacks.
var dumpedLater = lazyregexp.New(`(?m)^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$`)

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
	e.ofEnv()
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
		failed, above := ofProcesses().MatchString(e.raised.Type), output.ToldAbove(e.raised.String())
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
// cause of the others. A traceback that begins in the driver's module, and has nothing of a rank, is the driver's own.
func (e *driverEnd) ofRank() {
	if e.at < 0 || output.FromModule(e.trace) && !strings.Contains(e.trace, ofRanks) {
		return
	}
	e.ranks = max(0, e.at-(1<<10))
	if all := strings.LastIndex(e.log.text[:e.at], "Training failed due to worker errors:"); all >= 0 &&
		e.at-all <= maxBetween {
		e.ranks = all
	}
	e.setRank(firstRank(e.log.text[e.ranks:], notLogged))
}

// setRank sets what was raised in a worker of Train.
func (e *driverEnd) setRank(r rankFailure) {
	e.rank = r.rank
	if r.rank != "" && r.raised.Type != "" && !wrappers[r.raised.Type] {
		e.raised = r.raised
	}
}

// lastWords returns what the entrypoint printed about its end; "" if the log has nothing of it.
func (e *driverEnd) lastWords() string {
	if e.log == nil {
		return ""
	}
	return output.LastWords(e.log.text)
}

// message returns what the program said of its end: its exception's message, or else its last words.
func (e *driverEnd) message() string {
	if e.raised.Type == "" {
		return cmp.Or(e.later, e.lastWords())
	}
	return e.raised.Message + " " + e.raised.Rest
}

// hasException reports whether the log has a traceback with an exception: it ended the driver, or is at least the last
// one in the log.
func (e *driverEnd) hasException() bool { return e.at >= 0 && e.raised.Type != "" }

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
	recorded := output.Record(heading) >= logline.Warning
	behind, ofFunction := output.Behind(e.trace, e.raised), !output.FromModule(e.trace)
	printed := strings.HasPrefix(e.log.text[e.at:], output.TracebackStart) && e.by.Type == "" &&
		!strings.HasPrefix(heading, trimmed) && !strings.HasSuffix(heading, ":") &&
		!strings.Contains(e.log.text[:e.at], ", in <module>\n")
	e.later = cmp.Or(output.LastCrash(behind), output.LastError(behind))
	_, next, _ := strings.Cut(behind, output.Connected)
	_, next, _ = strings.Cut(next, "\n")
	said := output.LastWords(next) // a thread that connects once more as the program ends prints nothing
	switch {
	case said != "": // another program connected to Ray after it
		e.later, e.after = cmp.Or(e.later, said), wentOn
	case e.code != uncaught, output.LogsError(behind), recorded && (e.later != "" || ofFunction):
		e.after = mayHaveGoneOn
	case printed && ofFunction && !recorded:
		if e.later = output.LastErrorOrLine(behind); e.later != "" { // a line shows, too, that more was printed
			e.after = wentOn
		}
	}
	if e.by.Type != "" {
		e.later = "" // the driver's own traceback follows
	}
	switch {
	case e.after == endedByIt:
	case recorded:
		e.after = loggedIt
	case e.later != "" && ofFunction:
		e.after = wentOn
	}
}

// handled reports whether the log shows that the driver handled the exception.
func (e *driverEnd) handled() bool { return e.after >= wentOn }

// earlierError returns the error that the entrypoint printed, or handled, before the one that ended it, if that one
// says little: words that are no exception, an exception with words about failures, or about something that was not
// there. Of an exception that only has a process's status it may also be the line above. The exception that ended
// another of its programs, as in a pipe, counts in any case. title is of the finding about it. It returns "" if there
// is none.
func (e *driverEnd) earlierError(title string) string {
	switch {
	case e.log == nil || !e.exited || e.signal != "" && !strings.Contains(title, lastPrinted),
		e.code == 126, e.code == 127: // what a shell does not find is missing from the machine
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
	ofProcess := output.OnlyStatus(e.raised.String())
	little := ownBugs[e.raised.Type] || general().MatchString(e.raised.Type) || tellsOfOthers(e.raised, e.message()) ||
		toldElsewhere().MatchString(e.raised.String()) || ofProcess
	if little || output.CleaningFailed(e.trace) {
		handled := output.Handled(e.trace)
		if handled.Message != "" && !strings.Contains(title, handled.Message) {
			return handled.String()
		}
	}
	before := ""
	if little {
		before = output.ErrorBefore(e.log.text[:e.at], title)
	}
	if before == "" && ofProcess { // the process may have said why in words that are no error
		before = output.LastErrorOrLine(e.log.text[:e.at])
	}
	return before
}

// ofCrashes are the signals by which a process ends itself, as it may do while an exception ends it.
var ofCrashes = []string{"SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP"}

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
