package output

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

var (
	// rayError matches errors that Ray itself reports to a driver or a worker, in Python or C++, and marks that it puts
	// into workers' logs.
	rayError = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t\w+ \S+\.py:\d+ -- |^\[\d{4}-\d\d-\d\d [^\]]* [A-Z] \d+ \d+\]|^:(?:job_id|actor_name|task_name):|^Exception raised in creation task: |^E\d{4} .*\.(?:cc|cpp):\d+\]`)
	// exhausted matches what the system refuses: of such errors Ray's next ones are consequences.
	exhausted = lazyregexp.New(`: (?:Resource temporarily unavailable|Too many open files|Cannot allocate memory)$`)
	// saysError matches words of an error, also in other languages: what shells, pip, argparse, compilers and most
	// programs print before they end with an exit code.
	saysError = lazyregexp.New(`(?i)\b(?:\w*error(?:s|ed|[_-]?(?:code|msg|message))?\b|fatal|critical|panic|exception|cannot|can't|could not|couldn't|unable to|fails? to|failed|failure|invalid|unrecognized|unrecognised|` +
		`denied|refused|aborted|aborting|missing|\w*killed|undefined|unexpected|(?:is (?:a )?|field )required|must specify|gave up|giving up|unbound variable|(?:did not|didn't) (?:answer|respond|reply)|(?:no|not) (?:such|found|matching|space|enough|set|defined|permitted|exist|a valid)\b|` +
		`not found|does not exist|doesn't exist|no module named|unknown \w+|unsupported|not supported|out of range|syntax error|segmentation fault|core dumped|` +
		`(?:exceeded|exhausted|expired|rejected|revoked|forbidden|unauthori[sz]ed|unreachable|unavailable|unsatisfiable|corrupt(?:ed|ion)?|truncated|malformed|mismatch|incompatible)\b)|` +
		`fehler\b|fehlgeschlagen|nicht gefunden|erreur|échec|introuvable|errore\b|\berro\b|\bfalha\b|\bfallo\b|ошибк|エラー|失敗|错误|失败|錯誤`)
	// saysNothing matches lines that only say that a program ends, after another one has said why, or where to read
	// more.
	saysNothing = lazyregexp.New(`(?i)^usage: |^\++ \S|^Error executing job with overrides\b|^Unable to find image '.*' locally$|^(?:The following packages are incompatible|Could not solve for environment specs)$|^ray\.exceptions\.RayTaskError\(\w+\): ray::|^To (?:continue this run|start a new run)\b|^errors? logged to\b|^(?:add|use|run)\b.*\bto (?:see|view|show)\b|^(?:please|look|see|to see|set the|run with|re-?run|refer|for (?:more|further|full|details|debugging|simplicity)|compile with|you can suppress|CUDA kernel errors might)\b|\bsuppress_errors = |^additional grpc error information\b|^:unknown:|\blook (?:above|below)\b|error is not recoverable|^SystemExit(?:: -?\d+)?$|^Exception ignored in\b|^(?:\w+: )?(?:hint\b|note:)|\bsee (?:the )?(?:errors? |logs? |root cause |stack trace )?\(?above|` +
		`\*\*\* .*error \d+$| -- request failed\.$|\bcomplete log(?: of this run\b|:)|^(?:-- Configuring incomplete, )?(?:(?:an?|some|the following|\d+) )?(?:\w+ )?errors? occurred[.!]*$|^(?:build )?(?:error|failed|failure|aborting|aborted)(?: in \d[\dms. ]*)?[.!]*$`)
	toldAbove = lazyregexp.New(SeeAbove)
	// noMessage matches a record that has a level, or a time and a level before the place in the program that it is
	// from, and no more.
	noMessage = lazyregexp.New(`^\W*[A-Z]{4,8}\W*$|^[\d :.,TZ|-]*(?:[A-Z]+[\d :.,TZ|-]+)?\[[\w./-]+\.py:\d+\]:?$`)
	// closing matches what programs, asyncio, Maven, pip, ninja, Perl and compilers print at any level after their last
	// error, and says no more.
	closing = lazyregexp.New(`(?i)^\[ERROR\] (?:(?:-> )?\[Help|(?:To see the full|Re-run Maven|For more)\b)|^ninja: build stopped|` +
		`^(?:[\w./-]+: |.{0,60}\b(?:ERROR|CRITICAL|FATAL)\W{1,6}(?:[\w.]+\W{1,3})?)?(?:(?:application (?:startup|shutdown) failed\. )?exiting(?: now| with (?:failure )?(?:status|code).*)?\.?$|aborting(?: \w+)?[.!]*$|unclosed (?:client session|connect(?:or|ion))\b|task was destroyed but it is pending|` + SeeAbove + `)|` +
		`due to (?:the |\d+ )?(?:previous|above|compilation) errors?\b|\baborted due to errors?\.?$|please refer to (?:the )?documentation\b|` +
		`Some NCCL operations have failed\b|we are taking the entire process down\b|\bEngineCore (?:failed to start|encountered a fatal error)\.$|detected by watchdog at work\b|\bcompilation (?:aborted at|failed in require)\b|^exit status \d+$|` + closingOfPip)
	// bar matches a progress bar, as tqdm or curl prints it, before what was printed on the same line.
	bar = lazyregexp.New(`^[^|]{0,100}\d+%\|[^|]*\|(?:[^\]]{0,100}\]|[ \d.kMG/]*$)|^(?:[\d.]+[kMG]? +){8}(?:[\d:-]+ +){3}[\d.]+[kMG]?`)
	// counts matches the line in which tools for tests and checks only count what they have told before: pytest,
	// unittest, jest, mypy, ESLint, Go, dbt, Ansible, Tune. pytest also repeats it, as much as the terminal's width
	// allows.
	counts = lazyregexp.New(`(?i)^[\s=✖!]*(?:(?:tests?|test suites?|found|ran)?:?\s*(?:\d+ \w+, )*\d+ (?:failed|failing|failures?|errors?|problems?)\b|(?:failed|errors?) \((?:failures|errors)=\d+|(?:interrupted:|stopping after|number of (?:(?:errored|failed) )?\w+:) \d+|trial status:.* \d+ error\b|` +
		`(?:.*\s)?(?:\w+=\d+\s+){2,}(?:error|failed)=\d+|FAIL\s*$|(?:FAILED|ERROR) \S+(?:::\S+ - .*\.\.\.|\.py)$)`)
	// noError matches words of errors that a figure or an empty field says are none, or that name a figure:
	// "train-error:0.04".
	noError = lazyregexp.New(`(?i)\b(?:0|no) (?:errors?|failures?|failed|invalid|rejected|missing)\b|` +
		`[\w-]*(?:errors?|fail(?:ed|ures?)|invalid|rejected|missing|denied|refused|unreachable|aborted|killed)(?:[ _]\w+)?` +
		`(?:['"]: ?(?:none|null|false|\[\])|['"]?(?: ?[:=] ?| is | )(?:0+|\d*\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)%?)(?:[\s,;)}\]|]|$)`)
	// refuses matches how tools say in no word of errors why they end, mostly of a file: "gzip: rows.gz: not in gzip
	// format", and how those for tests mark what failed.
	refuses = lazyregexp.New(`^(?:\S*/)?(?:[a-z][\w+-]{1,30}:\s+(?:\(\d+\) |\*\*\* |\S+: )|(?:tar|cpio|g?(?:un)?zip|b(?:un)?zip2|xz|zstd|cp|mv|ln|ssh|scp|rsync|wget|curl|make|sed|awk|sort|git):\s+)` +
		`.*(?:n't|\b(?:(?i)not?|bad|empty|broken|short|lost|closed|timed out|premature(?:ly)?|unterminated|omitting))\b|` +
		`^(?:[●✕✗✘×❌]|FAIL:?|--- FAIL:|not ok) \S`)
	ofPython = lazyregexp.New(`\.py:\d+: \w*Warning: `) // what the module warnings prints: rarely about an end
	address  = lazyregexp.New(`\w://\S+`)               // of a page: its words tell nothing
	letters  = lazyregexp.New(`\pL`)
	// ofCUDA matches what torch says below an error of CUDA, which vLLM logs as errors of its own.
	ofCUDA = lazyregexp.New(`(?i)^(?:CUDA kernel errors might|for debugging consider|compile with)\b`)
	// ofNative matches records of code in C++. Its threads also report errors after an exception has ended the program.
	ofNative = lazyregexp.New(`\.(?:cc|cpp|cu|h):\d+\b`)
	// warns matches how tools and compilers mark a warning: "ld: warning: cannot find entry symbol _start".
	warns = lazyregexp.New(`^[\w./+-]{1,80}: ?(?:\d+:){0,2} ?[Ww]arning: `)
	// nativeRecord matches a warning or an error that a library in C++ logs: of glog, absl, TensorFlow and torch.
	nativeRecord = lazyregexp.New(`^(?:\[\w+\]:)?\[?(?:\d{4}-\d\d-\d\d [\d:.]+: )?[WE](?:\d{4} [\d:.]+(?: +\d+)?)? \S*\.(?:cc|cpp|cu|h):\d+\]`)
	// status matches what says with which status a step or a program failed, also if the line ends in its command. What
	// a request returned is none.
	status = lazyregexp.New(`(?i)(?:\b(?:exit(?:ed)?|ended)\b.{0,12}|\b(?:return|non-zero) )\b(?:code|status(?: code)?)\b[ =:]*(?:-?\d+)?|` +
		`\b(?:exit(?:ed)?|ended) with -?\d+|\bexitcode: -?\d+|\bfailed \(\d+\)|\bCommand '\[[^\]]*$|\bChildFailedError\b`)
	// bare matches what only says that something failed, and neither why nor with which status.
	bare = lazyregexp.New(`(?i)^\W*(?:[\w.:;/'"@>\[\]()-]+ ){1,16}(?:failed|aborted|did not (?:complete|finish|succeed)(?: successfully)?)\W*$`)
	// reason matches how a line goes on behind a status if it says why.
	reason = lazyregexp.New(`^\w*\)?: .*\pL`)
	// placed matches the beginning of a record up to the place in the program that it is from, as vLLM's have it.
	placed = lazyregexp.New(`^[^\]]{0,80}\[[\w./-]+\.py:\d+\] `)
)

