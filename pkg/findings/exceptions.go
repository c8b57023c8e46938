package findings

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

// genericType matches the types of exceptions that programs raise to say that they cannot go on, whatever the reason
// is, or that nothing came out of a queue or no more went into it; also "", as of an end without an exception.
var genericType = lazyregexp.New(`^(?:|RuntimeError|AssertionError|Exception|SystemExit|Empty|Full|` +
	`\w*(?:Fail|Abort|Retr(?:y|ies)|Incomplete)\w*)$`)

// isGeneric reports whether an exception is of such a type.
func isGeneric(raised output.Exception) bool { return genericType().MatchString(raised.Type) }

// inOwnWords reports whether an exception is in words of its program: the program itself raised it, or it is of a type
// that may have any reason.
func inOwnWords(raised output.Exception) bool { return raised.Own || isGeneric(raised) }

// ownBugs holds exceptions that a program raises because of a mistake of its own. A driver that raised one of them did
// not end because tasks had failed.
var ownBugs = map[string]bool{
	"KeyError": true, "IndexError": true, "TypeError": true, "AttributeError": true, "NameError": true,
	"UnboundLocalError": true, "ZeroDivisionError": true,
	"ImportError": true, "ModuleNotFoundError": true, "SyntaxError": true, "IndentationError": true,
	"RecursionError": true, "NotImplementedError": true,
	"FileNotFoundError": true, "PermissionError": true, "IsADirectoryError": true, "NotADirectoryError": true,
	"UnicodeDecodeError": true, "MemoryError": true,
	"KeyboardInterrupt": true, "JSONDecodeError": true, "ConnectionError": true, "ConnectionRefusedError": true,
}

// aboutFailures matches what a program says about the failures of others: a summary, such as "3 of 8 shards failed" or
// "No best trial found". In an exception of a type of its own aboutThings are no such words: "Missing value: lr".
var (
	aboutFailures = lazyregexp.New(
		`(?i)\b(?:fail\w*|errors?|errored|unsuccessful|incomplete|aborted|crashed|died|dead|exited|killed|unhealthy|` +
			`not (?:all|enough|complete|placed|ready|available|healthy)|none of|` +
			`no (?:best|trial|result|successful|worker|healthy)\w*|only \d+ (?:of|out of)|\d+ ?(?:of|/|out of) ?\d+|` +
			`gave up|giving up)\b`)
	aboutThings = lazyregexp.New(`(?i)\b(?:lost|missing|broken|could not|couldn't|cannot|unable|` +
		`(?:ended|returned|exit|status) (?:with |code |status )*-?\d+)\b`)
)

// tellsOfOthers reports whether a program speaks of failures of others in said, its words as it raised an exception or
// ended. An exception that a library raised speaks of its own error, unless it says how many of how many failed, or
// only that something did.
func tellsOfOthers(raised output.Exception, said string) bool {
	if isGeneric(raised) {
		return aboutFailures().MatchString(said) || aboutThings().MatchString(said)
	}
	return aboutFailures().MatchString(said) &&
		(!raised.Library || howManyOf().MatchString(said) || output.OnlyFailed(said))
}

// howManyOf matches how many there are of how many.
var howManyOf = lazyregexp.New(outOfHowMany)

const outOfHowMany = `\b(\d{1,6}) ?(?:/|(?:out )?of)(?: the)? ?(\d{1,6})\b`

// processFailed is an expression for exceptions that only say that a process failed. It may have written the reason to
// the same log, as one may to which output.SeeAbove refers.
const processFailed = `^(?:CalledProcessError|ChildFailedError|ProcessExitedException|BrokenProcessPool)\b`

var ofProcesses = lazyregexp.New(processFailed)

