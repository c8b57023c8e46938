package output

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// candidate is what a program, or one of its workers, may have said of its end.
type candidate struct {
	statement
	said  string // the statement without its header, with what belongs to it
	worth worth
	who   string // the worker, and what it ran; "" for the program itself
	// heading says that the traceback of what the worker raised stands below it.
	heading bool
	// passing says that the program went on after it if it printed more: Ray, or a library in C++, reported an error.
	passing bool
	crashed bool // the runtime of the worker's language said why it ended
}

// question says which candidates count, the best first, and how many lines at the end of an output are looked at.
type question struct {
	best             [][]worth // those of one list are as good as each other
	maxOwn, maxLines int       // lines that may count as ownLine, and all lines; 0: any number
	belowTraceback   bool      // only lines below the last traceback count
	bareIsStep       bool      // an error that only says that something failed counts as stepFailed
}

var (
	// endQuestion asks for what says best why a program ended. Records below an error may be many.
	endQuestion = question{best: [][]worth{{anError, stepFailed}, {errorOfRay, errorWarning}, {errorCount},
		{aboveStep}, {ownLine}, {warning, stepWarning}, {worthLittle}}, maxOwn: maxLastLines}
	errorQuestion       = question{best: [][]worth{{anError}}, maxLines: maxErrorLines, belowTraceback: true}
	errorOrLineQuestion = question{best: [][]worth{{anError}, {stepFailed, ownLine, aboveStep}},
		maxLines: maxErrorLines, belowTraceback: true}
	// earlierErrorQuestion asks for what was said of another error before the last one.
	earlierErrorQuestion = question{best: [][]worth{{anError}, {aboveStep, errorWarning, stepWarning}, {stepFailed}},
		maxLines: maxLastLines, bareIsStep: true}
	warningQuestion = question{best: [][]worth{{warning, stepWarning}}, maxLines: maxLastLines}
	workersQuestion = question{best: [][]worth{{asked}, {anError}, {stepFailed}, {errorWarning, askedNext},
		{askedThird}, {askedLast}}, bareIsStep: true}
)

const (
	maxLastLines  = 12
	maxErrorLines = 5
)

// answer returns the best of the candidates, and of several alike the first; the zero candidate if none counts.
// candidates come in the order from the output's end. A candidate that known, a text, tells does not count; behind a
// known error the counting of lines begins anew.
func (q question) answer(candidates iter.Seq[candidate], known string) (found candidate) {
	foundRank := len(q.best) // that of found in q.best: the less the better
	own, lines := 0, 0       // how many lines were looked at: without a level, and in all
	told := ""               // the worker that said the last known error
	message := onlyWords(known[strings.LastIndex(known, ": ")+1:])
	ofCollective := strings.Contains(known, CollectiveTimeout)
	known = onlyWords(known)
	for c := range candidates {
		beginsTraceback := strings.HasPrefix(c.said, TracebackStart) || strings.HasPrefix(c.said, "Exception ignored ")
		if beginsTraceback && c.who == "" {
			if q.belowTraceback {
				break
			}
			continue
		}
		if q.bareIsStep && c.worth == anError && onlyFailed().MatchString(withoutPlace(c.said)) {
			c.worth = stepFailed
		}
		rank := slices.IndexFunc(q.best, func(alike []worth) bool { return slices.Contains(alike, c.worth) })
		switch {
		case c.worth == errorOfRay && rank < 0:
			continue
		case c.passing && own > 0: // the program printed more below it: it went on
			continue
		case c.heading && c.who == told, // that error was in the traceback
			strings.Contains(c.said, CollectiveTimeout) && ofCollective:
			continue
		case repeated(known, c.said), len(message) >= minMessage && triesAgain().MatchString(c.said) &&
			strings.Contains(onlyWords(c.said), message):
			if c.worth == anError || c.worth == stepFailed {
				own, lines, told = 0, 0, c.who
				continue
			}
		case rank >= 0 && rank < foundRank:
			if found, foundRank = c, rank; rank == 0 {
				return found
			}
		}
		if lines++; c.worth == ownLine || c.worth == aboveStep {
			own++
		}
		if own == q.maxOwn && own > 0 || lines == q.maxLines {
			break
		}
	}
	return found
}

