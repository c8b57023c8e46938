package output

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// crash is what the runtime of a language prints when an error ends a program. The first group of an expression that
// matches is what was wrong, the second one its message. No text matches that does not contain sign, which is quicker
// to look for.
type crash struct {
	sign    string
	matches func() *regexp.Regexp
}

// crashes are of programs in other languages than Python, and at last of the interpreter itself.
var crashes = slices.Concat([]crash{
	// Java
	{"Exception in thread", lazyregexp.New(
		`(?m)^(?:[^\n]* )?Exception in thread "[^"\n]*" (?:([\w.$]+)(?:: ?([^\n]*))?)$`)},
	// Go
	{"panic: ", lazyregexp.New(`(?m)^(panic: [^\n]+)$()`)},
	{"fatal error: ", lazyregexp.New(`(?m)^(fatal error: [^\n]+)$()`)},
	// Rust
	{"panicked at", lazyregexp.New(`(?m)^thread '[^'\n]*'(?: \(\d+\))? (panicked at) [^\n']*:\n([^\n]+)$`)},
	// Rust before 1.73
	{"panicked at", lazyregexp.New(`(?m)^thread '[^'\n]*' (panicked at) '([^\n]*)', [^\n]*$`)},
	// Node
	{"Error", lazyregexp.New(`(?m)^(?:Uncaught |` +
		`\[?Unhandled[^\n:]*[.:] )?((?:[A-Z]\w*)?Error)(?: \[\w+\])?: ([^\n]+)(?:\n[^\n]*){0,5}?\n\s+at [^\n]+[:)]`)},
	// .NET
	{"Unhandled exception", lazyregexp.New(`(?m)^Unhandled exception[.:] (?:System\.)?([\w.]+): ([^\n]+)$`)},
	// Julia
	{"Stacktrace:", lazyregexp.New(`(?m)^(ERROR): (?:LoadError: )?([^\n]+)\n(?:in expression[^\n]*\n)?Stacktrace:`)},
	// R
	{"Execution halted", lazyregexp.New(
		`(?m)^(Error)(?: in [^\n]*?)? ?: *\n? *([^\n]+)\n(?:[^\n]*\n){0,4}?Execution halted`)},
	// Ruby
	{".rb:", lazyregexp.New(`(?m)^[^\s:]+\.rb:\d+:in [^\n]*?: ([^\n]+) \((\w+(?:::\w+)*)\)$`)},
}, inPython, []crash{{fatalError, lazyregexp.New(`(?m)^(Fatal Python error): ([^\n]+)$`)}})

const fatalError = "Fatal Python error"

// inPython are crashes of code that runs in a process of Python.
var inPython = []crash{
	// C and C++: glog, Ray's own fatal records and checks, TensorFlow, assert and the allocator of glibc
	{"Check failure stack trace", lazyregexp.New(`(?m)^F\d{4,8} [\d:.]+ +\d+ [^\s\]]+\] ([^\n]+)$()`)},
	{"Check failed: ", lazyregexp.New(`(?m)^F\d{4,8} [^\n]*?(Check failed: [^\n]+)$()`)},
	{" C ", lazyregexp.New(
		`(?m)^\[\d{4}-[^\]\n]* C \d+ \d+\] (?:\([\w-]+\) )?\S+:\d+: +(?:An unexpected system state [^\n]*? fix it\. +)?([^\n]+)$()`)},
	{": F ", lazyregexp.New(`(?m)^\d{4}-\d\d-\d\d [\d:.]+: F [^\s\]]+\] ([^\n]+)$()`)},
	{"Assertion `", assertion},
	{"(): ", lazyregexp.New(`(?m)^(?:\*\*\* Error in [^\n]*: )?((?:free|malloc|realloc|munmap_chunk|malloc_consolidate)\(\): [a-z][^\n]{1,100})$()`)},
	{"corrupt", lazyregexp.New(`(?m)^(?:\*\*\* Error in [^\n]*: )?(double free or corruption[^\n]{0,40}|corrupted (?:size|double-linked)[^\n]{1,60})$()`)},
	{" detected ***", lazyregexp.New(`(?m)^(\*\*\* (?:stack smashing|buffer overflow) detected \*\*\*[^\n]{0,40})$()`)},
	{"terminate called", lazyregexp.New(
		`(?m)^.*terminate called after throwing an instance of '([^'\n]+)'(?:(?:\r?\n[^\n]*|: )what\(\): +([^\n]*))?`)},
	// ROCm
	{" access fault by GPU ", lazyregexp.New(
		`(?m)^(Memory access fault by GPU node-\d+)[^\n]*?[.:]\s+Reason: ([^\n]+?)\.?$`)},
	// … as Ray tells it, with the name as the compiler has it: N3c1016DistBackendErrorE
	{"Unhandled exception: ", lazyregexp.New(
		`(?m)^\[\d{4}-[^\]\n]* E [^\]\n]*\][^\n]*? Unhandled exception: (?:\w*\d)?([A-Za-z_]\w*?)E*\. what\(\): ([^\n]*)$`)},
	// the virtual machine of Java
	{"# Problematic frame:", lazyregexp.New(`(?m)^# (Problematic frame):\n# +([^\n]+)$`)},
}