// closingOfPip is an expression for what pip, or conda that ran it, says when it, or a program that it ran, has failed.
const closingOfPip = `^ERROR: (?:ResolutionImpossible: for help|No matching distribution found for|Failed to build '.*' when |Failed building wheel for \S+$|Command errored out with exit status)|` +
	`^(?:error: )?(?:subprocess-exited-with-error|metadata-generation-failed|failed to build installable wheels)|^× (?:.* did not run successfully\b|Encountered error while generating package metadata)|^CondaEnvException: Pip failed$|^Failed to build [\w.-]+(?:[, ]+[\w.-]+)*$`

// SeeAbove is an expression for the words that an error was told before, or of another rank.
const SeeAbove = `(?i:\bsee\b[^.\n]{0,40}\b(?:above|root cause|in the log before)\b|\bother ranks that (?:didn't|did not)\b|` +
	`\bremote process exited or there was a network error\b)`

// worth is why a line may tell of its program's end.
type worth int

const (
	anError      worth = iota // a record at level error, or a line that speaks of an error
	stepFailed                // such a line, if it only says that a step failed, and with which status
	errorOfRay                // an error that Ray reports
	errorWarning              // a warning that speaks of an error, or an error that was told above
	errorCount                // how many errors were told before
	aboveStep                 // a line without a level, above one that only says that a step failed
	ownLine                   // a line without a level
	stepWarning               // a warning that says with which status a step ended
	warning
	asked      // whoever asks wants it: before all others,
	askedNext  // or, if it is of no such kind, like a warning of an error,
	askedThird // or after that
	askedLast
	worthLittle
)