// CollectiveTimeout is what torch says, in several lines, as it ends a process that had waited for others.
const CollectiveTimeout = "collective operation timeout"

const minMessage = 16 // letters and figures: of a shorter message other lines may have the words

// triesAgain matches what tells of an error before its next attempt.
var triesAgain = lazyregexp.New(`(?i)\b(?:retry|retries|attempt)`)

// repeated reports whether a known text, as onlyWords returns it, has the words of a line, or ends as the line does:
// whoever repeats an error may put something before it, or other quotes around it.
func repeated(known, line string) bool {
	const endsAlike = 40 // bytes
	begin, end := onlyWords(Clip(line, MaxTitle)), onlyWords(line[max(0, len(line)-endsAlike):])
	return begin != "" && strings.Contains(known, begin) || end != "" && strings.HasSuffix(known, end)
}

// onlyWords returns the letters and digits of a text.
func onlyWords(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

// ownCandidates returns what a program itself said at the end of its log, from the end on.
func ownCandidates(log string) iter.Seq[candidate] { return candidates(ownEnd(log), "") }

// candidates returns what one process said, from the end of what it printed on; who is "" for the program itself. An
// error and its cause are one candidate, and so are an error and the lines below that it needs.
func candidates(printed, who string) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		// Of what stands below the statement that is read: the cause that it says, whether it says how a step ended,
		// the nearest statement, and the candidates of which an error may need the words, the nearest last.
		cause, belowIsStep, next, below := candidate{}, false, "", []candidate{}
		reasonsOfPip := sync.OnceValue(func() map[string]string { return pipReasons(printed) })
		for s := range statementsBackward(printed) {
			c, counts := candidateOf(s, who, next)
			if next = s.text; !counts {
				continue
			}
			alone := c.said // without what complete and join add
			if m := pipNoVersion().FindStringSubmatch(c.said); m != nil && cause.said == "" {
				requirement := m[1]
				cause = candidate{said: reasonsOfPip()[requirement], worth: anError}
			}
			switch inner, isCause := strings.CutPrefix(c.said, causedByText); {
			case isCause:
				c.said = inner
				cause = cause.or(c)
				continue
			case cause.said == "":
				below = c.complete(below)
			case !c.join(cause):
				if slices.Contains([]worth{errorWarning, stepWarning, warning}, c.worth) {
					cause.worth = ownLine // a warning was about it
				}
				below = append(below, cause)
			}
			if belowIsStep && (c.worth == ownLine || c.worth == errorCount) {
				c.worth = aboveStep
			}
			for below = append(below, c); len(below) > maxJoined; below = below[1:] {
				if !yield(below[0]) {
					return
				}
			}
			belowIsStep = c.isError() && exitStatus().MatchString(alone) || stepOfMake().MatchString(alone)
			cause = candidate{}
		}
		if cause.said != "" {
			cause.worth = anError
			below = append(below, cause)
		}
		for _, c := range below {
			if !yield(c) {
				return
			}
		}
	}
}

// candidateOf returns what a statement of a process says; next is the one below it. counts is false for an error that
// Ray logged and that says little.
func candidateOf(s statement, who, next string) (c candidate, counts bool) {
	c = candidate{statement: s, who: who, passing: nativeRecord().MatchString(s.text)}
	c.worth, c.said = worthOf(s.text)
	crash, at := "", -1
	if who != "" {
		crash, at = CrashInPython(s.text + "\n" + next)
		c.heading = strings.HasSuffix(next, TracebackStart)
	}
	switch {
	case at == 0:
		c.said, c.worth, c.passing, c.crashed = crash, anError, false, true
	case !rayError().MatchString(s.text), systemRefusal().MatchString(s.text):
	case c.worth > errorWarning:
		return c, false
	default:
		c.worth, c.passing = errorOfRay, true
	}
	return c, true
}

