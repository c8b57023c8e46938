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
	rayError = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t\w+ \S+\.py:\d+ -- |` +
		`^\[\d{4}-\d\d-\d\d [^\]]* [A-Z] \d+ \d+\]|^:(?:job_id|actor_name|task_name):|` +
		`^Exception raised in creation task: |^E\d{4} .*\.(?:cc|cpp):\d+\]`)
	// systemRefusal matches what the system refuses, "fork: Cannot allocate memory": of such errors Ray's next ones are
	// consequences.
	systemRefusal = lazyregexp.New(`: (?:Resource temporarily unavailable|Too many open files|Cannot allocate memory)$`)
	// saysError matches words of an error, also in other languages: what shells, pip, argparse, compilers and most
	// programs print before they end with an exit code.
	saysError = lazyregexp.New(`(?i)\b(?:\w*error(?:s|ed|[_-]?(?:code|msg|message))?\b|fatal|critical|panic|` +
		`exception|cannot|can't|could not|couldn't|unable to|fails? to|failed|failure|invalid|` +
		`unrecognized|unrecognised|` +
		`denied|refused|aborted|aborting|MPI_ABORT was invoked|missing|\w*killed|undefined|unexpected|` +
		`(?:is (?:a )?|field )required|must specify|gave up|giving up|unbound variable|` +
		`(?:did not|didn't) (?:answer|respond|reply)|HTTP [45]\d\d|lacks \w+|` +
		`(?:no|not) (?:such|found|matching|space|enough|set|defined|permitted|exist|a valid)\b|` +
		`not found|does not exist|doesn't exist|no module named|unknown \w+|unsupported|not supported|out of range|` +
		`(?:, |; |but )expected\b|expected ['"\w][^,;]{0,60}(?:, | but )(?:\w+ ){0,3}(?:got|found|has|have|was|were|` +
		`is|are|received|saw)\b|has no attribute|object is not \w+able|positional arguments? but|` +
		`too many values to unpack|unhashable type|not JSON serializable|division by zero|syntax error|` +
		`segmentation fault|core dumped|exited on signal \d+ \(|signal \d+ \(\w+\) received by PID\b|` +
		`(?:exceeded|exhausted|expired|rejected|revoked|forbidden|unauthori[sz]ed|unreachable|unavailable|` +
		`unsatisfiable|corrupt(?:ed|ion)?|truncated|malformed|mismatch|incompatible)\b)|` +
		`fehler\b|fehlgeschlagen|(?:kann|konnte|können|konnten) nicht\b|nicht (?:gefunden|lesbar|möglich|vorhanden)|` +
		`keine berechtigung|verweigert|ungültig|erreur|échec|échoué|introuvable|impossible (?:d|à|\bto\b)|` +
		`errore\b|impossibile|non (?:trovat|riuscit)|\berro\b|\bfalha|não (?:foi possível|encontrad|existe)|` +
		`\bfallo\b|\bfalló|no se (?:pud|puede|encontr)|` +
		`\bfout\b|niet gevonden|mislukt|błąd|nie (?:znaleziono|można|udało)|nenalezen|nelze\b|hittades inte|` +
		`misslyckades|\bhata\b|bulunamadı|başarısız|` +
		`ошибк|не (?:найден|удалось|знайдено|вдалося)|помилк|エラー|失敗|例外|見つかりません|できません|错误|失败|錯誤|无法|未找到|找不到|不存在|無法|오류|실패|찾을 수 없`)
	// saysNothing matches lines that only say that a program ends, after another one has said why, or where to read
	// more.
	saysNothing = lazyregexp.New(`(?i)^usage: |^Allowing ninja to set a default\b|` +
		`^The following values were not passed to\b|^\W--\w+. was set to a value of |^To avoid this warning\b|` +
		`^with errorcode -?\d+\.?$|^\++ \S|^Error executing job with overrides\b|^Unable to find image '.*' locally$|` +
		`^SIGTERM handler is not set\b|^srun: Job step aborted: |` +
		`^(?:The following packages are incompatible|Could not solve for environment specs)$|` +
		`^(?:ray\.exceptions\.RayTaskError\(\w+\): )?ray::|` +
		`^User exception type .* in RayTaskError can't be subclassed! |^To (?:continue this run|start a new run)\b|` +
		`^errors? (?:logged to\b|file: /)|^Trial \w+ errored after \d+ iterations\b|` +
		`^(?:add|use|run)\b.*\bto (?:see|view|show)\b|` +
		`^(?:please|look|see|to see|set the|run with|re-?run|refer|` +
		`for (?:more|further|full|details|debugging|simplicity)|compile with|you can suppress|` +
		`CUDA kernel errors might)\b|\bsuppress_errors = |^additional grpc error information\b|^:unknown:|` +
		`\blook (?:above|below)\b|error is not recoverable|^SystemExit(?:: -?\d+)?$|^Exception ignored in\b|` +
		`^(?:\w+: )?(?:hint\b|note:)|\bsee (?:the )?(?:errors? |logs? |root cause |stack trace )?\(?above|` +
		stepByMake + `| -- request failed\.$|\bcomplete log(?: of this run\b|:)|` +
		`^(?:-- Configuring incomplete, )?(?:(?:an?|some|the following|\d+) )?(?:\w+ )?errors? occurred[.!]*$|` +
		`^(?:build )?(?:error|failed|failure|aborting|aborted)(?: in \d[\dms. ]*)?[.!]*$`)
	stepOfMake = lazyregexp.New(`(?i)` + stepByMake)
	seeAbove   = lazyregexp.New(SeeAbove)
	// emptyRecord matches a record that has a level, or a time and a level before the place in the program that it is
	// from, and no more than signs, as the line of carets below a traceback's code.
	emptyRecord = lazyregexp.New(`^\W*[A-Z]{4,8}\W*$|^[\d :.,TZ|-]*(?:[A-Z]+[\d :.,TZ|-]+)?\[[\w./-]+\.py:\d+\]:?\W*$`)
	// closingLine matches what programs, asyncio, Ray Data, Maven, pip, ninja, Perl, librdkafka, ROCm and compilers
	// print at any level after their last error, and says no more.
	closingLine = lazyregexp.New(`(?i)^exception occurred in (?:user code, with the abbreviated |` +
		`Ray Data or Ray Core internal code\. If you )|` +
		`^make(?:\[\d+\])?: (?:(?:Entering|Leaving) directory\b|\*\*\* Waiting for unfinished jobs)|` +
		`^\[ERROR\] (?:(?:-> )?\[Help|(?:To see the full|Re-run Maven|For more)\b)|^ninja: build stopped|` +
		`^Error: (?:Could not create the Java Virtual Machine|A fatal exception has occurred)\.|` +
		`^Error occurred during initialization of VM$|^agent library failed |^Licensing error: -?\d[\d,]*\.|` +
		`^(?:[\w./-]+: |ERROR \d{4}-.{20,120} -- |` +
		`.{0,60}\b(?:ERROR|CRITICAL|FATAL)\W{1,6}(?:[\w.]+\W{1,3})?)?(?:(?:application (?:startup|` +
		`shutdown) failed\. )?exiting(?: now| with (?:failure )?(?:status|code).*)?\.?$|aborting(?: \w+)?[.!]*$|` +
		`unclosed (?:client session|connect(?:or|ion))\b|task was destroyed but it is pending|` + SeeAbove + `)|` +
		`due to (?:the |\d+ )?(?:previous|above|compilation) errors?\b|\baborted due to errors?\.?$|` +
		`please refer to (?:the )?documentation\b|` +
		`Some NCCL operations have failed\b|\bStack trace of the failed collective\b|` +
		`we are taking the entire process down\b|\bEngineCore (?:failed to start|encountered a fatal error)\.$|` +
		`detected by watchdog at work\b|\bcompilation (?:aborted at|failed in require)\b|\d brokers are down$|` +
		`^GPU core ?dump\b|^Failed to write segment data to pipe: |^exit status \d+$|` + closingOfPip)
	// progressBar matches a progress bar, as tqdm or curl prints it, before what was printed on the same line.
	progressBar = lazyregexp.New(`^[^|]{0,100}\d+%\|[^|]*\|(?:[^\]]{0,100}\]|[ \d.kMG/]*$)|` +
		`^(?:[\d.]+[kMG]? +){8}(?:[\d:-]+ +){3}[\d.]+[kMG]?`)
	// errorCountLine matches the line in which tools for tests and checks only count what they have told before:
	// pytest, unittest, jest, mypy, ESLint, Go, dbt, Ansible, Tune. pytest also repeats it, as much as the terminal's
	// width allows.
	errorCountLine = lazyregexp.New(`(?i)^[\s=✖!]*(?:(?:tests?|test suites?|found|` +
		`ran)?:?\s*(?:\d+ \w+, )*\d+ (?:failed|failing|failures?|errors?|problems?)\b|` +
		`(?:failed|errors?) \((?:failures|errors)=\d+|` +
		`(?:interrupted:|stopping after|number of (?:(?:errored|failed) )?\w+:) \d+|trial status:.* \d+ error\b|` +
		`(?:.*\s)?(?:\w+=\d+\s+){2,}(?:error|failed)=\d+|FAIL\s*$|(?:FAILED|ERROR) \S+(?:::\S+ - .*\.\.\.|\.py)$)`)
	// onlyTook matches a line that only tells how long something took: "Ran 3 tests in 0.4s", "elapsed: 4 s".
	onlyTook = lazyregexp.New(`(?i)^\W*(?:[a-z]+\W+){0,3}?(?:time|elapsed|duration|took|ran \d+ tests?|finished|done|` +
		`completed|real|user|sys)\b\W*(?:\(\w+\)|in|after|taken|is|was)?\W*` +
		`\d[\d.:,]* ?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|` +
		`hours?)?(?: ?\d[\d.]* ?(?:s|secs?|seconds?|m|mins?|minutes?))?\W*$`)
	// noErrorWords matches words of errors that a figure or an empty field says are none, or that name a figure:
	// "train-error:0.04".
	noErrorWords = lazyregexp.New(`(?i)\b(?:0|no|keine) (?:errors?|failures?|failed|invalid|rejected|missing|fehler)\b|` +
		`[\w-]*(?:errors?|fail(?:ed|ures?)|invalid|rejected|missing|denied|refused|unreachable|aborted|killed)(?:[ _]\w+)?` +
		`(?:['"]: ?(?:none|null|false|\[\])|` +
		`['"]?(?: ?[:=] ?| is | )(?:0+|\d*\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)%?)(?:[\s,;)}\]|]|$)`)
	// refusal matches how tools say in no word of errors why they end, mostly of a file: "gzip: rows.gz: not in gzip
	// format", and how those for tests mark what failed.
	refusal = lazyregexp.New(`^(?:\S*/)?(?:[a-z][\w+-]{1,30}:\s+(?:\(\d+\) |\*\*\* |\S+: )|` +
		`(?:tar|cpio|g?(?:un)?zip|b(?:un)?zip2|xz|zstd|cp|mv|ln|ssh|scp|rsync|wget|curl|make|sed|awk|sort|git):\s+)` +
		`.*(?:n't|\b(?:(?i)not?|bad|empty|broken|short|lost|closed|timed out|premature(?:ly)?|unterminated|omitting))\b|` +
		`^(?:[●✕✗✘×❌]|FAIL:?|--- FAIL:|not ok) \S`)
	// warningsModule matches what Python's module warnings prints, which is rarely about an end: "a.py:3: UserWarning:
	// ".
	warningsModule = lazyregexp.New(`\.py:\d+: \w*Warning: `)
	pageAddress    = lazyregexp.New(`\w://\S+`) // the words in "https://docs/error" tell nothing
	anyLetter      = lazyregexp.New(`\pL`)
	// kafkaHeader matches how librdkafka begins its records: "%3|1795342520.412|FAIL|c-1| [thrd:kafka:9092]: ".
	kafkaHeader = lazyregexp.New(`^%\d\|[\d.]+\|\w+\|[^|]{0,100}\| (?:\[thrd:[^\]]{0,200}\]: )?`)
	// cudaAdvice matches what torch says below an error of CUDA, which vLLM logs as errors of its own.
	cudaAdvice = lazyregexp.New(`(?i)^(?:CUDA kernel errors might|for debugging consider|compile with)\b`)
	// cppPlace matches records of code in C++ ("core.cc:71"). Its threads also report errors after an exception has
	// ended the program.
	cppPlace = lazyregexp.New(`\.(?:cc|cpp|cu|h):\d+\b`)
	// compilerWarning matches how tools and compilers mark a warning: "ld: warning: cannot find entry symbol _start".
	compilerWarning = lazyregexp.New(`^[\w./+-]{1,80}: ?(?:\d+:){0,2} ?[Ww]arning: `)
	// nativeRecord matches a warning or an error that a library in C++ logs: of glog, absl, TensorFlow and torch.
	nativeRecord = lazyregexp.New(`^(?:\[\w+\]:)?\[?(?:\d{4}-\d\d-\d\d [\d:.]+: )?[WE](?:\d{4} [\d:.]+(?: +\d+)?)? \S*\.(?:cc|cpp|cu|h):\d+\]`)
	// exitStatus matches what says with which status a step or a program failed, also if the line ends in its command.
	// What a request returned is none.
	exitStatus = lazyregexp.New(`(?i)(?:\b(?:exit(?:ed)?|ended)\b.{0,12}|\b(?:return|non-zero) )\b(?:code|` +
		`status(?: code)?)\b[ =:]*(?:-?\d+)?|` +
		`\b(?:exit(?:ed)?|ended) with -?\d+|\bexitcode: -?\d+|\bfailed \(\d+\)|\bMPI_ABORT was invoked\b|` +
		`\bCommand '\[[^\]]*$|\bChildFailedError\b|^srun: error: .*: tasks? [\d,-]+: (?:Terminated|Killed|Aborted)|` +
		`^slurmstepd: error: \*\*\* (?:STEP|JOB) `)
	// onlyFailed matches what only says that something failed, and neither why nor with which status: "Build failed".
	onlyFailed = lazyregexp.New(`(?i)^\W*(?:[\w.:;/'"@>\[\]()-]+ ){1,16}(?:failed|aborted|` +
		`did not (?:complete|finish|succeed)(?: successfully)?)\W*$`)
	// reasonBehind matches how a line goes on behind a status if it says why: "exit code 2: no such file".
	reasonBehind = lazyregexp.New(`^\w*\)?: .*\pL`)
	// recordPlace matches the beginning of a record up to the place in the program that it is from, as vLLM's have it:
	// "(EngineCore pid=7) [core.py:71] ".
	recordPlace = lazyregexp.New(`^[^\]]{0,80}\[[\w./-]+\.py:\d+\] `)
)

