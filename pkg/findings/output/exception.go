// Package output reads what Ray and its users' programs print: which exception a text is about, and which traceback
// ended a program.
package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

// Exception is the exception that a traceback is about. Of nested exceptions it is the first one: the one that another
// was raised from, or the one of the innermost task.
type Exception struct {
	Type     string // without its module, such as ValueError
	Message  string // the first line of the message
	Rest     string // later lines of the message, joined, if the first one says little, or from the reason on
	Function string // the task or method that raised it, from Ray's "ray::name()"; "" if the text names none
	More     int    // how many more exceptions are in the group of exceptions of which this is the first
	Code     string // what the program asserted, or which function is not implemented: shown if there is no message
	Library  bool   // it was raised in a library, not of Ray or the program itself, or in Python's code for networks
	Own      bool   // the program's own code raised it: what it says is in the program's words
}

// String returns "Type: Message Rest", or what there is of it. Hints that Ray appends to its messages are cut off.
func (e Exception) String() string {
	message := cmp.Or(strings.TrimSpace(withoutHints(e.Message)+" "+withoutHints(e.Rest)), e.Code)
	if message == "" || e.Type == "" {
		return e.Type + message // at most one of them is set
	}
	return e.Type + ": " + message
}

// withoutHints returns a text up to the first of Ray's hints in it.
func withoutHints(text string) string {
	for _, hint := range rayHints {
		text, _, _ = strings.Cut(text, hint)
	}
	return text
}

// rayHints holds how the hints begin that Ray appends to its messages, and PyTorch to whose the memory of a GPU is.
var rayHints = []string{
	" There are some potential root causes", " Some common causes include", " This is most often caused by",
	" This could because 1.", " This can happen if the node was preempted", " Unintentional worker failures",
	" To see more information", " To see information about where this ObjectRef", " Refer to the documentation",
	" This is the Python worker that first created the ObjectRef", " The task may or may not have been executed",
	" Check python-core-worker-*.log", " Check cluster logs (", " lease_id=", " See `ray status`",
	" Including non-PyTorch memory",
}

// Same reports whether two exceptions have the same type and, but for numbers and IDs, the same message.
func (e Exception) Same(other Exception) bool {
	return e.Type != "" && e.Type == other.Type && Normalised(e.Message) == Normalised(other.Message)
}

var (
	// exceptionLine matches the line of a traceback that names the exception: "requests.HTTPError: 404 Not Found",
	// "ray.exceptions.RayTaskError(ValueError): ray::f()". Its groups are the module with its dot ("requests."), the
	// type ("HTTPError"), the type within the brackets ("ValueError") and the message.
	exceptionLine = lazyregexp.New(`^((?:[A-Za-z_]\w*\.|<locals>\.)*)([A-Za-z_]\w*)(?:\(([\w.]+)\))?(?::\s?(.*))?$`)
	// exceptionTypeName matches names of exceptions with a usual ending, such as Error, and those of Python's files and
	// HTTP. Other names count only directly after a traceback's frames, and only if they begin with a capital letter or
	// have a module.
	exceptionTypeName = lazyregexp.New(`(Error|Exception|Exit|Interrupt|Timeout|Cancelled|Failure|Warning|` +
		`^Bad\w+File|^IncompleteRead|^RemoteDisconnected)$`)
	// taskHeading matches the line that Ray puts before the traceback of a task: "ray::train() (pid=12, ip=10.0.0.1)".
	// One of its two groups is the name of the task's process, which may be any text.
	taskHeading = lazyregexp.New(`ray::(?:(.{1,300}?)\(\) \(pid=|` +
		`([^\s()]+(?:\([^()\s]*\))?(?:->[^\s()]+(?:\([^()\s]*\))?)*(?:\.\w+)?)\(\))`)
)