// join adds a cause that stands below the candidate, and reports whether the candidate may have that cause.
func (c *candidate) join(cause candidate) bool {
	switch {
	case c.worth != errorOfRay && strings.HasSuffix(c.said, ":"):
		c.said, c.worth = c.said+" "+cause.said, min(c.worth, cause.worth)
	case c.isError():
		c.said = strings.TrimSuffix(c.said, ".") + ", caused by: " + cause.said
	default:
		return false
	}
	return true
}

// isError reports whether the candidate is an error.
func (c candidate) isError() bool { return c.worth == anError || c.worth == stepFailed }

// or returns c, or above if c says nothing: of two causes that stand below each other, the lower one is the root. If
// only the upper one has an address, it returns both. The result counts as an error if one of them is an error.
func (c candidate) or(above candidate) candidate {
	worth := ownLine
	if c.said != "" && c.isError() || above.isError() {
		worth = anError
	}
	if c.said != "" && pageAddress().MatchString(above.said) && !pageAddress().MatchString(c.said) {
		c.said = above.said + ": " + c.said
	}
	above.said, above.worth = cmp.Or(c.said, above.said), worth
	return above
}

// maxJoined is how many lines an error may need that stand below it.
const maxJoined = 2

// complete adds to an error that says little the line below it, and the next one if the first has only the name of a
// field. Of a heading, as that of NCCL's last error, it takes the line below it. below are the candidates below, the
// nearest last, and rest those that still count: lines that are indented below such an error are parts of it.
func (c *candidate) complete(below []candidate) (rest []candidate) {
	nearest := len(below) - 1
	switch {
	case nearest < 0 || c.said == "":
		return below
	case reasonHeading().FindString(c.said) == c.said:
		c.said, c.worth = below[nearest].said, anError
		return below
	case !c.isError() || !needsNextLine(c.said) && !continuation().MatchString(below[nearest].said):
		return below
	}
	ofField := fieldErrorsBelow().MatchString(c.said)
	c.said = strings.TrimSpace(c.said + " " + below[nearest].said)
	if ofField && nearest > 0 {
		c.said += " " + below[nearest-1].said
	}
	return slices.DeleteFunc(below, func(part candidate) bool { return part.margin > c.margin })
}

// workerOutput is what a worker printed, as Ray copied it into a driver's log.
type workerOutput struct {
	who     string
	printed strings.Builder
	lines   []int // of each line its number in the log
}

// outputsOfWorkers returns what each worker printed, from the lines that Ray copied into the end of a driver's log.
// isRays reports whether a class is one of Ray's own actors, whose lines do not count.
func outputsOfWorkers(log string, isRays func(class string) bool) (all []*workerOutput) {
	byMark, number, ranks := map[string]*workerOutput{}, 0, ranksOfProcesses(log)
	for line := range strings.Lines(lastText(log)) {
		number++
		m := workerMark().FindStringSubmatch(line)
		if m == nil {
			continue
		}
		mark, name := strings.TrimRight(m[0], " "), m[1]+m[2] // one of the two groups is what the worker ran
		w, known := byMark[mark]
		if who := Printable(name); !known && who != "" && !isRays(name) {
			w = &workerOutput{who: who}
			if rank := ranks[processID().FindString(mark)]; rank != "" && strings.HasPrefix(name, "RayTrainWorker") {
				w.who = rank // on another node another process may have the same ID
			}
			all = append(all, w)
		}
		byMark[mark] = w
		if w != nil {
			printed := strings.TrimSuffix(withoutMarks(line), "\n")
			printed = cmp.Or(string(logline.Expand([]byte(printed))), printed) + "\n" // a record may have an exception
			w.printed.WriteString(printed)
			w.lines = append(w.lines, slices.Repeat([]int{number}, strings.Count(printed, "\n"))...)
		}
	}
	return all
}

