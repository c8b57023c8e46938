package output

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TracebackStart is the first line of a traceback.
const TracebackStart = "Traceback (most recent call last):"

const (
	frame         = "  File " // begins the next line
	directCause   = "The above exception was the direct cause of the following exception:"
	whileHandling = "During handling of the above exception, another exception occurred:"
)

// LastTraceback returns the last traceback in a log, in whatever form, together with the tracebacks above it that led
// to it, and the offset where the text begins; "" and -1 if there is none.
func LastTraceback(log string) (text string, at int) {
	text, at, ended := lastUsualTraceback(log)
	from := 0
	if ended {
		from = at
	}
	// A program that is not compiled may be a module that another one imports: then it is what the traceback is about.
	if other, behind := otherTraceback(log[from:]); behind >= 0 &&
		(!ended || ExceptionOf(log[from:from+behind]).Type != "") {
		return other, from + behind
	}
	return text, at
}

// lastUsualTraceback returns the last traceback in the usual form, and the offset where it begins; -1 if there is none.
// ended is false if its exception did not end its process: such a traceback counts only if there is no other. One of a
// thread counts more than those above it, unless a traceback that begins in the program's module stands just above it.
func lastUsualTraceback(log string) (text string, at int, ended bool) {
	at = -1
	ofThread := false // the text is the traceback of a thread
	for end := len(log); ; {
		from := tracebackBefore(log, end)
		if from < 0 {
			return text, at, false
		}
		chain, first := withCauses(log[:end], from)
		if line, copied := lineStart(log, first); copied {
			end = line
			continue
		}
		if from, to := lineBefore(log, first); wentOnRecord().MatchString(log[from:to]) {
			end = from
			continue
		}
		if heading, thread := asideHeading(log, first); heading >= 0 {
			switch {
			case at < 0:
				text, at, ofThread = log[first:], first, thread
			case thread && !ofThread:
				text, at, ofThread = chain, first, true
			}
			end = heading
			continue
		}
		margin := marginOf(log, from, textBelow(log, from))
		switch {
		case margin != "":
			text, at = withoutMargin(log[:end], margin)
		case !ofThread || FromModule(chain) && strings.Count(Behind(chain, ExceptionOf(chain)), "\n") <= maxLastLines:
			text, at = chain, first
		}
		return text, at, true
	}
}

// ofNPU matches how the messages of torch_npu go on to their end: with records of its own libraries.
var ofNPU = lazyregexp.New(
	`^[^\n]*\n\[ERROR\] \S+ \(PID:\d+, Device:[^\n]*\n(?:\[Error\][^\n]*\n|E[A-Z]\d{4}: [^\n]*\n|[ \t][^\n]*\n)*`)

// Behind returns what a text has behind the last mention of an exception; "" if it has none. Of a long message, of
// which a part was left out, the first part is searched, and the rest of its line is skipped.
func Behind(text string, what Exception) string {
	said, shortened := cmp.Or(what.Message, what.Type), false
	at := strings.LastIndex(text, said)
	if at < 0 {
		said, _, shortened = strings.Cut(said, "…")
		at = strings.LastIndex(text, said)
	}
	if at < 0 || said == "" {
		return ""
	}
	behind := text[at+len(said):]
	if shortened {
		behind = behind[max(0, strings.IndexByte(behind, '\n')):]
	}
	if _, rest, found := strings.Cut(behind, what.Rest); found {
		behind = rest
	}
	return behind[len(ofNPU().FindString(behind)):]
}

// Handled returns the exception that a program handled when it raised the one with which a text ends; the zero
// Exception if it handled none. What a task handled counts only in the task's own text: Ray copies its traceback.
func Handled(text string) (e Exception) {
	text = human.WithoutColours(text)
	at := strings.LastIndex(text, whileHandling)
	if at < 0 {
		return e
	}
	next := strings.TrimLeft(text[at+len(whileHandling):], "\r\n")
	if ofTask := "ray::"; strings.HasPrefix(next, TracebackStart) ||
		strings.HasPrefix(text, ofTask) && strings.HasPrefix(next, ofTask) {
		return ExceptionOf(text[:at])
	}
	return e
}

// CleaningFailed reports whether a text ends with an exception that a library met while it cleaned up after another
// one, which Handled returns: the function that handled the first one is of a library and called the one that raised
// the second.
func CleaningFailed(text string) bool {
	handler, cleaning := handlerOf(text)
	return libraryFile().MatchString(handler) && slices.Contains(cleaning, handler) &&
		cleaning[len(cleaning)-1] != handler
}

