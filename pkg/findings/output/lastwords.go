package output

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

const (
	maxLastText  = 64 << 10 // bytes at the end of a log that are looked at
	maxLastLines = 12       // lines of the program's own among them that are no records below an error
)

var (
	// ofRay matches lines that Ray prints into the log of a job.
	ofRay = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t(?:INFO|DEBUG|WARNING) \S+\.py:\d+ -- |^Running entrypoint for job |^Reporting training result \d+: |^- \(ip=[\d.]+, pid=\d+\) |^\[notice\] |^WARNING: There was an error checking the latest version of pip|^\[State Transition\] |` +
		`^\*\*\* SIGTERM received at |^PC: @ +0x|^@ +(?:0x|\.\.\. )`)
	// rayError matches errors that Ray itself reports to a driver or a worker, in Python or C++, and marks that it puts
	// into workers' logs.
	rayError = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t\w+ \S+\.py:\d+ -- |^\[\d{4}-\d\d-\d\d [^\]]* [A-Z] \d+ \d+\]|^:(?:job_id|actor_name|task_name):|^Exception raised in creation task: |^E\d{4} .*\.(?:cc|cpp):\d+\]`)
	// names an error, also in other languages: what shells, pip, argparse, compilers and most programs print before
	// they end with an exit code.
	saysError = lazyregexp.New(`(?i)\b(?:\w*error|fatal|critical|panic|exception|cannot|can't|could not|couldn't|unable to|fails? to|failed|failure|invalid|unrecognized|unrecognised|` +
		`denied|refused|aborted|aborting|missing|\w*killed|undefined|unexpected|is (?:a )?required|gave up|giving up|unbound variable|(?:did not|didn't) (?:answer|respond|reply)|(?:no|not) (?:such|found|matching|space|enough|set|defined|permitted|exist|a valid)\b|` +
		`not found|does not exist|doesn't exist|no module named|unknown \w+|unsupported|not supported|syntax error|segmentation fault|core dumped|` +
		`(?:exceeded|exhausted|expired|rejected|revoked|forbidden|unauthori[sz]ed|unreachable|unavailable|corrupt(?:ed)?|truncated|malformed|mismatch|incompatible)\b)|` +
		`fehler\b|fehlgeschlagen|nicht gefunden|erreur|échec|introuvable|errore\b|\berro\b|\bfalha\b|\bfallo\b|ошибк|エラー|失敗|错误|失败|錯誤`)
	// saysNothing matches lines that only say that a program ends, after another one has said why, or where to read
	// more.
	saysNothing = lazyregexp.New(`(?i)^(?:please|look|see|to see|set the|run with|re-?run|refer|for (?:more|further|full|details|debugging|simplicity)|compile with|you can suppress|CUDA kernel errors might)\b|\bsuppress_errors = |^additional grpc error information\b|^:unknown:|\blook (?:above|below)\b|error is not recoverable|^(?:\w+: )?hint\b|` + seeAbove + `|` +
		`\*\*\* .*error \d+$| -- request failed\.$|^(?:error|failed|failure|aborting|aborted)[.!]*$`)
	toldAbove = lazyregexp.New(`(?i)` + seeAbove)
	// noMessage matches a record that has a time and a level before the place in the program that it is from, and no
	// more.
	noMessage = lazyregexp.New(`^[\d :.,TZ|-]*(?:[A-Z]+[\d :.,TZ|-]+)?\[[\w./-]+\.py:\d+\]:?$`)
	// closing matches what programs, asyncio, Maven and compilers print at any level after their last error, and says
	// no more.
	closing = lazyregexp.New(`(?i)^\[ERROR\] (?:(?:-> )?\[Help|(?:To see the full|Re-run Maven|For more)\b)|` +
		`^(?:[\w./-]+: |.{0,60}\b(?:ERROR|CRITICAL|FATAL)\W{1,4}(?:[\w.]+\W{1,3})?)?(?:exiting(?: now| with (?:failure )?(?:status|code).*)?\.?$|unclosed (?:client session|connect(?:or|ion))\b|task was destroyed but it is pending|see (?:the )?(?:errors? |log |root cause |stack trace )?\(?above\b)|` +
		`due to (?:the |\d+ )?(?:previous|above) errors?\b`)
	// bar matches a progress bar, as tqdm prints it, before what was printed on the same line.
	bar = lazyregexp.New(`^[^|]{0,100}\d+%\|[^|]*\|(?:[^\]]{0,100}\]|[ \d.kMG/]*$)`)
	// counts matches the line in which tools for tests and checks only count what they have told before: pytest,
	// unittest, jest, mypy, ESLint, Go, dbt, Ansible. pytest also repeats it, as much as the terminal's width allows.
	counts = lazyregexp.New(`(?i)^[\s=✖!]*(?:(?:tests?|test suites?|found|ran)?:?\s*(?:\d+ \w+, )*\d+ (?:failed|failing|failures?|errors?|problems?)\b|(?:failed|errors?) \((?:failures|errors)=\d+|(?:interrupted:|stopping after) \d+|` +
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
)