// closingOfPip is an expression for what pip, or conda that ran it, says when it, or a program that it ran, has failed.
const closingOfPip = `^ERROR: (?:ResolutionImpossible: for help|No matching distribution found for|` +
	`Failed to build '.*' when |Failed building wheel for \S+$|Command errored out with exit status)|` +
	`^(?:error: )?(?:subprocess-exited-with-error|metadata-generation-failed|failed to build installable wheels)|` +
	`^× (?:.* did not run successfully\b|Encountered error while generating package metadata)|` +
	`^CondaEnvException: Pip failed$|^Failed to build [\w.-]+(?:[, ]+[\w.-]+)*$`

const stepByMake = `\*\*\* .*error \d+$` // "make: *** [Makefile:6: features] Error 2"

// SeeAbove is an expression for the words that an error was told before, or of another rank.
const SeeAbove = `(?i:\bsee\b[^.\n]{0,40}\b(?:above|root cause|in the log before)\b|\bother ranks that (?:didn't|did not)\b|` +
	`\bremote process exited or there was a network error\b|\bcheck rank \d+ logs\b)`

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
	said := cmp.Or(strings.Join(strings.Fields(Printable(logline.Message([]byte(line)))), " "),
		kafkaHeader().ReplaceAllString(line, ""))
	switch behindBar := strings.TrimSpace(progressBar().ReplaceAllString(said, "")); {
	case anyLetter().MatchString(behindBar):
		said = behindBar
	case behindBar != said:
		return worthLittle, said // a progress bar alone
	}
	level := levelOf(line)
	words := noErrorWords().ReplaceAllString(pageAddress().ReplaceAllString(said, ""), "") // that may speak of an error
	switch {
	case saysLittle(line, said, level):
		return worthLittle, said
	case errorCountLine().MatchString(words):
		return errorCount, said
	}
	isError := speaksOfError(said, words)
	switch {
	case level >= logline.Error:
		return worthOfError(said, isError || anyLetter().MatchString(words)), said
	case level == logline.Warning:
		return worthOfWarning(line, said, isError), said
	case level != logline.Unknown:
		return worthLittle, said
	case !isError && onlyTook().MatchString(said):
		return worthLittle, said
	case !isError:
		return ownLine, said
	case compilerWarning().MatchString(said):
		return errorWarning, said
	}
	return worthOfError(said, true), said
}