var (
	// rankStarted matches what Train's controller prints of each process of a group (worker_group.py).
	rankStarted = lazyregexp.New(`- \(ip=\S+, (pid=\d+)\) world_rank=(\d+),`)
	processID   = lazyregexp.New(`pid=\d+`)
)

// ranksOfProcesses returns which rank of a Train run each process was, by "pid=12", as a driver's log tells; of a
// process that may be on several nodes nothing.
func ranksOfProcesses(log string) map[string]string {
	ranks := map[string]string{}
	for _, m := range rankStarted().FindAllStringSubmatch(log, -1) {
		rank := "rank " + m[2]
		if before, known := ranks[m[1]]; known && before != rank {
			rank = ""
		}
		ranks[m[1]] = rank
	}
	return ranks
}

// candidates returns what may count of what the worker said; onlyLast and conditions are those of SaidByWorkers. A line
// that the first condition accepts counts in any case, one that is no error if another one does. An error does not
// count either if its process went on after it.
func (w *workerOutput) candidates(onlyLast bool, conditions []func(line string) bool) (all []candidate) {
	plain, harmless := 0, 0 // lines below without a level, and those that tell of no error
	for c := range candidates(w.printed.String(), w.who) {
		if !c.crashed && (c.worth == errorOfRay || strings.HasPrefix(c.text, "ray.exceptions.") ||
			saysNothing().MatchString(c.text) || closingLine().MatchString(c.text) || ofChild().MatchString(c.text) ||
			!c.isError() && strings.HasSuffix(c.said, ":")) {
			continue // also what Ray passed on, and the heading of what follows
		}
		if c.worth == anError && !c.crashed && c.margin > 0 && isPlainError(c.text) {
			c.worth = stepFailed // a part of what was printed above, such as a setting "ignore_errors: true"
		}
		if c.worth == ownLine || c.worth == aboveStep {
			plain++
		}
		if c.worth > errorCount {
			harmless++
		}
		wentOn := c.passing && plain > 0 || onlyLast && harmless > maxErrorLines ||
			!c.crashed && plain > maxLastLines && isPlainError(c.text)
		if c.isError() && wentOn {
			continue
		}
		i := slices.IndexFunc(conditions, func(is func(line string) bool) bool { return is(c.text) })
		if i == 0 || i > 0 && c.worth > errorWarning {
			c.worth = asked + worth(i)
		}
		c.line, c.passing = w.lines[c.line], false
		if n := len(all); n > 0 && c.worth == anError && all[n-1].worth == anError && all[n-1].line == c.line+1 &&
			isOfCaller(all[n-1].text, c.text) {
			all[n-1].worth = stepFailed
		}
		all = append(all, c)
	}
	return all
}

// functionOfC matches how functions of C, and parts of FFmpeg, begin what they print.
var functionOfC = lazyregexp.New(`^(?:[a-z]\w*: |\[\S{1,80} @ 0x[0-9a-f]+\] )`)

// isOfCaller reports whether an error is of a function that called the one whose error stands above it: "main: no
// model" below "load_model: bad magic". What a program repeats as it tries again, "curl: (7) …", is of the same one.
func isOfCaller(text, above string) bool {
	caller, called := functionOfC().FindString(text), functionOfC().FindString(above)
	return caller != "" && called != "" && caller != called && !saysError().MatchString(caller+called)
}

// ofChild matches what SGLang says in a process when one that it had started has failed and said why.
var ofChild = lazyregexp.New(`It usually means the child failed`)

// Connected is what a driver of Python prints into its log when it is connected to Ray.
const Connected = "Connected to Ray cluster"