// seeAbove is an expression for the words that an error was told before.
const seeAbove = `see (?:the )?(?:errors? |root cause |stack trace )?\(?above`

// LastWords returns the line at the end of a program's output that says best why the program ended: what the runtime of
// its language says of a crash, or else of its own last lines the last one of the best kind. An error counts more that
// the program printed last, behind the stack of a crash. Lines of Ray and of its workers do not count. It returns "" if
// there is no line.
func LastWords(log string) string {
	if said := LastCrash(log); said != "" {
		return said
	}
	var last [worthLittle + 1]string
	looked, below, cause := 0, "", ""
	failed := false // a cause speaks of an error
	for line := range lastOwn(log, ofRay().MatchString) {
		worth, said := worthOf(line)
		if inner, ok := strings.CutPrefix(said, "Caused by: "); ok { // the last one is the root
			cause, failed = cmp.Or(cause, inner), failed || worth == anError
			continue
		}
		byRay := rayError().MatchString(line)
		switch {
		case cause != "" && worth == anError && !byRay:
			return Clip(said+", caused by: "+cause, MaxTitle)
		case failed && worth != errorWarning && worth != warning: // not what a warning was about
			return Clip(cause, MaxTitle)
		}
		last[ownLine] = cmp.Or(last[ownLine], cause) // of nothing that speaks of an error
		cause, failed = "", false
		if worth == anError && byRay {
			worth = errorWarning
		}
		if worth == anError {
			if goesOn(said) {
				said += " " + below
			}
			return Clip(strings.TrimSpace(said), MaxTitle)
		}
		below = said
		if last[worth] == "" {
			last[worth] = said
		}
		if worth == ownLine {
			if looked++; looked == maxLastLines {
				break
			}
		}
	}
	return Clip(cmp.Or(cause, cmp.Or(last[:]...)), MaxTitle)
}

// LastCrash returns what the runtime of a program said of a crash, or else the error that was printed last behind its
// stack; "" if there was no crash.
func LastCrash(log string) string {
	crash, at := Crash(log)
	if at < 0 {
		return ""
	}
	said := LastError(behindStack(log[at:]))
	if said == "" || strings.Contains(crash, said) || ofCrash().MatchString(said) ||
		strings.HasPrefix(said, "Caused by: ") { // Java's, between two stacks
		return crash
	}
	return said
}

// ofCrash matches what shells ("run.sh: line 28:  1058 Killed", "Killed    python a.py") and runtimes print of a crash
// behind its stack. A program that goes on behind the word says itself what happened: "Killed by the quota".
var ofCrash = lazyregexp.New(`\(core dumped\)|^(?:Fatal Python error|Extension modules): |` +
	`^\S+: line \d+: +\d+ ` + endedBySignal + `|^` + endedBySignal + `(?:$| {2})`)