// NamesException reports whether a line is that of a traceback that names the exception, of a usual name.
func NamesException(line []byte) bool {
	m := exceptionLine().FindSubmatch(line)
	return m != nil && exceptionTypeName().Match(m[2])
}

// ofNotebook ends the first line of a traceback as IPython prints it, which begins with the exception's type. Programs
// that run notebooks raise exceptions with it in their messages.
const ofNotebook = " Traceback (most recent call last)"

// ExceptionOf returns the exception that a text printed by Python is about; the zero Exception if there is none. A
// CancelledError does not count if another exception was raised because of it: asyncio cancels what took too long, and
// then raises a TimeoutError.
func ExceptionOf(text string) (e Exception) {
	text = human.WithoutColours(text)
	if group := groupTraceback().FindStringIndex(text); group != nil {
		e = inGroup(text[group[0]:])
		if m := groupExceptionLine().FindStringSubmatch(text[group[0]:]); m != nil && e.Type == "" { // the group itself
			e = Exception{Type: m[1], Message: Clip(m[2], MaxMessage)}
		}
		if e.Type != "" {
			if m := taskHeading().FindAllStringSubmatch(text[:group[0]], -1); m != nil && e.Function == "" {
				e.Function = functionOf(m[len(m)-1])
			}
			return e
		}
	}
	return firstOfChain(text)
}

// functionOf returns the function that a match of taskHeading names. All stages of a compiled graph that an actor runs
// are one call of it, which has a name of Ray's: then the actor's class is the name.
func functionOf(m []string) string { return strings.TrimSuffix(m[1]+m[2], ".__ray_call__") }

// firstOfChain returns the exception of a text that may have several tracebacks, each the direct cause of the next one:
// the first exception that says what went wrong. A CancelledError does not say that, and neither does a type that has
// no message and no traceback, as in Ray's line about a task's exception. An exception of a socket, a process or a
// status of HTTP may not say for what: then Rest gets the exception that a library raised from it.
func firstOfChain(text string) (e Exception) {
	program, silent := programLibrary(text), true // silent: e does not say yet what went wrong
	for part := range strings.SplitSeq(text, directCause) {
		next := raisedIn(part, program)
		if !silent {
			if next.Type == e.Type && next.Message == e.Message {
				continue // a library passed on what another one had raised
			}
			if (next.Library || next.Rest != "") && next.Message != "" && lacksSubject().MatchString(e.Type) {
				e.Rest = strings.TrimSpace(e.Rest + " (" + next.String() + ")")
			}
			if m := notSerialized().FindStringSubmatch(part); m != nil {
				in := strings.TrimPrefix(m[2]+" in ", "unknown in ")
				e.Rest = strings.TrimSpace(fmt.Sprintf("%s (%s%s)", e.Rest, in, m[1]))
			}
			return e
		}
		if next.Type != "" {
			e = next
			silent = e.Type == "CancelledError" || e.String() == "SystemException" || // the latter: Ray Data's
				e.String() == e.Type && !strings.Contains(part, frame)
		}
	}
	return e
}

// notSerialized matches Ray's message about what could not be serialized, and which variable in it was the reason
// (ray/util/check_serialize.py).
var notSerialized = lazyregexp.New(`(?m)^\w*Error: ` +
	`Could not serialize ([^\n]{1,300}?):?\s*$[^\x00]*?^\s*FailTuple\(([^\s(]{1,100}) \[`)

// lacksSubject matches exceptions of sockets, processes and HTTP's statuses, which do not say to which address or for
// what.
var lacksSubject = lazyregexp.New(`^(?:gaierror|Connection(?:Refused|Reset|Aborted)Error|TimeoutError|timeout|` +
	`SSL\w*Error|BrokenPipeError|CalledProcessError|HTTP\w*Error|ClientResponseError|ConnectError)$`)