// LastWords returns the line at the end of a program's output that says best why the program ended; "" if there is
// none. What the runtime of its language says of a crash counts most, and otherwise the best of the program's own last
// lines. Lines of Ray and of its workers do not count. What was printed before the program connected to Ray, mostly by
// shells, installers and libraries that it imports, counts only if the program printed nothing of its own after that.
// If its last lines tell of no error, the last record at level error counts.
func LastWords(log string) string {
	crash := LastCrash(log)
	own := ownEnd(log)
	if at := strings.LastIndex(own, Connected); at >= 0 && crash == "" {
		_, behind, _ := strings.Cut(own[at:], "\n")
		if c := endQuestion.answer(candidates(behind, ""), ""); c.said != "" && c.worth <= ownLine && !c.passing {
			return Clip(withFailedBuild(c.said, behind), MaxTitle)
		}
	}
	last := endQuestion.answer(candidates(own, ""), "")
	if crash == "" && (last.said == "" || last.worth == worthLittle) { // the error may be far above
		at := -1
		for _, level := range errorLevels {
			at = max(at, strings.LastIndex(log, level))
		}
		if at >= 0 {
			record, _, _ := strings.Cut(log[at:], "\n")
			crash = LastError(log[:at+len(record)])
		}
	}
	return cmp.Or(crash, Clip(withFailedBuild(last.said, own), MaxTitle))
}

// errorLevels are the levels of records about errors, also as values in JSON and in logfmt.
var errorLevels = []string{"ERROR", "CRITICAL", "FATAL", `"error",`, `"error"}`, `"critical",`, `"critical"}`,
	`"fatal",`, `"fatal"}`, "level=error ", "level=critical ", "level=fatal "}

// LastError returns the last error among the last few lines of a program's own, if it says more than that a step
// failed; "" if there is none.
func LastError(log string) string {
	return Clip(errorQuestion.answer(ownCandidates(log), "").said, MaxTitle)
}

// LastErrorOrLine returns what LastError does. If that is "", it returns the last of these lines that has no level, or
// that only says that a step failed.
func LastErrorOrLine(log string) string {
	return Clip(errorOrLineQuestion.answer(ownCandidates(log), "").said, MaxTitle)
}

// ErrorBefore returns the last error of a program's own that known, a text, does not tell: one of the few lines at the
// output's end, or above an error that known tells. If there is none, it returns a warning of an error, or the line
// above an error that only says with which status a step failed; or else "".
func ErrorBefore(log, known string) string {
	return Clip(earlierErrorQuestion.answer(ownCandidates(log), known).said, MaxTitle)
}

// LastWarning returns the last warning among the last few lines that a program printed itself; "" if there is none.
func LastWarning(log string) string {
	return Clip(warningQuestion.answer(ownCandidates(log), "").said, MaxTitle)
}

// SaidByWorkers returns the last line that Ray copied from a worker into a driver's log, that known, a text, does not
// tell, and that the first condition accepts; or else the last error; said is "" if there is none. who is what the
// worker ran, which is none of Ray's own actors: isRays reports whether a class is one. With onlyLast no error counts
// after which its worker printed more than a few lines that tell of none.
//
// If there is no error, it returns the last warning of one, or line that the second condition accepts; or else a line
// that the third or the fourth accepts. nth is the index of the condition; 0 also stands for errors and warnings. There
// are at most four conditions.
func SaidByWorkers(log, known string, isRays func(class string) bool, onlyLast bool,
	conditions ...func(line string) bool) (who, said string, nth int) {
	var all []candidate
	for _, w := range outputsOfWorkers(log, isRays) {
		all = append(all, w.candidates(onlyLast, conditions)...)
	}
	slices.SortStableFunc(all, func(x, y candidate) int { return cmp.Compare(y.line, x.line) })
	c := workersQuestion.answer(slices.Values(all), known)
	for _, other := range all { // who said it first raised it, and others passed it on
		if c.isError() && other.said == c.said {
			c.who = other.who
		}
	}
	return c.who, Clip(c.said, MaxTitle), max(0, int(c.worth-asked))
}