// saysLittle reports whether a line of a level tells nothing of why its program ends. said is the line without its
// header.
func saysLittle(line, said string, level logline.Level) bool {
	message := withoutPlace(said)
	switch {
	case level == logline.Unknown && saysNothing().MatchString(message): // "usage: train.py [-h]"
		return true
	case level != logline.Unknown && (emptyRecord().MatchString(said) || strings.HasSuffix(said, TracebackStart)):
		return true
	case cudaAdvice().MatchString(message), warningsModule().MatchString(said):
		return true
	}
	return closingLine().MatchString(line) || closingLine().MatchString(said)
}

// speaksOfError reports whether a line speaks of an error, whatever its level. words is what of it may do so.
func speaksOfError(said, words string) bool {
	m := exceptionLine().FindStringSubmatch(said)
	if m != nil && exceptionTypeName().MatchString(m[2]) && !strings.HasSuffix(m[2], "Warning") {
		return true // an exception without a traceback: "ValueError: no data"
	}
	isHeading := strings.HasSuffix(said, ":") // what follows it may speak of an error
	return (saysError().MatchString(words) || refusal().MatchString(words)) && !isHeading &&
		!saysNothing().MatchString(withoutPlace(said))
}

// worthOfError returns the worth of a line at level error, or of one without a level that speaks of an error.
func worthOfError(said string, hasWords bool) worth {
	switch {
	case ToldAbove(said):
		return errorWarning
	case !hasWords:
		return worthLittle
	case OnlyStatus(said):
		return stepFailed
	}
	return anError
}