var (
	// objectRepr matches how Python shows an object, with those in it: "<Task pending coro=<fetch()>>". Its group is
	// the first word.
	objectRepr = lazyregexp.New(`<([\w.]+) (?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>`)
	// reasonHeading matches how a line of a message begins that has the reason: "Last error:" of NCCL, "because" of
	// datasets, and an error of another name below what to do about it, as of torch.load.
	reasonHeading = lazyregexp.New(`(?i)^(?:(?:last|root|original|underlying) (?:error|cause|exception)(?: was)?:|` +
		`because\b|\t\w+ error:)`)
)

var (
	// pythonFrame matches a frame of a traceback: '  File "/app/train.py", line 7, in main'. Its groups are the file
	// and the function.
	pythonFrame = lazyregexp.New(`^[ |]*File "([^"\n]+)", line \d+(?:, in (\S+))?`)
	// libraryFile matches a file of a library, "/usr/lib/python3/site-packages/torch/cuda.py", whose name is the group.
	libraryFile = lazyregexp.New(`/(?:site|dist)-packages/([^/]+)`)
	// packagesFile matches a file of a library or of Python itself.
	packagesFile = lazyregexp.New(`-packages/|/python3[.\d]*/|^<frozen `)
	// networkFile matches the files of Python itself that raise what a service or a network did.
	networkFile = lazyregexp.New(`/python3[.\d]*/(?:socket|ssl|http/client|urllib/request|smtplib|ftplib)\.py$`)
	// launcherFile matches files that only start a program: "/venv/bin/torchrun".
	launcherFile = lazyregexp.New(`^<frozen runpy>$|/runpy\.py$|/bin/[^/]+$|(?:-packages|^python)/ray/`)
)

// libraryOf returns the name of the library to which a file belongs; "" if it belongs to none, or to Ray.
func libraryOf(file string) string {
	m := libraryFile().FindStringSubmatch(file)
	if m == nil || m[1] == "ray" {
		return ""
	}
	return m[1]
}

// programLibrary returns the library in which the last traceback of a text begins: then the program, or the task, is
// installed like a library. It returns "" if the traceback begins in none.
func programLibrary(text string) string {
	from := max(strings.LastIndex(text, TracebackStart), strings.LastIndex(text, "ray::"))
	if from < 0 {
		return ""
	}
	for line := range strings.Lines(text[from:]) {
		if m := pythonFrame().FindStringSubmatch(line); m != nil && !launcherFile().MatchString(m[1]) {
			return libraryOf(m[1])
		}
	}
	return ""
}

// javaErrorBelow begins the line in which Py4J's messages name the exception of Java: below "An error occurred while
// calling o42.collect." stands ": java.lang.OutOfMemoryError: Java heap space".
const javaErrorBelow = ": "

// inConstructor is what Ray says of an actor's death before the exception of its constructor.
const inConstructor = "The actor died because of an error raised in its creation task, "

// raisedIn returns the last exception of a text that does not contain directCause. program is the library to which the
// program's own code belongs; "" if to none.
func raisedIn(text, program string) Exception {
	r := exceptionReader{text: text, program: program, restAt: -1, toolAt: -1}
	for line := range strings.Lines(text) {
		r.next += len(line)
		if !r.readLine(line) {
			break
		}
	}
	r.addRest()
	return r.last
}

// exceptionReader reads the lines of a text for raisedIn.
type exceptionReader struct {
	text, program string
	next          int       // the offset of the line after the one that is read
	last          Exception // the last one that was read
	restAt        int       // the offset where last's message goes on behind its first line; -1 if it does not
	toolAt        int       // the offset where last's message has the output of a tool; -1 if it has none
	inFrames      bool      // the line before belongs to a traceback's frames
	named         string    // the type that a RayTaskError named which was the last exception
	// inMessage says that the lines are below the one that names the exception: they may be the rest of its message, or
	// its notes.
	inMessage bool
	function  string // the task whose traceback is read, from Ray's heading
	// Of the last frame above: its file and function, and its line of code. file is "" before the first frame.
	file, frameFunction, code string
}