// Reworded reports whether a text ends with an exception that a function of the program itself raised in place of one
// that it had handled.
func Reworded(text string) bool {
	handler, raising := handlerOf(text)
	return len(raising) > 0 && raising[len(raising)-1] == handler && !libraryFile().MatchString(handler)
}

// handlerOf returns the function that handled the exception that Handled returns, and the functions through which the
// next exception went, the outermost first. Each has its file before its name. They are empty if nothing was handled.
func handlerOf(text string) (handler string, next []string) {
	at := strings.LastIndex(text, whileHandling)
	if at < 0 {
		return "", nil
	}
	handled := frameFunctions(text[max(0, strings.LastIndex(text[:at], TracebackStart)):at])
	if len(handled) == 0 {
		return "", nil
	}
	return handled[0], frameFunctions(text[at:])
}

// frameFunctions returns the functions of a text's frames in their order, each behind its file.
func frameFunctions(text string) (all []string) {
	for line := range strings.Lines(text) {
		if m := pythonFrame().FindStringSubmatch(line); m != nil {
			all = append(all, m[1]+" "+m[2])
		}
	}
	return all
}

// moduleTraceback matches the beginning of the traceback of an exception that nothing in its program caught: its first
// frame is that of the program's module. The groups are the frame's file and line.
var moduleTraceback = lazyregexp.New(`^Traceback \(most recent call last\):\n  File "([^"\n]*)", line (\d+), in (?:<module>|_run_module_as_main)\n`)

// moduleFrame returns file and line of the frame of a program's module with which a text's traceback begins; line is ""
// if it begins with another frame.
func moduleFrame(text string) (file, line string) {
	m := moduleTraceback().FindStringSubmatch(text)
	if m == nil {
		return "", ""
	}
	return m[1], m[2]
}

// FromModule reports whether the last traceback of a text begins with the frame of a program's module, as that of an
// exception does which nothing caught.
func FromModule(text string) bool { return moduleTraceback().MatchString(fromLastTraceback(text)) }

// fromLastTraceback returns a text from the last traceback on that begins a line. Others are parts of messages.
func fromLastTraceback(text string) string {
	return text[strings.LastIndex(text, "\n"+TracebackStart)+1:]
}

// EndOfAnother returns the exception that ended an earlier program of the same entrypoint; the zero Exception if there
// was none. end is the offset of the traceback of the exception that ended the entrypoint, here of the second one:
//
//	Traceback (most recent call last):
//	  File "/app/prepare.py", line 9, in <module>
//	FileNotFoundError: /data/in.csv
//	Traceback (most recent call last):
//	  File "/app/train.py", line 20, in <module>
//	ValueError: there is no data
//
// An exception that a program handled and printed does not count. Its traceback rarely begins in the program's module.
// If it does, then the module went on to another of its lines, where the traceback at end begins.
//
// A traceback does not count either if the last line before end has a colon at its end: that line announces the
// traceback at end, and both are parts of one message.
func EndOfAnother(log string, end int) (e Exception) {
	earlier, at := LastTraceback(log[:end])
	if at < 0 || strings.HasSuffix(strings.TrimSpace(log[:end]), ":") {
		return e
	}
	earlierFile, earlierLine := moduleFrame(fromLastTraceback(earlier))
	file, line := moduleFrame(log[end:])
	wentOn := line != "" && file == earlierFile && line != earlierLine
	if earlierLine == "" || wentOn {
		return e
	}
	return ExceptionOf(earlier)
}

// LacksCause reports whether a text begins inside the traceback of an exception from which another one was raised, so
// that the beginning of the traceback is missing.
func LacksCause(text string) bool {
	before, _, found := strings.Cut(text, directCause[len(directCause)/2:])
	return found && !strings.Contains(before, TracebackStart) && !strings.Contains(before, "\n  File ")
}

// queueTraceback matches the traceback that the thread of a queue prints, which has no heading.
var queueTraceback = lazyregexp.New(`^Traceback \(most recent call last\):\n  File "[^"\n]{1,300}/multiprocessing/queues\.py", line \d+, in _feed\n`)