// toldElsewhere matches what programs say of a failure that was told before, or of which another process told, as that
// one is gone: its connection or pipe was closed, or a collective operation came to no end. Of a column that Ray Data
// pickled, as its values are of several types, the worker that made it said so.
var toldElsewhere = lazyregexp.New(processFailed + `|` + output.SeeAbove + `|(?i)\babove\b[^.\n]{0,20}\broot cause\b|` +
	`\bpreviously failed\b|` +
	`\b(?:check|inspect|see|look (?:at|in(?:to)?)|consult|refer to)\b[^.\n]{0,40}\b(?:logs?|stack ?trace|traceback)\b|` +
	`\b(?:has|have) (?:errored|failed|died) already\b|\b(?:has|have) already (?:errored|failed|died)\b|` +
	`broken ?pipe|(?:closed|reset) by (?:remote )?peer|ncclRemoteError|gloo/transport|Dist(?:Backend|Network|Store)Error|` +
	output.CollectiveTimeout + `|timed out waiting|ArrowPythonObject|device-side assert triggered|` +
	`\btask has panicked$|^EOFError$|` +
	`\b(?:sub)?(?:process(?:es)?|worker|child)\b[^.\n]{0,30}\b(?:exited|died|ended|terminated|crashed)\b`)

// notLetIn matches what says that a service did not accept who asked. Of a token, a password or a role that could not
// be renewed something may have told before.
var notLetIn = lazyregexp.New(`(?i)\bunauthori[sz]ed\b|\bforbidden\b|\b(?:Expired|Invalid)Token|\bauthentication failed|` +
	`\b(?:token|credentials?|session|password)\b[^.\n]{0,20}\b(?:expired|invalid|incorrect|revoked)\b|` +
	`\b(?:expired|invalid|incorrect)\b[^.\n]{0,20}\b(?:token|credentials?|password)\b`)

// isTimeout reports whether an exception says that the program had waited too long for something of its own. A timeout
// that a library raised is mostly about a service, so it counts only if its message says that something was not ready.
func isTimeout(raised output.Exception) bool {
	return strings.HasSuffix(raised.Type, "TimeoutError") && (!raised.Library || notReady().MatchString(raised.Message))
}

// notReady matches messages about something that was awaited and did not come in time. What a function "does not
// return" is no wait: it returned something else.
var notReady = lazyregexp.New(
	`(?i)not ready|pending|deadline|(?:did|has|have)(?: not|n't)(?: yet)? (?:finish|complete|return|respond|answer)|` +
		`(?:not|n't) respond|do(?:es)?(?: not|n't) answer|still running|timed? ?out (?:waiting|resolving)|` +
		`Get timed out|ray\.get|` +
		`\bwithin [\d.]+ ?(?:s|sec\w*|m|min\w*|h|hours?)\b|\b(?:in|on) time\b`)

// wordless reports whether an exception that programs raise for any reason has no word about the reason, such as
// SystemExit with a status. Who raised it often printed why.
func wordless(raised output.Exception) bool {
	return raised.Type != "" && isGeneric(raised) &&
		strings.IndexFunc(raised.Message, unicode.IsLetter) < 0
}

// emptyHanded matches what Python, NumPy, pandas and Tune say if a program takes something out of nothing, such as the
// first of the calls that ray.wait says are ready, or a number out of what a tool did not print.
var emptyHanded = lazyregexp.New(
	`^(?:list|tuple) index out of range$|` +
		`^(?:could not convert string to float|invalid literal for int\(\) with base 10): ''$|` +
		`^not enough values to unpack \(expected .*got 0\)|^pop from an? empty |` +
		`(?:is an empty sequence|iterable argument is empty)$|` +
		`^(?:need at least one array|zero-size array|No objects|No [\w ]{1,40} found)\b`)

// foundNothing reports whether an exception says that nothing was there where a value was needed, or only that a server
// had failed.
func foundNothing(raised output.Exception) bool {
	message := raised.Message
	return strings.Contains(message, "'NoneType'") || emptyHanded().MatchString(message) ||
		serverError().MatchString(message)
}

// serverError matches what clients of HTTP say of a server that failed.
var serverError = lazyregexp.New(`(?i)\b(?:HTTP error 5\d\d|5\d\d server error|server error '5\d\d|5\d\d, message=|` +
	`error code: 5\d\d)`)