// readLine reads the next line, which may be of a frame, name an exception, or continue a message. It returns false if
// nothing behind the line counts.
func (r *exceptionReader) readLine(line string) (goOn bool) {
	if _, exception, found := strings.Cut(line, inConstructor); found {
		line = exception
	}
	reason := reasonHeading().FindString(line)
	if reason != "" && r.last.Type != "" && (r.restAt < 0 || r.last.Message == "") {
		r.restAt = r.next - len(line) + len(reason)
		if strings.EqualFold(reason, "because") {
			r.restAt -= len(reason)
		}
	}
	line = strings.TrimRight(line, "\r\n")
	if m := taskHeading().FindStringSubmatch(line); m != nil {
		r.function, r.inMessage = functionOf(m), false
	}
	if line == TracebackStart || strings.HasPrefix(line, frame+`"`) || strings.HasSuffix(line, ofNotebook) {
		r.inMessage = false
	}
	if line == "" || strings.IndexByte(" \t^", line[0]) >= 0 || isBoxLine(line) {
		r.inFrames = r.inFrames || line != ""
		r.readFrame(line)
		return true
	}
	m := exceptionLine().FindStringSubmatch(line)
	if m == nil {
		r.inFrames = false
		return true
	}
	module, name, inner, message := m[1], m[2], m[3], m[4]
	r.inFrames = r.inFrames || name == r.named
	if r.inMessage || !isException(module, name, r.inFrames) {
		r.inFrames = false
		return true
	}
	r.inMessage, r.inFrames, r.named = r.inFrames, false, ""
	switch {
	case name == "RayTaskError" && inner != "": // "RayTaskError(ValueError)": the traceback follows, if Ray kept it
		r.named, r.inMessage = inner[strings.LastIndexByte(inner, '.')+1:], false
		r.setLast(Exception{Type: r.named, Function: r.function})
		return true
	case name == "RayTaskError" && taskHeading().MatchString(message): // its traceback follows, perhaps without a file
		r.inMessage = false
		r.setLast(Exception{Type: name, Function: r.function})
		return true
	case message == "" && r.last.Type == name && r.last.Message != "": // the same one again, without its message
		return true
	}
	r.readException(line, name, message)
	return name != "RuntimeEnvSetupError" // behind it are tracebacks of the agent that sets up environments
}

// setLast sets the last exception. It forgets what followed the message of the one before.
func (r *exceptionReader) setLast(e Exception) { r.last, r.restAt, r.toolAt = e, -1, -1 }

// readFrame reads a line of a traceback's frames: the line that names a frame's file, or the first line of its code.
func (r *exceptionReader) readFrame(line string) {
	if m := pythonFrame().FindStringSubmatch(line); m != nil {
		r.file, r.frameFunction, r.code = m[1], m[2], ""
	} else if r.code == "" {
		r.code = strings.TrimSpace(line)
	}
}

// readException reads an exception from the line that names it, of which message is the part behind the type, and finds
// out where the message goes on.
func (r *exceptionReader) readException(line, name, message string) {
	firstLine, below := message, r.text[r.next:]
	if said, _, noted := strings.Cut(message, udfNote); noted && strings.IndexAny(said, `'"`) == 0 {
		message = said + said[:1] // with the quote that stands behind the note
	}
	if len(message) > MaxMessage { // else the hints may be cut in their middle
		message = objectRepr().ReplaceAllString(withoutHints(message), "<$1 …>")
	}
	r.setLast(Exception{Type: name, Message: shortened(message), Function: r.function})
	if r.inMessage && r.file != "" {
		r.last.setPlace(r.file, r.frameFunction, r.code, r.program)
	}
	switch {
	case toolOutputBelow().MatchString(below):
		r.toolAt = r.next
	case message == "in user code:":
		if m := userCodeError().FindStringSubmatch(below[:min(len(below), 4*MaxText)]); m != nil {
			r.last.Rest = Clip(m[1], MaxMessage)
		}
	case needsNextLine(firstLine) && strings.Contains(line, ":"),
		continuation().MatchString(strings.TrimLeft(below, " \t")):
		r.restAt = r.next
	case strings.HasPrefix(below, javaErrorBelow):
		r.restAt = r.next + len(javaErrorBelow)
	}
}