// worthOfWarning returns the worth of a line at level warning. isError says that it speaks of an error.
func worthOfWarning(line, said string, isError bool) worth {
	switch {
	case isError && nativeRecord().MatchString(line) && !NotBegun(line): // libraries in C++ warn as they start
		return warning
	case isError:
		return errorWarning
	case exitStatus().MatchString(said):
		return stepWarning
	}
	return warning
}

// withoutPlace returns what a line says without the beginning of its record, if that names the place in the program.
func withoutPlace(said string) string { return said[len(recordPlace().FindString(said)):] }

// isPlainError reports whether a line that speaks of an error has no level, and is no exception.
func isPlainError(line string) bool {
	m := exceptionLine().FindStringSubmatch(strings.TrimSpace(Printable(line)))
	return (m == nil || !exceptionTypeName().MatchString(m[2])) && levelOf(line) == logline.Unknown
}

// OnlyStatus reports whether a line says that a step or a program failed, and with which status, but not why.
func OnlyStatus(line string) bool {
	at := exitStatus().FindStringIndex(line)
	return at != nil && !reasonBehind().MatchString(line[at[1]:])
}

// OnlyFailed reports whether a message only says that something failed, and neither why nor with which status.
func OnlyFailed(message string) bool { return onlyFailed().MatchString(message) }