// assertion matches what failed in C, C++ or a kernel of CUDA, of which the host only says device-side assert.
var assertion = lazyregexp.New("(?m)^[^\\n]{1,300}:\\d+: [^\\n]{0,500}?(Assertion `[^\\n]+ failed\\.)()")

// fatalFrames matches the stack that Python prints of a signal, fatalFrame its frames: file, line and function.
var (
	fatalFrames = lazyregexp.New(`(?m)^Fatal Python error: [^\n]*\n(?:[^\n]*\n){0,3}?[^\n]*\(most recent call first\):\n((?:  File [^\n]*\n)+)`)
	fatalFrame  = lazyregexp.New(`  File "([^"\n]{1,300})", line (\d+) in ([\w.<>]+)\n`)
)

// CrashedIn returns in which function a signal of its own ended a process of Python, with its file: the program's own
// one if there is one. It returns "" if the log does not tell.
func CrashedIn(log string) string {
	stack := fatalFrames().FindStringSubmatch(log[max(0, len(log)-maxCrash):])
	if stack == nil {
		return ""
	}
	frames := fatalFrame().FindAllStringSubmatch(stack[1], -1)
	if len(frames) == 0 {
		return ""
	}
	own := slices.IndexFunc(frames, func(m []string) bool { return !packagesFile().MatchString(m[1]) })
	m := frames[max(0, own)] // the innermost one if all are of libraries
	file, line, function := m[1], m[2], m[3]
	return " in " + function + " (" + libraryFolders().ReplaceAllString(file, "") + ":" + line + ")"
}

// causedByLine matches the line by which Java, Node and .NET name the class of what an exception was caused by.
var causedByLine = lazyregexp.New(`(?m)^(?:Caused by:|\s+\[cause\]:|` +
	` *--->) ((?:[a-z]\w*\.)*[A-Z][\w.$]*(?: \[\w+\])?)(?:: ?([^\n]*))?$`)

// Bytes at the end of a log that are searched: more if it ends with what Go prints of all goroutines.
const (
	maxCrash = 256 << 10
	maxDump  = 2 << 20
)

// Crash returns what the runtime of a program said when an error ended it, and the offset in the log where it says so;
// "" and -1 if the log has nothing of it. Only the log's end is searched.
func Crash(log string) (said string, at int) { return lastCrashOf(crashes, log) }

// CrashInPython does what Crash does for the log of a process of Python: what other programs print, which it may have
// run, does not count.
func CrashInPython(log string) (said string, at int) { return lastCrashOf(inPython, log) }