// addRest sets the Rest of the last exception: the error in the output of a tool, or the lines with which the message
// goes on. Of an exception of Java it is the exception that caused all others.
func (r *exceptionReader) addRest() {
	if r.toolAt >= 0 {
		printed, _, _ := strings.Cut(r.text[r.toolAt:min(len(r.text), r.toolAt+maxLastText)], TracebackStart)
		r.last.Message = Clip(r.last.Message, MaxMessage/3)
		r.last.Rest = Clip(toolQuestion.answer(ownCandidates(printed), "").said, MaxMessage)
	}
	if r.restAt < 0 {
		return
	}
	below := r.text[r.restAt:]
	r.last.Rest = restOfMessage(below)
	causes := causedByLine().FindAllString(below[:min(len(below), maxCrash)], -1)
	ofJava := strings.HasSuffix(r.text[:r.restAt], "\n"+javaErrorBelow) || r.last.Type == "CrossLanguageError"
	if len(causes) > 0 && ofJava {
		r.last.Rest = shortened(strings.TrimPrefix(causes[len(causes)-1], "Caused by: "))
	}
}

// udfNote begins what Ray Data adds to the message of what a function raised, within the quotes that Python puts around
// that of a KeyError.
const udfNote = `\nFailed to apply UDF `

// reasonField matches the member of a service's answer that says why something failed, as Python or JSON show it:
// "'reason': 'no such index'".
var reasonField = lazyregexp.New(`['"](?:reason|message|error_?[mM]essage|error_description|` +
	`detail)['"]: (?:'[^'\n]{8,200}'|"[^"\n]{8,200}")`)

// libraryFolders matches the folders of a file of a library.
var libraryFolders = lazyregexp.New(`(?:/[\w.+-]+)+/(?:site|dist)-packages/`)

// shortened returns a message of at most MaxMessage bytes: a longer one without its middle, because at its end it often
// has the reason.
func shortened(message string) string {
	if len(message) > MaxMessage {
		message = libraryFolders().ReplaceAllString(withoutHints(message), "…/")
	}
	if len(message) <= MaxMessage {
		return Clip(message, MaxMessage)
	}
	if all := reasonField().FindAllStringIndex(message[:min(len(message), 4*MaxText)], -1); all != nil {
		from, to := all[len(all)-1][0], all[len(all)-1][1] // the innermost reason in the answer of a service
		if from <= MaxMessage/2 {
			return Clip(message[:to], MaxMessage)
		}
		return Clip(message, MaxMessage/2) + Clip(message[from:to], MaxMessage/2)
	}
	return Clip(message, MaxMessage/2) + strings.ToValidUTF8(message[len(message)-MaxMessage/2:], "")
}

// isException reports whether a line of a traceback that has a module and a name names an exception: by the usual
// ending of its type, or, if behindFrames says that frames stand above it, by its module or a capital letter.
func isException(module, name string, behindFrames bool) bool {
	capital := strings.ToUpper(name[:1]) == name[:1]
	return exceptionTypeName().MatchString(name) || behindFrames && (module != "" || capital) && name != "Traceback"
}

// setPlace sets what the last frame above an exception tells of it. file, function and code are the frame's, and
// program is the library to which the program's own code belongs.
func (e *Exception) setPlace(file, function, code, program string) {
	library := libraryOf(file)
	e.Library = library != "" && library != program || networkFile().MatchString(file)
	e.Own = strings.HasPrefix(code, "raise ") && (!packagesFile().MatchString(file) || library != "" && library == program)
	switch {
	case e.Type == "NotImplementedError" && function != "":
		e.Code = "in " + Clip(function, MaxMessage)
	case e.Type == "AssertionError" && strings.HasPrefix(code, "assert "):
		e.Code = Clip(Printable(code), MaxMessage)
	}
}