// OfRay reports whether Ray itself printed a line into the log of a driver or a worker.
func OfRay(line string) bool { return rayLine().MatchString(line) || rayError().MatchString(line) }

// RecordLevel returns the level of a line that is a record which a program itself logged in Python; logline.Unknown for
// all other lines.
func RecordLevel(line string) logline.Level {
	if OwnLines(line) == "" || OfRay(line) || nativeRecord().MatchString(line) {
		return logline.Unknown
	}
	return levelOf(line)
}

// levelOf returns the level of a line. All lines of npm below an error have that of the error: their words count.
func levelOf(line string) logline.Level {
	if strings.HasPrefix(line, "npm ") {
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
		if levelOf(line) < logline.Error || cppPlace().MatchString(line) || OnlyStatus(whole) {
			continue
		}
		if worth, _ := worthOf(line); worth != worthLittle {
			return true
		}
	}
	return false
}

// waitWords matches what programs print while they wait for something or try again, and what a replica of Serve logs of
// a request for which nobody waited any longer.
var waitWords = lazyregexp.New(`(?i)\b(?:wait\w*|retry\w*|retries|attempt\w*|not ready|pending|unreachable|refused|` +
	`reset by peer|timed? ?out|trying|connecting|reconnect\w*|` +
	`unavailable|sleeping|blocked|locked|barrier|rendezvous|listening|CANCELLED [\d.]+ms)\b`)