// lastCrashOf returns what the last crash of these kinds in a log said, and the offset where it says so; "" and -1 if
// there is none. If the runtime names what the crash was caused by, it returns that instead.
func lastCrashOf(crashes []crash, log string) (said string, at int) {
	from := max(0, len(log)-maxCrash)
	if strings.Contains(log[from:], "\ngoroutine ") {
		from = max(0, len(log)-maxDump)
	}
	end := log[from:]
	at = -1
	var kind, message string
	for _, crash := range crashes {
		if !strings.Contains(end, crash.sign) {
			continue
		}
		all := crash.matches().FindAllStringSubmatchIndex(end, -1)
		if len(all) == 0 {
			continue
		}
		// Python's interpreter only names the signal, also below the words of C++ code that say why the code sent it
		if m := all[len(all)-1]; m[0] > at && (at < 0 || crash.sign != fatalError) {
			at, kind, message = m[0], submatch(end, m, 1), submatch(end, m, 2)
			kindAt, saidEnd := m[2], max(m[3], m[5]) // of the first group, and of both groups
			if needsNextLine(end[kindAt:saidEnd]) {
				message = strings.TrimSpace(message + " " + restOfMessage(end[saidEnd:]))
			}
		}
	}
	if at < 0 {
		return "", -1
	}
	if all := causedByLine().FindAllStringSubmatchIndex(end[at:], -1); len(all) > 0 {
		m := all[len(all)-1]
		kind, message = submatch(end[at:], m, 1), submatch(end[at:], m, 2)
		if hasMessage := m[4] >= 0; hasMessage && needsNextLine(message) {
			messageEnd := at + m[5]
			message = strings.TrimSpace(message + " " + restOfMessage(end[messageEnd:]))
		}
	}
	if strings.Contains(message, "device-side assert") {
		if m := assertion().FindStringSubmatch(end[:at]); m != nil {
			message += ": " + m[1]
		}
	}
	said = strings.TrimRight(kind, ": ")
	if message = strings.TrimSpace(message); message != "" && message != said {
		said += ": " + message
	}
	return Clip(strings.TrimSpace(Printable(said)), MaxTitle), from + at
}

// signalLine matches the line that Ray's handler or Python prints of a signal that ends a process.
var signalLine = lazyregexp.New(`(?m)^.*(?:\*\*\* (SIG[A-Z]+) received|Fatal Python error: ([^\n]{1,200})).*$`)

// Signal returns the first signal of which a log says that it ended the process, or Python's words for it, and the
// offset where the log says so; "" and -1 if it does not.
func Signal(log string) (signal string, at int) {
	m := signalLine().FindStringSubmatchIndex(log)
	if m == nil {
		return "", -1
	}
	return cmp.Or(submatch(log, m, 1), submatch(log, m, 2)), m[0]
}

// submatch returns what a group of a match matched; "" if it matched nothing. m is the match as indices in text.
func submatch(text string, m []int, group int) string {
	if m[2*group] < 0 {
		return ""
	}
	return text[m[2*group]:m[2*group+1]]
}

// LastCrash returns what the runtime of a program said of a crash. If the log has another error behind the crash's
// stack, it returns that error, because it says more. It returns "" if there was no crash.
func LastCrash(log string) string {
	crash, at := Crash(log)
	if at < 0 {
		return ""
	}
	said := LastError(behindStack(log[at:]))
	if said == "" || strings.Contains(crash, said) || crashEcho().MatchString(said) ||
		strings.HasPrefix(said, "Caused by: ") { // Java's, between two stacks
		return crash
	}
	return said
}

// crashEcho matches what shells ("run.sh: line 28:  1058 Killed", "Killed    python a.py") and runtimes print of a
// crash behind its stack. A program that goes on behind the word says itself what happened: "Killed by the quota".
var crashEcho = lazyregexp.New(`\(core dumped\)|^(?:Fatal Python error|Extension modules): |` +
	`^\S+: line \d+: +\d+ ` + endedBySignal + `|^` + endedBySignal + `(?:$| {2})|` + ofHandler)