// worthOf returns what a line is worth as a program's last one, and what it says: without its header, its colours and a
// progress bar.
func worthOf(line string) (worth, string) {
	said := cmp.Or(strings.Join(strings.Fields(Printable(logline.Message([]byte(line)))), " "), line)
	if rest := strings.TrimSpace(bar().ReplaceAllString(said, "")); letters().MatchString(rest) {
		said = rest
	} else if rest != said {
		return worthLittle, said // a bar alone
	}
	words := noError().ReplaceAllString(address().ReplaceAllString(said, ""), "") // those that may speak of an error
	message := withoutPlace(said)
	nothing := saysNothing().MatchString(message)
	heading := strings.HasSuffix(said, ":") // of what follows
	isError := (saysError().MatchString(words) || refuses().MatchString(words)) && !nothing && !heading
	if m := raised().FindStringSubmatch(said); m != nil && typical().MatchString(m[2]) &&
		!strings.HasSuffix(m[2], "Warning") {
		isError = true // an exception without a traceback
	}
	switch level := logline.Parse([]byte(line), &logline.Clock{}).Level; {
	case level == logline.Unknown && nothing, ofCUDA().MatchString(message), ofPython().MatchString(said),
		level != logline.Unknown && (noMessage().MatchString(said) || strings.HasSuffix(said, TracebackStart)),
		closing().MatchString(line), closing().MatchString(said):
		return worthLittle, said
	case counts().MatchString(words):
		return errorCount, said
	case level == logline.Warning && isError && nativeRecord().MatchString(line) && !NotBegun(line):
		return warning, said // libraries warn as they start
	case level == logline.Warning && isError, level >= logline.Error && ToldAbove(said),
		level == logline.Unknown && isError && (warns().MatchString(said) || ToldAbove(said)):
		return errorWarning, said
	case level >= logline.Error && (isError || letters().MatchString(words)), level == logline.Unknown && isError:
		if OnlyStatus(said) {
			return stepFailed, said
		}
		return anError, said
	case level == logline.Unknown:
		return ownLine, said
	case level == logline.Warning && status().MatchString(said):
		return stepWarning, said
	case level == logline.Warning:
		return warning, said
	}
	return worthLittle, said
}