var (
	// notBegun matches why a process could not begin what others then wait for: its port was taken, or its interface or
	// its GPU was not there.
	notBegun = lazyregexp.New(`(?i)\baddress already in use\b|\bEADDRINUSE\b|` +
		`\bport \d+ (?:is|was) (?:already )?(?:in use|taken|allocated|occupied)\b|` +
		`\b(?:fail(?:ed|s)? to|unable to|could not|cannot|can't) (?:bind|listen)\b|\bno socket interface found\b|` +
		`\bunable to find (?:address|interface) for\b|` +
		`\bno such (?:device|interface)\b|\binterface \S{1,40} (?:was )?(?:not found|does not exist)\b|` +
		`\bno CUDA-capable device\b|\binvalid device ordinal\b|` +
		`\bno CUDA GPUs are available\b|\bdriver version is insufficient\b|\bdriver on your system is too old\b`)
	// begunAnyway matches what such a process does then, or that only another protocol than IPv4 was not there.
	begunAnyway = lazyregexp.New(`(?i)\b(?:trying|retrying|using|instead|fall(?:ing)? back)\b|errno: 97\b`)
)

// NotBegun reports whether a line says why a process could not begin something.
func NotBegun(line string) bool {
	return notBegun().MatchString(line) && !begunAnyway().MatchString(line)
}

// ToldAbove reports whether a text only refers to an error that was told before it.
func ToldAbove(text string) bool { return seeAbove().MatchString(text) }

// AboutWaits reports whether a line tells of a wait. A replica of Serve that ends waits for its requests: that is what
// it was told to do.
func AboutWaits(line string) bool {
	return waitWords().MatchString(line) && !strings.Contains(line, "Waiting for an additional ")
}

// noNodeType matches what Ray prints of the autoscaler if no type of its nodes has what something waits for.
var noNodeType = lazyregexp.New(`^(?:\x1b\[\d+m)?\(autoscaler [^)\n]*\)(?:\x1b\[0m)? Error: (No available node types [^\n]*?\})`)

// requestDropped matches what Serve prints of a request that it refused, because too many others waited.
var requestDropped = lazyregexp.New(` -- (Request dropped due to backpressure \([^)\n]*\))`)

// routineLine matches the source of lines that Ray prints of each run: the progress of a dataset, with what is pending,
// and the end of a compiled graph, which waits for its tasks.
var routineLine = lazyregexp.New(`\b(?:logging_progress|compiled_dag_node)\.py:`)