// asideHeading returns the offset of the heading above a traceback whose exception did not end its process: a
// destructor, a function of atexit, a record that could not be logged, a thread, or a coroutine for which nothing waits
// raised it. at is the offset of the traceback. thread says that it was one of the last two. heading is -1 for all
// other tracebacks.
func asideHeading(log string, at int) (heading int, thread bool) {
	if queueTraceback().MatchString(log[at:]) {
		return at, false
	}
	from, to := lineBefore(log, at)
	line := log[from:to]
	switch {
	case strings.HasPrefix(line, "Exception ignored "), strings.HasPrefix(line, "Error in atexit"),
		line == "--- Logging error ---":
		return from, false
	case strings.HasPrefix(line, "Exception in thread "):
		return from, true
	case strings.HasPrefix(line, "future: "), strings.HasPrefix(line, "handle: "):
		from, to = lineBefore(log, from)
		line = log[from:to]
	}
	if strings.Contains(line, " exception was never retrieved") || strings.Contains(line, "Exception in callback ") {
		return from, true
	}
	return -1, false
}

// LastThread returns the exception of the last thread or coroutine that failed; the zero Exception if none did.
func LastThread(log string) (what Exception) {
	for end := len(log); ; {
		from := tracebackBefore(log, end)
		if from < 0 {
			return what
		}
		text, first := withCauses(log[:end], from)
		if _, thread := asideHeading(log, first); thread {
			return ExceptionOf(text)
		}
		end = first
	}
}

// lineBefore returns where the line before the one that begins at an offset begins and ends.
func lineBefore(log string, at int) (from, to int) {
	to = max(0, at-1)
	return strings.LastIndexByte(log[:to], '\n') + 1, to
}

// withCauses returns the traceback at an offset together with the tracebacks above it that led to it, and the offset at
// which the first of them begins. That may be behind a worker's mark: Ray puts it only before the first line of a
// message.
func withCauses(log string, at int) (text string, from int) {
	for {
		before := strings.TrimRight(log[:at], "\r\n ")
		if !strings.HasSuffix(before, directCause) && !strings.HasSuffix(before, whileHandling) {
			return log[at:], at
		}
		if cause := causeAlone(before); cause >= 0 {
			return log[cause:], cause
		}
		earlier := strings.LastIndex(before, TracebackStart)
		if _, copied := lineStart(before, max(0, earlier)); !copied {
			earlier = tracebackBefore(log, len(before))
		}
		if earlier < 0 {
			return log[at:], at
		}
		at = earlier
	}
}

// qualifiedException matches the beginning of a line that names an exception with its module.
var qualifiedException = lazyregexp.New(`^(?:\w+\.)+[A-Z]\w*: `)

// causeAlone returns the offset of a cause that is only one line without frames: it was never raised, or a library took
// its traceback away. log ends with the words that join a cause with what follows. It returns -1 if the cause has
// frames.
func causeAlone(log string) int {
	above := strings.TrimRight(strings.TrimSuffix(log, directCause), "\r\n ")
	at := strings.LastIndexByte(above, '\n') + 1
	from, to := lineBefore(above, at)
	if !qualifiedException().MatchString(above[at:min(len(above), at+MaxTitle)]) || strings.HasPrefix(above[from:to], " ") {
		return -1
	}
	return at
}

// lineStart returns the offset at which the line that an offset is in begins, and whether Ray copied that line from a
// worker, as the text before the offset says.
func lineStart(log string, at int) (from int, copied bool) {
	from = strings.LastIndexByte(log[:at], '\n') + 1
	return from, workerMark().MatchString(log[from:at])
}

// tracebackBefore returns the offset of the last traceback before an offset; -1 if there is none. It may begin at the
// start of a line, behind what a launcher put before each line, or behind something that was printed without a line
// end, such as a progress bar.
func tracebackBefore(log string, end int) int {
	for {
		at := strings.LastIndex(log[:end], TracebackStart)
		if at <= 0 || log[at-1] == '\n' {
			return at
		}
		// The end of the line is checked before its start is searched, because one line can contain thousands of these
		// texts.
		if next := textBelow(log, at); next != "" && (behindUnendedLine(log, at, next) || marginOf(log, at, next) != "") {
			return at
		}
		end = at
	}
}

// behindUnendedLine reports whether the traceback at an offset begins behind something that was printed without a line
// end; next is the text below that line. If a space stands before the traceback's first words, they are part of a
// message, unless the line has the carriage returns of a progress bar.
func behindUnendedLine(log string, at int, next string) bool {
	line := log[strings.LastIndexByte(log[:at], '\n')+1 : at]
	return (strings.Contains(line, "\r") || !strings.HasSuffix(line, " ")) && strings.HasPrefix(next, frame)
}

// textBelow returns the text below the line that ends with the TracebackStart at an offset; "" if the line goes on
// behind it.
func textBelow(log string, at int) string {
	rest := log[at+len(TracebackStart):]
	if next, ends := strings.CutPrefix(strings.TrimPrefix(rest, "\r"), "\n"); ends {
		return next
	}
	return ""
}