// withoutPlace returns what a line says without the beginning of its record, if that names the place in the program.
func withoutPlace(said string) string { return said[len(placed().FindString(said)):] }

// isPlainError reports whether a line that speaks of an error has no level, and is no exception.
func isPlainError(line string) bool {
	m := raised().FindStringSubmatch(strings.TrimSpace(Printable(line)))
	return (m == nil || !typical().MatchString(m[2])) &&
		logline.Parse([]byte(line), &logline.Clock{}).Level == logline.Unknown
}

// OnlyStatus reports whether a line says that a step or a program failed, and with which status, but not why.
func OnlyStatus(line string) bool {
	at := status().FindStringIndex(line)
	return at != nil && !reason().MatchString(line[at[1]:])
}

// OfRay reports whether Ray itself printed a line into the log of a driver or a worker.
func OfRay(line string) bool { return ofRay().MatchString(line) || rayError().MatchString(line) }

// RecordLevel returns the level of a line that is a record which a program itself logged in Python; logline.Unknown for
// all other lines.
func RecordLevel(line string) logline.Level {
	if OwnLines(line) == "" || OfRay(line) || nativeRecord().MatchString(line) {
		return logline.Unknown
	}
	return logline.Parse([]byte(line), &logline.Clock{}).Level
}

// Plain reports whether a line of a program tells of no error: it has no level, or is a warning.
func Plain(line string) bool {
	worth, _ := worthOf(line)
	return worth == ownLine || worth == warning || worth == stepWarning
}