// LastWaitOfRay returns the last line about a wait that Ray or one of its libraries printed into a driver's log after
// the driver was connected, as Tune does when the time for its trials is over; "" if there is none. What the autoscaler
// could not provide counts only with ofAutoscaler.
func LastWaitOfRay(log string, ofAutoscaler bool) string {
	log = lastText(log)
	for _, line := range slices.Backward(strings.Split(log[max(0, strings.LastIndex(log, Connected)):], "\n")) {
		if m := noNodeType().FindStringSubmatch(line); m != nil && ofAutoscaler {
			return Clip(m[1], MaxTitle)
		}
		if m := requestDropped().FindStringSubmatch(line); m != nil {
			return m[1]
		}
		source, said, _ := strings.Cut(line, " -- ")
		if rayLine().MatchString(line) && waitWords().MatchString(said) && !routineLine().MatchString(source) {
			return Clip(Printable(said), MaxTitle)
		}
	}
	return ""
}

var (
	// pythonWarning matches what the module warnings prints, also with the mark of a worker before it.
	pythonWarning = lazyregexp.New(`(?m)^[^\n]{0,400}?\.py:\d{1,6}: \w*Warning: ([^\n]{1,1000})$`)
	// gpuWarning matches a warning that says why a program finds no GPU, or cannot use it.
	gpuWarning = lazyregexp.New(`\bCUDA initialization\b|` +
		`(?i:\b(?:driver|CUDA version)\b.{0,60}\b(?:too old|outdated|insufficient|mismatch\w*)\b|` +
		`\bCUDA capability sm_\d+ is not compatible\b)`)
	// aboutGPU matches the exceptions that follow from it: "No CUDA GPUs are available".
	aboutGPU = lazyregexp.New(`(?i)\b(?:CUDA|GPUs?|NVIDIA|NCCL|NVML|kernel image|fp16|bf16|(?:half|mixed) precision)\b`)
	// versionWarning matches a warning that versions do not fit: "numpy>=1.22 is required".
	versionWarning = lazyregexp.New(`(?i)\bfrom version \S+ when using version\b|\bversion\b.{0,60}\bis required\b|` +
		`\bversion mismatch\b|` +
		`\b(?:compiled|built) (?:with|against|using)\b.{0,60}\bversion\b|\bdoesn't match a supported version\b|` +
		`\bnot compatible with\b`)
	// versionErrorType matches the types of the exceptions that follow from it.
	versionErrorType = lazyregexp.New(`^(?:\w*Import|ModuleNotFound|Attribute|Type|Value|Key)Error$`)
	longWord         = lazyregexp.New(`[A-Za-z]\w{4,}`)
)

// WarningAbout returns the last warning of Python at the end of a log that explains an exception: about GPUs if the
// exception is about one, or about versions of something that the exception names; "" if there is none.
func WarningAbout(log string, e Exception) string {
	said := e.String()
	all := pythonWarning().FindAllStringSubmatch(Printable(lastText(log)), -1)
	for _, m := range slices.Backward(all) {
		warning := m[1]
		aboutGPUs := gpuWarning().MatchString(warning) && aboutGPU().MatchString(said)
		aboutVersions := versionWarning().MatchString(warning) && versionErrorType().MatchString(e.Type) &&
			shareName(warning, e.Message)
		if aboutGPUs || aboutVersions {
			why, _, _ := strings.Cut(warning, " Please ") // what to do about it
			return Clip(why, MaxMessage)
		}
	}
	return ""
}

// shareName reports whether two texts have a word in common that is more than an English word for versions.
func shareName(a, b string) bool {
	common := []string{"version", "required", "using", "error", "import", "failed", "object", "module", "attribute"}
	words := longWord().FindAllString(strings.ToLower(b), 50)
	return slices.ContainsFunc(longWord().FindAllString(strings.ToLower(a), 200), func(word string) bool {
		return !slices.Contains(common, word) && slices.Contains(words, word)
	})
}