const endedBySignal = `(?:Aborted|Killed|Terminated|Segmentation fault)`

// BeforeSignal returns what a log has above the lines at its end that only say that a signal ended its program.
func BeforeSignal(log string) string {
	for {
		log = strings.TrimRight(log, "\r\n ")
		line := log[strings.LastIndexByte(log, '\n')+1:]
		if !ofCrash().MatchString(line) {
			return log
		}
		log = log[:len(log)-len(line)]
	}
}

// behindStack returns a text from behind its first line and its last one that is indented, as those of stacks are.
func behindStack(text string) string {
	from, at := 0, 0
	for line := range strings.Lines(text) {
		at += len(line)
		if from == 0 || line[0] == ' ' || line[0] == '\t' {
			from = at
		}
	}
	return text[from:]
}

// lastOwn returns the lines at the end of a log that its program printed itself, the last one first, without the names
// of its processes: none of Ray or of its workers, and none that says nothing or only where.
func lastOwn(log string, ofRay func(line string) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		own := OwnLines(log[max(0, len(log)-maxLastText):])
		if end := strings.LastIndex(own, endOfOutput); end >= 0 && strings.Count(own[end:], "\n") <= maxBelow {
			own = own[:end]
		}
		lines := strings.Split(own, "\n")
		for i, line := range slices.Backward(lines) {
			line, above := ownMarked().ReplaceAllString(line, ""), ownMarked().ReplaceAllString(lines[max(0, i-1)], "")
			if i > 0 && frameLine().MatchString(above) && deeper(line, above) ||
				i > 0 && strings.HasPrefix(line, "  ") && ofPython().MatchString(above) {
				continue // the code of the frame, or of what warned
			}
			line = strings.Trim(Printable(string(logline.Visible([]byte(line)))), "│╰─▶ \t")
			if !ofRay(line) && letters().MatchString(line) && !boxed(line) && !frameLine().MatchString(line) &&
				!yield(line) {
				return
			}
		}
	}
}

// endOfOutput is what pip prints below the output of a process that failed. What follows, at most maxBelow lines, only
// says that it did.
const (
	endOfOutput = "[end of output]"
	maxBelow    = 20
)

// deeper reports whether a line is indented more than another one, as the code of a frame is.
func deeper(line, other string) bool {
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	return indent(line) > indent(other)
}

// LastError returns the last line of an output that speaks of an error, among the last few lines that are its program's
// own and says more than that a step failed; "" if there is none.
func LastError(log string) string {
	said, _ := lastError(log)
	return said
}

// LastErrorOrLine is LastError, or else the last of these lines without a level, or that only says that a step failed;
// "" if there is none.
func LastErrorOrLine(log string) string { return cmp.Or(lastError(log)) }

// lastError returns both: the last line that speaks of an error, or else another one.
func lastError(log string) (said, other string) {
	looked := 0
	for line := range lastOwn(log, OfRay) {
		if strings.HasPrefix(line, "Traceback ") || strings.HasPrefix(line, "Exception ignored ") {
			break
		}
		switch worth, text := worthOf(line); {
		case worth == anError && !onlyStatus(text):
			return Clip(text, MaxTitle), ""
		case worth == anError || worth == ownLine:
			other = cmp.Or(other, Clip(text, MaxTitle))
		}
		if looked++; looked == maxErrorLines {
			break
		}
	}
	return "", other
}

// EndsInError reports whether the last line that a program printed itself is about an error.
func EndsInError(log string) (ends bool) {
	lastOwn(log, OfRay)(func(line string) bool {
		worth, _ := worthOf(line)
		ends = worth == anError
		return false
	})
	return ends
}

// ofNative matches records of code in C++. Its threads also report errors after an exception has ended the program.
var ofNative = lazyregexp.New(`\.(?:cc|cpp|cu|h):\d+\b`)