// LogsError reports whether a text has a record at level error that says more than that its program ends, or that a
// process failed. Records of code in C++ do not count.
func LogsError(text string) bool {
	for whole := range strings.Lines(text) {
		line := strings.TrimRight(whole[:min(len(whole), logline.MaxHeader)], "\r\n")
		if logline.Parse([]byte(line), &logline.Clock{}).Level < logline.Error || ofNative().MatchString(line) ||
			OnlyStatus(whole) {
			continue
		}
		if worth, _ := worthOf(line); worth != worthLittle {
			return true
		}
	}
	return false
}

// waits matches what programs print while they wait for something or try again, and what a replica of Serve logs of a
// request for which nobody waited any longer.
var waits = lazyregexp.New(`(?i)\b(?:wait\w*|retry\w*|retries|attempt\w*|not ready|pending|unreachable|refused|reset by peer|timed? ?out|trying|connecting|reconnect\w*|` +
	`unavailable|sleeping|blocked|locked|barrier|rendezvous|listening|CANCELLED [\d.]+ms)\b`)

var (
	// notBegun matches why a process could not begin what others then wait for: its port was taken, or its interface or
	// its GPU was not there.
	notBegun = lazyregexp.New(`(?i)\baddress already in use\b|\bEADDRINUSE\b|\bport \d+ (?:is|was) (?:already )?(?:in use|taken|allocated|occupied)\b|` +
		`\b(?:fail(?:ed|s)? to|unable to|could not|cannot|can't) (?:bind|listen)\b|\bno socket interface found\b|\bunable to find (?:address|interface) for\b|` +
		`\bno such (?:device|interface)\b|\binterface \S{1,40} (?:was )?(?:not found|does not exist)\b|\bno CUDA-capable device\b|\binvalid device ordinal\b|` +
		`\bno CUDA GPUs are available\b|\bdriver version is insufficient\b|\bdriver on your system is too old\b`)
	// begunAnyway matches what such a process does then, or that only another protocol than IPv4 was not there.
	begunAnyway = lazyregexp.New(`(?i)\b(?:trying|retrying|using|instead|fall(?:ing)? back)\b|errno: 97\b`)
)

// NotBegun reports whether a line says why a process could not begin something.
func NotBegun(line string) bool {
	return notBegun().MatchString(line) && !begunAnyway().MatchString(line)
}

// ToldAbove reports whether a text only refers to an error that was told before it.
func ToldAbove(text string) bool { return toldAbove().MatchString(text) }

// AboutWaits reports whether a line tells of a wait.
func AboutWaits(line string) bool { return waits().MatchString(line) }

// noNodeType matches what Ray prints of the autoscaler if no type of its nodes has what something waits for.
var noNodeType = lazyregexp.New(`^(?:\x1b\[\d+m)?\(autoscaler [^)\n]*\)(?:\x1b\[0m)? Error: (No available node types [^\n]*?\})`)

// requestDropped matches what Serve prints of a request that it refused, because too many others waited.
var requestDropped = lazyregexp.New(` -- (Request dropped due to backpressure \([^)\n]*\))`)

// LastWaitOfRay returns the last line about a wait that Ray or one of its libraries printed into a driver's log after
// the driver was connected, as Tune does when the time for its trials is over; "" if there is none.
func LastWaitOfRay(log string) string {
	log = log[max(0, len(log)-maxLastText):]
	for _, line := range slices.Backward(strings.Split(log[max(0, strings.LastIndex(log, Connected)):], "\n")) {
		if m := noNodeType().FindStringSubmatch(line); m != nil {
			return Clip(m[1], MaxTitle)
		}
		if m := requestDropped().FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if _, said, _ := strings.Cut(line, " -- "); ofRay().MatchString(line) && waits().MatchString(said) {
			return Clip(Printable(said), MaxTitle)
		}
	}
	return ""
}