// ofRecord is an expression for the beginning of a record of Ray in a driver's log, chained for tracebacks below it, of
// exceptions each of which the next one followed, with notes on the last one.
const (
	ofRecord = `(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t\w+ \S+\.py:\d+ -- `
	traced   = `(?:(?:[^ \t\n][^\n]*\n(?:    [^\n]*\n)?)?  File [^\n]*\n(?:[ \t][^\n]*\n)*)+[^\n]*`
	chained  = traced + `(?:\n\n(?:` + directCause + `|` + whileHandling + `)\n\n(?:` + traced + `|` +
		`[^ \t\n][^\n]*\n[^\n]*))*(?:\nFailed to apply UDF [^\n]*(?:\nTo change [^\n]*)?)?`
)

var (
	// reportedByRay matches an error that Ray reports with its traceback: of a task whose result nobody took, or of
	// what Ray tries again.
	reportedByRay = lazyregexp.New(ofRecord + `[^\n]*\n` + chained + `$`)
	// wentOnRecord matches the record of what Ray's libraries went on after: a block of Data that is ignored, an actor
	// that is replaced, the copy of an experiment's state.
	wentOnRecord = lazyregexp.New(ofRecord + wentOnAfter)
	// wentOnWithTraceback matches it with its traceback, and a record with a list below it, as Tune's of trials without
	// metrics.
	wentOnWithTraceback = lazyregexp.New(ofRecord + `(?:` + wentOnAfter + `\n` + chained + `|[^\n]*:(?:\n- [^\n]*)+)$`)
)

const wentOnAfter = `[^\n]*(?:\bIgnoring this exception\b|\bis being ignored\b|\bwill be replaced\b|` +
	`\bstate snapshotting failed:)[^\n]*`

// EndsInError reports whether the last line that a program itself printed is about an error.
func EndsInError(log string) bool {
	for c := range candidates(reportedByRay().ReplaceAllString(ownEnd(log), ""), "") {
		if c.worth != errorOfRay {
			return c.isError()
		}
	}
	return false
}

const (
	maxRepeats = 400 // lines at the end of a log in which repeated ones are counted
	maxTurn    = 4   // lines that a program repeats in turn
)

// Repeated returns the last line of a program's output if it tells of a wait or an error, and how often that line,
// apart from its numbers, is among the last maxRepeats lines; "" if it tells of neither. If a program repeats several
// lines in turn, it returns the last of them that tells of an error, or else of a wait. Lines of Ray and of its workers
// do not count.
func Repeated(log string) (line string, times int) {
	turn, counts := lastTurn(log)
	if len(turn) == 0 {
		return "", 0
	}
	turns := counts[Normalised(turn[0])]
	for i, said := range turn {
		n := counts[Normalised(said)]
		// The lines that are read may begin within a turn: then each line above the last one may be missing once.
		inEachTurn := turns > 2 && n >= turns-1
		if i > 0 && !inEachTurn {
			continue
		}
		switch {
		case saysError().MatchString(said) && (line == "" || turns > 2):
			return said, n
		case line == "" && waitWords().MatchString(said):
			line, times = said, n
		}
	}
	return line, times
}

// lastTurn returns the last of the turns in which a program repeats its lines, the last line first, and how often each
// line, as Normalised has it, is among the last maxRepeats lines. Of "connect to db", "refused (1)", "connect to db"
// and "refused (2)" the turn is "refused (2)" and "connect to db", each of which is there twice. Of lines that are not
// repeated the turn has the last maxTurn.
func lastTurn(log string) (turn []string, counts map[string]int) {
	counts = map[string]int{}
	last, lines := "", 0
	for s := range statementsBackward(ownEnd(log)) {
		said := s.text
		if rayError().MatchString(said) {
			continue
		}
		normalised := Normalised(said)
		if lines == 0 {
			last = normalised
		}
		counts[normalised]++
		if counts[normalised] == 1 && counts[last] == 1 && len(turn) < maxTurn {
			turn = append(turn, said)
		}
		if lines++; lines == maxRepeats {
			break
		}
	}
	return turn, counts
}