// LogsError reports whether a text has a record at level error that says more than that its program ends, or that a
// process failed.
func LogsError(text string) bool {
	for whole := range strings.Lines(text) {
		line := strings.TrimRight(whole[:min(len(whole), logline.MaxHeader)], "\r\n")
		if logline.Parse([]byte(line), &logline.Clock{}).Level < logline.Error || ofNative().MatchString(line) ||
			onlyStatus(whole) {
			continue
		}
		if worth, _ := worthOf(line); worth != worthLittle {
			return true
		}
	}
	return false
}

var (
	// status matches what says with which status a step or a program failed. What a request returned is none.
	status = lazyregexp.New(`(?i)(?:\b(?:exit(?:ed)?|ended)\b.{0,12}|\b(?:return|non-zero) )\b(?:code|status(?: code)?)\b[ =:]*(?:-?\d+)?|` +
		`\b(?:exit(?:ed)?|ended) with -?\d+|\bexitcode: -?\d+|\bfailed \(\d+\)`)
	// reason matches how a line goes on behind a status if it says why.
	reason = lazyregexp.New(`^\w*\)?: .*\pL`)
)

// onlyStatus reports whether a line says of a step or a program that it failed, and not why.
func onlyStatus(line string) bool {
	at := status().FindStringIndex(line)
	return at != nil && !reason().MatchString(line[at[1]:])
}

// ErrorBefore returns the last error of an output that is not known yet, among the few lines of its program's own at
// the output's end or above an error that is known; or else the line above an error that says with which status a
// step failed; "" if there is none.
func ErrorBefore(log, known string) (above string) {
	looked, hasStatus := 0, false
	for line := range lastOwn(log, OfRay) {
		worth, said := worthOf(line)
		looked++
		switch {
		case worth == anError && !told(known, said):
			return Clip(said, MaxTitle)
		case worth == anError:
			looked, hasStatus = 0, status().MatchString(said)
		case hasStatus && looked == 1 && worth <= ownLine,
			worth == errorWarning && !goesOn(said), worth == warning && status().MatchString(said):
			above = cmp.Or(above, Clip(said, MaxTitle))
		}
		if looked == maxLastLines {
			break
		}
	}
	return above
}

// told reports whether a text has a line, or ends with its end: others repeat an error behind a beginning of their own.
func told(known, line string) bool {
	const endsAlike = 40 // bytes
	return strings.Contains(known, line) || strings.HasSuffix(known, line[max(0, len(line)-endsAlike):])
}

// AboutWaits reports whether a line tells of a wait.
func AboutWaits(line string) bool { return waits().MatchString(line) }

// Plain reports whether a line of a program has no level, or is a warning, and tells of no error.
func Plain(line string) bool {
	worth, _ := worthOf(line)
	return worth == ownLine || worth == warning
}

// SaidByWorkers returns the last line about an error that Ray copied from a worker into a driver's log and that is not
// known yet, and what the worker ran, which is none of Ray's own actors. If there is none, it returns the last warning
// that speaks of an error, or the last line of which orElse says that it counts, too; both are "" if there is none.
// isRays says whether a class is one of Ray's own actors.
func SaidByWorkers(log, known string, orElse func(line string) bool, isRays func(class string) bool) (who,
	said string) {
	lines := strings.Split(log[max(0, len(log)-maxLastText):], "\n")
	for i, line := range slices.Backward(lines) {
		m := marked().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		worker := m[1] + m[2] // "" if it has no name
		line = unmarked(line)
		if worker == "" || isRays(worker) || strings.HasPrefix(line, " ") ||
			strings.HasPrefix(line, "ray.exceptions.") || OfRay(line) || saysNothing().MatchString(line) ||
			closing().MatchString(line) {
			continue // also code and frames of a traceback, and what Ray passed on
		}
		worth, message := worthOf(line)
		switch {
		case told(known, message),
			worth != anError && strings.HasSuffix(message, ":"): // the heading of what follows
		case worth == anError && goesOn(message) && i+1 < len(lines):
			below := Printable(unmarked(lines[i+1]))
			return Printable(worker), Clip(message+" "+strings.TrimSpace(below), MaxTitle)
		case worth == anError:
			return Printable(worker), Clip(message, MaxTitle)
		case said == "" && (worth == errorWarning || orElse(line)):
			who, said = Printable(worker), Clip(message, MaxTitle)
		}
	}
	return who, said
}