const maxMargin = 128

// marginOf returns what a launcher put before each line of the traceback at an offset, such as "[rank0]: "; "" if there
// is nothing. next is the text below the traceback's first line. A worker's mark is no margin, because such a traceback
// is not the driver's.
func marginOf(log string, at int, next string) string {
	margin := log[strings.LastIndexByte(log[:at], '\n')+1 : at]
	if len(margin) > maxMargin || strings.Trim(margin, " |+") == "" || workerMark().MatchString(margin) ||
		!strings.HasPrefix(next, margin+frame) {
		return ""
	}
	return margin
}

// withoutMargin returns the last traceback in the lines of a log that begin with a margin, without the margin, and the
// offset of its first line in the log. The log must have such a line; of an empty one the margin's last spaces may be
// missing.
func withoutMargin(log, margin string) (text string, from int) {
	mark := strings.TrimRight(margin, " ")
	spaces := margin[len(mark):]
	var lines strings.Builder
	var starts []int
	at := 0
	for line := range strings.Lines(log) {
		if rest, has := strings.CutPrefix(line, mark); has {
			lines.WriteString(strings.TrimPrefix(rest, spaces))
			starts = append(starts, at)
		}
		at += len(line)
	}
	inner := lines.String()
	last := strings.LastIndex(inner, "\n"+TracebackStart) + 1
	text, first := withCauses(inner, last)
	return text, starts[strings.Count(inner[:first], "\n")]
}

// CopiedCause returns the exception from which one of the type wrapper was raised, as the lines tell that Ray copied
// from workers to a driver's log; the zero Exception if there is none. Ray's events keep only the end of a long
// message.
func CopiedCause(log, wrapper string) Exception {
	log = withoutMarks(log)
	for end := strings.LastIndex(log, directCause); end >= 0; end = strings.LastIndex(log[:end], directCause) {
		if strings.Contains(log[end:min(len(log), end+maxCopied)], wrapper+": ") {
			from := max(0, end-maxCopied, strings.LastIndex(log[:end], directCause)+1)
			return raisedIn(human.WithoutColours(log[from:end]), "")
		}
	}
	return Exception{}
}

const maxCopied = 4 << 10 // bytes of a traceback around the words that join it with another one

var (
	// notCompiled matches what Python prints if it cannot compile the program.
	notCompiled = lazyregexp.New(`(?m)^  File "[^"\n]+", line \d+\n(?:    .*\n){0,3}(?:Syntax|Indentation|Tab)Error: .*$`)
	boxStart    = lazyregexp.New(`(?m)^╭─+ Traceback \(most recent call last\) ─+╮$`)
)

// isBoxLine reports whether a line is part of a box that the library rich draws around the frames of a traceback.
func isBoxLine(line string) bool {
	return slices.ContainsFunc([]string{"│", "╭", "╰"}, func(edge string) bool { return strings.HasPrefix(line, edge) })
}

// otherTraceback returns the last traceback that is not in the usual form, and its offset: that of an exception group,
// one in a box, one of a program that cannot be compiled, or one in a line of JSON. The offset is -1 if there is none.
func otherTraceback(log string) (text string, at int) {
	text, at = tracebackInJSON(log)
	if group := lastGroup(log); group > at {
		text, at = log[group:], group
	}
	if boxes := boxStart().FindAllStringIndex(log, -1); boxes != nil && boxes[len(boxes)-1][0] > at {
		at = boxes[len(boxes)-1][0]
		text = log[at:]
	}
	if all := notCompiled().FindAllStringIndex(log, -1); all != nil && all[len(all)-1][0] > at {
		m := all[len(all)-1]
		return log[m[0]:m[1]], m[0]
	}
	return text, at
}

// tracebackInJSON returns the traceback in the last line of JSON that has one, and the offset of the line; "" and -1 if
// there is none.
func tracebackInJSON(log string) (text string, at int) {
	at = strings.LastIndex(log, TracebackStart+`\n`)
	if at < 0 {
		return "", -1
	}
	at = strings.LastIndexByte(log[:at], '\n') + 1
	line, _, _ := strings.Cut(log[at:], "\n")
	fields, err := pyjson.ParseObject([]byte(line))
	if err != nil {
		return "", -1
	}
	for name := range fields.All() {
		if value := fields.String(name); strings.Contains(value, TracebackStart) {
			text, _ = withCauses(value, max(0, tracebackBefore(value, len(value))))
			return text, at
		}
	}
	return "", -1
}