var (
	// fieldErrorsBelow matches what pydantic says before it names a field and what is wrong with it: "2 validation
	// errors for Config".
	fieldErrorsBelow = lazyregexp.New(`(?:^|: )\d+ validation errors? for [^:]*$`)
	// lacksReason matches what YAML's parser, numba, MATLAB and clients of HTTP ("(404)") say before the reason, pip
	// before the package, Ray of a lost object, and the beginning of an object: "{".
	lacksReason = lazyregexp.New(`^(?:\(\d+\)|[\[{(]+)$|^Failed in \w+ mode pipeline \(step: [^)]*\)$|` +
		`^Error using +\S{1,60}$|^Failed to retrieve object [0-9a-f]+\.|^while (?:scanning|parsing|constructing) |` +
		`^ERROR: THESE PACKAGES DO NOT MATCH THE HASHES `)
	// continuation matches a line that goes on with a message ("but got 3"), or the field of omegaconf's that says
	// which key it is about.
	continuation = lazyregexp.New(`^(?:[Bb]ut |full_key: |with errorcode )`)
	// toolOutputBelow matches what a message goes on with that has the output of a compiler, git or another program:
	// "stderr: 'fatal: not a git repository'".
	toolOutputBelow = lazyregexp.New(`^(?:[^\n]*\n){0,4}?\s*(?:\[\d+/\d+\] |FAILED: |ninja: |cmdline: |` +
		`(?:[^\n]{0,40}\b)?(?:[Cc]ommand|[Oo]utput|[Ss]td(?:out|err)|STD(?:OUT|ERR)):(?:\n| '))`)
	// userCodeError matches the line below TensorFlow's frames of user code: "    ValueError: shapes differ". Its group
	// is that line without its indent.
	userCodeError = lazyregexp.New(`(?m)^ {4}(\w+(?:Error|Exception): .*)$`)
)

// needsNextLine reports whether the first line of a message says little without the next one: "Version mismatch: the
// cluster was started with:". So does what Ray says of any runtime environment that failed.
func needsNextLine(first string) bool {
	first = strings.TrimSpace(first)
	return first == "" || first == "Failed to set up runtime environment." || strings.HasSuffix(first, ":") ||
		fieldErrorsBelow().MatchString(first) || lacksReason().MatchString(first)
}

// recentLast ends the heading of frames.
const recentLast = "(most recent call last):"

// restOfMessage joins the first lines of a text, with which a message goes on, up to the first line that endsMessage.
// Empty lines above them and lines of only signs are left out.
//
// A message of TensorFlow goes on with the frames that made a node of its graph, below "Detected at node 'div' defined
// at (most recent call last):". If that is the first line, the message is what stands behind these frames.
func restOfMessage(text string) string {
	text = text[:min(len(text), 4*MaxText)]
	var rest []string
	restSize, next := 0, 0 // next: the offset of the line after this one
	for line := range strings.Lines(text) {
		next += len(line)
		line = strings.TrimRight(line, "\r\n")
		said := strings.Join(strings.Fields(Printable(line)), " ")
		headsFrames := strings.HasSuffix(said, recentLast)
		switch {
		case len(rest) == 0 && said == "":
			continue
		case said == "", endsMessage(line, said), headsFrames && len(rest) > 0:
			return Clip(strings.Join(rest, " "), MaxMessage)
		case headsFrames:
			return restOfMessage(WithoutFrames(text[next:]))
		case decoration().MatchString(line):
			continue
		}
		rest = append(rest, said)
		if restSize += len(said) + 1; restSize > MaxMessage {
			break
		}
	}
	return Clip(strings.Join(rest, " "), MaxMessage)
}