// alsoNames reports whether a line names a thing that the message of an exception names: who left that thing out may
// say so in any words. For a file that is not there its short name or its folder is enough. Exceptions about other
// mistakes in code name types and attributes, so they do not count.
func alsoNames(raised output.Exception, line string) bool {
	notThere := raised.Type == "FileNotFoundError"
	if ownBugs[raised.Type] && raised.Type != "KeyError" && !notThere {
		return false
	}
	return slices.ContainsFunc(named().FindAllString(raised.Message, 8), func(name string) bool {
		if noName().MatchString(name) {
			return false
		}
		name = strings.Trim(name, "'")
		short := path.Base(name) // it may be any word
		return mentions(line, name) || notThere && (len(short) > 3 && mentions(line, short) || namesFile(line, name))
	})
}

// namesFile reports whether a text names a file or its folder. /tmp may be of anything.
func namesFile(text, file string) bool {
	folder := folderOf(file)
	return mentions(text, file) ||
		strings.Count(path.Dir(file), "/") > 1 && (mentions(text, folder) || mentions(text, folder+"/"))
}

// folderOf returns the folder of a file, also of a URL.
func folderOf(file string) string { return file[:max(0, strings.LastIndexByte(file, '/'))] }

var (
	// named matches the names of things in a message: in quotes, or a word with a number, as in "part 3".
	named = lazyregexp.New(`'[^'\n]{4,200}'|\b\pL{3,}[ -]\d+\b`)
	// noName matches words with a number that name nothing.
	noName = lazyregexp.New(`(?i)^(?:about|after|before|code|epoch|errno|error|exactly|exceeds|exit|expected|for|from|` +
		`got|has|least|less|line|more|most|only|over|returned|signal|status|than|was|within)[ -]`)
)

// hasNone matches what says that there is nothing of a kind: "no rates".
var hasNone = lazyregexp.New(`^[Nn]o (\w+)`)

// wrappers holds exceptions that only say that another exception was raised. Ray's events do not contain the other
// exception.
var wrappers = map[string]bool{"UserCodeException": true, "WorkerGroupError": true, "TrainingFailedError": true,
	"ControllerError": true}

// rayErrors holds the kinds of findings that may be about the failure that exceptions of Ray tell of.
var rayErrors = []struct {
	exceptions string
	kinds      []string
}{
	{"ActorDiedError RayActorError", []string{ActorDied, OutOfMemory, NodeDied}},
	{"ActorUnavailableError", []string{ActorDied, NodeDied}},
	{"OutOfMemoryError", []string{OutOfMemory}},
	{"WorkerCrashedError", []string{WorkerDied, OutOfMemory, NodeDied}},
	{"NodeDiedError LocalRayletDiedError PreemptionError", []string{NodeDied}},
	{"RuntimeEnvSetupError", []string{RuntimeEnv}},
	{"TaskUnschedulableError ActorUnschedulableError TaskPlacementGroupRemoved ActorPlacementGroupRemoved " +
		"PlacementGroupSchedulingTimeoutError", []string{Unschedulable}},
	{"ObjectLostError ObjectReconstructionFailedError ObjectFetchTimedOutError", []string{NodeDied, ObjectLost}},
	{"OwnerDiedError", []string{NodeDied, ActorDied, WorkerDied, ObjectLost}},
	{"ReferenceCountingAssertionError ObjectFreedError", []string{ObjectLost}},
	{"OutOfDiskError ObjectStoreFullError", []string{ObjectStore}},
	{"TaskCancelledError", []string{Cancelled}},
	{"GetTimeoutError", []string{Unschedulable, Starved, WorkerStart}},
	{"RayServeException DeploymentUnavailableError BackPressureError ReplicaUnavailableError", []string{Serve}},
}

// failuresBehind returns the kinds of findings that may be about the failure of which an exception of Ray tells, the
// most likely first; nil if the exception tells of no other failure. text is the exception's traceback.
func failuresBehind(raised output.Exception, text string) []string {
	switch {
	case (raised.Type == "RaySystemError" || raised.Type == "ActorUnschedulableError") &&
		strings.Contains(text, startupFailed):
		return []string{WorkerStart}
	case raised.Type == "OutOfMemoryError" && !strings.Contains(text, "ray.exceptions."+raised.Type):
		return nil // PyTorch's exception of this name is about the memory of a GPU
	}
	for _, e := range rayErrors {
		if slices.Contains(strings.Fields(e.exceptions), raised.Type) {
			return e.kinds
		}
	}
	return nil
}