// OfRay reports whether Ray itself printed a line into the log of a driver or a worker.
func OfRay(line string) bool { return ofRay().MatchString(line) || rayError().MatchString(line) }

const maxErrorLines = 5 // lines at the end of an output in which its last error is looked for

// What a last line is worth, the best first.
const (
	anError      = iota // a record at level error, or a line that speaks of an error
	errorWarning        // a warning that speaks of an error, or an error that was told above
	errorCount          // how many errors were told before
	ownLine             // a line without a level
	warning
	worthLittle
)

// worthOf returns what a line is worth as a program's last one, and what it says.
func worthOf(line string) (worth int, said string) {
	said = cmp.Or(strings.Join(strings.Fields(Printable(logline.Message([]byte(line)))), " "), line)
	if rest := strings.TrimSpace(bar().ReplaceAllString(said, "")); letters().MatchString(rest) {
		said = rest
	} else if rest != said {
		return worthLittle, said // a bar alone
	}
	plain := address().ReplaceAllString(said, "")
	plain = noError().ReplaceAllString(plain, "")
	speaks := (saysError().MatchString(plain) || refuses().MatchString(plain)) &&
		!saysNothing().MatchString(said) && !strings.HasSuffix(said, ":") // the heading of what follows
	if m := raised().FindStringSubmatch(said); m != nil && typical().MatchString(m[2]) &&
		!strings.HasSuffix(m[2], "Warning") {
		speaks = true // an exception without a traceback
	}
	switch level := logline.Parse([]byte(line), &logline.Clock{}).Level; {
	case level == logline.Unknown && saysNothing().MatchString(said), ofPython().MatchString(said),
		level != logline.Unknown && noMessage().MatchString(said),
		closing().MatchString(line), closing().MatchString(said):
		return worthLittle, said
	case counts().MatchString(plain):
		return errorCount, said
	case level == logline.Warning && speaks, level >= logline.Error && toldAbove().MatchString(said):
		return errorWarning, said
	case level >= logline.Error && (speaks || letters().MatchString(plain)), level == logline.Unknown && speaks:
		return anError, said
	case level == logline.Unknown:
		return ownLine, said
	case level == logline.Warning:
		return warning, said
	}
	return worthLittle, said
}

// waits matches what programs print while they wait for something or try again, and what a replica of Serve logs of a
// request for which nobody waited any longer.
var waits = lazyregexp.New(`(?i)\b(?:wait\w*|retry\w*|retries|attempt\w*|not ready|pending|unreachable|refused|reset by peer|timed? ?out|trying|connecting|reconnect\w*|` +
	`unavailable|sleeping|blocked|locked|barrier|rendezvous|listening|CANCELLED [\d.]+ms)\b`)

const maxRepeats = 400 // lines at the end of a log in which repeated ones are counted

// Repeated returns the last line of a program's output if it tells of a wait or an error, and how often that line,
// apart from its numbers, is among the last lines. It returns "" if the last line tells of something else. Lines of Ray
// and of its workers do not count.
func Repeated(log string) (line string, times int) {
	common, looked := "", 0
	for said := range lastOwn(log, ofRay().MatchString) {
		normal := Normalised(said)
		if times == 0 {
			if !waits().MatchString(said) && !saysError().MatchString(said) {
				return "", 0
			}
			line, common = said, normal
		}
		if normal == common {
			times++
		}
		if looked++; looked == maxRepeats {
			break
		}
	}
	return line, times
}