// endsMessage reports whether a line is no longer of the message of the exception above it. said is the line's words,
// with one space between them.
func endsMessage(line, said string) bool {
	switch {
	case strings.Contains(line, TracebackStart), said == directCause, said == whileHandling: // another traceback
		return true
	case strings.HasPrefix(line, "\tat "), frameLine().MatchString(line), isBoxLine(line): // a frame
		return true
	case taskHeading().MatchString(line), workerMark().MatchString(line): // "ray::f() (pid=7)", "(f pid=7) "
		return true
	}
	return logline.Parse([]byte(line), &logline.Clock{}).Begins() // a record of a log
}

// Expressions for the traceback of a group of exceptions (PEP 654):
//
//   - Exception Group Traceback (most recent call last):
//     |   File "/app/main.py", line 3, in <module>
//     | ExceptionGroup: two failed (2 sub-exceptions)
//     +-+---------------- 1 ----------------
//     | ValueError: one
//     +---------------- 2 ----------------
//     | TypeError: two
//     +------------------------------------
var (
	// groupTraceback matches the first line. It may stand behind a progress bar.
	groupTraceback = lazyregexp.New(`(?m)(?:^[ +|]*|  \+ )Exception Group Traceback \(most recent call last\):$`)
	// groupExceptionLine matches the line that names the group. Its groups are the type and the message.
	groupExceptionLine = lazyregexp.New(`(?m)^[ |]*(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*): (.* \(\d+ sub-exceptions?\))$`)
	// groupSeparator matches the line above each exception in the group, and the line below the last one.
	groupSeparator = lazyregexp.New(`^[ |]*\+(?:-\+)?-{3,}(?: (?:\d+|\.\.\.) -{3,})?$`)
	// subExceptionCount matches the end of a group's message.
	subExceptionCount = lazyregexp.New(` \(\d+ sub-exceptions?\)$`)
)

const (
	maxGroupText = 64 << 10 // bytes of a group's text that are read
	maxInGroup   = 1000     // exceptions in a group that are counted
)

// lastGroup returns the offset at which the traceback of the last exception group of a log begins; -1 if there is none.
// Tracebacks of groups inside a group are indented by four spaces or more, the traceback of the outermost group is not.
// The line that names it comes before the tracebacks inside.
func lastGroup(log string) int {
	end := len(log)
	for i, start := range slices.Backward(groupTraceback().FindAllStringIndex(log, -1)) {
		from := start[0]
		outermost := i == 0 || !strings.HasPrefix(log[from:], "    ")
		if outermost && groupExceptionLine().MatchString(log[from:end]) {
			return from
		}
		end = from
	}
	return -1
}

// inGroup returns the first exception in a group, with the number of the others in More; text begins with the group's
// traceback. A group inside the group does not count, but the exceptions in it do.
func inGroup(text string) (e Exception) {
	var part strings.Builder
	inside, found := false, 0 // inside: part belongs to an exception, not to the group's own traceback
	finish := func() {
		defer part.Reset()
		if !inside {
			return
		}
		exception := firstOfChain(part.String())
		if exception.Type == "" || subExceptionCount().MatchString(exception.Message) {
			return
		}
		if found++; found == 1 {
			e = exception
		}
	}
	first := true
	for line := range strings.Lines(text[:min(len(text), maxGroupText)]) {
		line = strings.TrimRight(line, "\r\n")
		if groupSeparator().MatchString(line) {
			finish()
			inside = true
			continue
		}
		inner, bar := strings.CutPrefix(strings.TrimLeft(line, " "), "|")
		if !bar && !first || found >= maxInGroup {
			break // the group is over
		}
		first = false
		part.WriteString(strings.TrimPrefix(inner, " ") + "\n")
	}
	finish()
	e.More = max(0, found-1)
	return e
}