const endedBySignal = `(?:Aborted|Killed|Terminated|Segmentation fault|Hangup|(?:CPU time|File size) limit exceeded)`

// BeforeSignal returns a log without the lines at its end that only say that a signal ended the program.
func BeforeSignal(log string) string {
	for {
		log = strings.TrimRight(log, "\r\n ")
		line := log[strings.LastIndexByte(log, '\n')+1:]
		if !crashEcho().MatchString(line) {
			return log
		}
		log = log[:len(log)-len(line)]
	}
}

// CaughtAtEnd returns the signal of which Ray's handler printed at the end of a driver's log; "" if the driver printed
// something else behind that.
func CaughtAtEnd(log string) string {
	own := ownEnd(log)
	signal, _ := Signal(own[len(BeforeSignal(own)):])
	return signal
}

// behindStack returns what a text has behind a stack: behind its first line and the last line that is indented.
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

var (
	// frameLine matches a line of a traceback that says where, not what: of Python, also in groups and boxes, pytest,
	// Java, Node, Go, Rust and MATLAB.
	frameLine = lazyregexp.New(`^[\s|+>│]*(?:File "[^"\n]*", line \d+|\S+\.so[.\d]*\([^()\s]*\+0x[0-9a-f]+\)|` +
		`[^\s:]+\.py:\d+: (?:in )?\w+$|at [\w.$<>]+ ?\(|at [^\s:]+:\d+|frame #\d+: |\.\.\. \d+ more$|` +
		`goroutine \d+ \[|\[bt\] \(\d+\) |\d+: +(?:0x[0-9a-f]+|[\w<]+::)|stack backtrace:|[Ss]tack ?trace:$|` +
		`Error in [\w./+>-]+ \(line \d+\)$)`)
	// decoration matches lines of only signs ("=====", "    ^^^^"), the headings of tracebacks, and what clients show
	// of an answer's headers.
	decoration = lazyregexp.New(`^[\s|+│╭╰╮╯─\-=^~_>]*(?:\d+ -+)?$|` +
		`(?:Exception Group )?Traceback \(most recent call last\):?|^(?:\x1b\[\d+m)?ray::[^\n]* \(pid=\d+|` +
		`^HTTP response headers: `)
)

// recordFrame matches a frame of a traceback of which each line has the header of its record, as vLLM prints it. The
// first group is the header.
var recordFrame = lazyregexp.New(`^(\S[^"\n]{0,200}\S) {2,}File "[^"\n]*", line \d+`)

// frames finds, in the lines of a text from its beginning on, those that say where something happened: frames of
// tracebacks, and the code below each.
type frames struct {
	header int // of the last frame: how long the header of its record is, if it has one, and
	margin int // how far the code below is indented at least; 0 if that code is over
}

const maxFrame = 2 << 10 // bytes: a longer line is no frame; its beginning is looked at

// take reports whether the next line is a frame, or code below one.
func (f *frames) take(line string) bool {
	line = line[:min(len(line), maxFrame)]
	indent := func(text string) int { return len(text) - len(strings.TrimLeft(text, " |+│\t>")) }
	var record []string
	if strings.Contains(line, frame) { // before the expression, because that is cheaper
		record = recordFrame().FindStringSubmatch(line)
	}
	switch {
	case record != nil:
		f.header, f.margin = len(record[1]), len("   ")
	case frameLine().MatchString(line):
		f.header, f.margin = 0, indent(line)+1
	// Of a header only the length counts: the time in it may be a later one.
	case f.margin > 0 && indent(line[min(len(line), f.header):]) >= f.margin:
	default:
		*f = frames{}
		return false
	}
	return true
}

// WithoutFrames returns a text without the lines that say where something happened, such as the frames of a traceback
// and their lines of code.
func WithoutFrames(text string) string {
	var above frames
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !above.take(line) && !decoration().MatchString(line[:min(len(line), maxFrame)]) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
