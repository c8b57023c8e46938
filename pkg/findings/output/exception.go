// Package output reads what Ray and its users' programs print: which exception a text is about, and which traceback
// ended a program.
package output

import (
	"cmp"
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

// rayHints holds how the hints begin that Ray appends to its exceptions' messages, whatever happened.
var rayHints = []string{
	" There are some potential root causes. (1)", " To see information about where this ObjectRef", " This can happen if the node was preempted",
	" The task may or may not have been executed",
	" Check python-core-worker-*.log", " Check cluster logs (", " This could because 1.", " lease_id=",
	" Refer to the documentation on how to address", " This is the Python worker that first created the ObjectRef",
}

// Same reports whether two exceptions have the same type and, but for numbers and IDs, the same message.
func (e Exception) Same(other Exception) bool {
	return e.Type != "" && e.Type == other.Type && Normalised(e.Message) == Normalised(other.Message)
}

var (
	// raised matches the line of a traceback that names the exception: "module.Type(Inner): message".
	raised = lazyregexp.New(`^((?:[A-Za-z_]\w*\.|<locals>\.)*)([A-Za-z_]\w*)(?:\(([\w.]+)\))?(?::\s?(.*))?$`)
	// typical matches names of exceptions with a usual ending, such as Error. Other names count only directly after a
	// traceback's frames, and only if they begin with a capital letter or have a module.
	typical = lazyregexp.New(`(Error|Exception|Exit|Interrupt|Timeout|Cancelled|Failure|Warning)$`)
	// remote matches the line that Ray puts before the traceback of a task: the name of its process, which may be any
	// text, and the process's ID.
	remote = lazyregexp.New(`ray::(?:(.{1,300}?)\(\) \(pid=|([^\s()]+(?:\([^()\s]*\))?(?:->[^\s()]+(?:\([^()\s]*\))?)*(?:\.\w+)?)\(\))`)
)

// NamesException reports whether a line is that of a traceback that names the exception, of a usual name.
func NamesException(line []byte) bool {
	m := raised().FindSubmatch(line)
	return m != nil && typical().Match(m[2])
}

// ofNotebook ends the first line of a traceback as IPython prints it, which begins with the exception's type. Programs
// that run notebooks raise exceptions with it in their messages.
const ofNotebook = " Traceback (most recent call last)"

// ExceptionOf returns the exception that a text printed by Python is about; the zero Exception if there is none. A
// CancelledError does not count if another exception was raised because of it: asyncio cancels what took too long, and
// then raises a TimeoutError.
func ExceptionOf(text string) (e Exception) {
	text = human.WithoutColours(text)
	if group := groupStart().FindStringIndex(text); group != nil {
		if e = inGroup(text[group[0]:]); e.Type != "" {
			if m := remote().FindAllStringSubmatch(text[:group[0]], -1); m != nil && e.Function == "" {
				e.Function = functionOf(m[len(m)-1])
			}
			return e
		}
	}
	return firstOfChain(text)
}

// functionOf returns the function that a match of remote names. All stages of a compiled graph that an actor runs are
// one call of it, which has a name of Ray's: then the actor's class is the name.
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
			if (next.Library || next.Rest != "") && next.Message != "" && namesNothing().MatchString(e.Type) {
				e.Rest = strings.TrimSpace(e.Rest + " (" + next.String() + ")")
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

// namesNothing matches exceptions of sockets, processes and HTTP's statuses, which do not say to which address or for
// what.
var namesNothing = lazyregexp.New(`^(?:gaierror|Connection(?:Refused|Reset|Aborted)Error|TimeoutError|timeout|SSL\w*Error|BrokenPipeError|CalledProcessError|HTTP\w*Error|ClientResponseError|ConnectError)$`)

var (
	// repr matches how Python shows an object, with those in it: "<Task pending coro=<fetch()>>".
	repr = lazyregexp.New(`<([\w.]+) (?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>`)
	// reasonBelow matches how a line of a message begins that has the reason, as NCCL's do.
	reasonBelow = lazyregexp.New(`(?i)^(?:last|root|original|underlying) (?:error|cause|exception)(?: was)?:`)
)

// inFile matches a frame of a traceback, with its file and function; ofLibrary the files of libraries, ofNetworks those
// of Python itself that raise what a service or a network did, and launcher those that only start a program.
var (
	inFile     = lazyregexp.New(`^[ |]*File "([^"\n]+)", line \d+(?:, in (\S+))?`)
	ofLibrary  = lazyregexp.New(`/(?:site|dist)-packages/([^/]+)`)
	ofPackages = lazyregexp.New(`-packages/|/python3[.\d]*/|^<frozen `) // or of Python itself
	ofNetworks = lazyregexp.New(`/python3[.\d]*/(?:socket|ssl|http/client|urllib/request|smtplib|ftplib)\.py$`)
	launcher   = lazyregexp.New(`^<frozen runpy>$|/runpy\.py$|/bin/[^/]+$|(?:-packages|^python)/ray/`)
)

// libraryOf returns the name of the library to which a file belongs; "" if it belongs to none, or to Ray.
func libraryOf(file string) string {
	m := ofLibrary().FindStringSubmatch(file)
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
		if m := inFile().FindStringSubmatch(line); m != nil && !launcher().MatchString(m[1]) {
			return libraryOf(m[1])
		}
	}
	return ""
}

// ofJava begins the line in which Py4J's messages name the exception of Java.
const ofJava = ": "

// inConstructor is what Ray says of an actor's death before the exception of its constructor.
const inConstructor = "The actor died because of an error raised in its creation task, "

// raisedIn returns the last exception of a text that does not contain directCause. program is the library to which the
// program's own code belongs; "" if to none.
func raisedIn(text, program string) (e Exception) {
	// indented: the line before is part of a frame. inMessage: the lines are below the one that names the exception,
	// and may be the rest of its message or its notes.
	indented, inMessage := false, false
	function, next, rest, tool := "", 0, -1, -1 // where the message goes on, and where it has a tool's output
	var frame []string                          // the last one
	code := ""                                  // its line of code
	for line := range strings.Lines(text) {
		next += len(line)
		if _, inner, found := strings.Cut(line, inConstructor); found {
			line = inner
		}
		if m := reasonBelow().FindString(line); m != "" && (rest < 0 || e.Message == "") && e.Type != "" {
			rest = next - len(line) + len(m)
		}
		line = strings.TrimRight(line, "\r\n")
		if m := remote().FindStringSubmatch(line); m != nil {
			function, inMessage = functionOf(m), false
		}
		inMessage = inMessage && line != TracebackStart && !strings.HasPrefix(line, "  File \"") &&
			!strings.HasSuffix(line, ofNotebook)
		if line == "" || line[0] == ' ' || line[0] == '\t' || line[0] == '^' || boxed(line) {
			indented = indented || line != ""
			if m := inFile().FindStringSubmatch(line); m != nil {
				frame, code = m, ""
			} else if code == "" {
				code = strings.TrimSpace(line)
			}
			continue
		}
		m := raised().FindStringSubmatch(line)
		if m == nil || inMessage || !isException(m[1], m[2], indented) {
			indented = false
			continue
		}
		inMessage, indented = indented, false
		if m[2] == "RayTaskError" && m[3] != "" {
			name := m[3][strings.LastIndexByte(m[3], '.')+1:]
			e, inMessage, rest, tool = Exception{Type: name, Function: function}, false, -1, -1
			continue // its own traceback follows, if Ray kept it
		}
		if m[4] == "" && e.Type == m[2] && e.Message != "" {
			continue
		}
		message := m[4]
		if said, _, noted := strings.Cut(message, udfNote); noted && strings.IndexAny(said, `'"`) == 0 {
			message = said + said[:1]
		}
		if at := strings.LastIndexByte(message, '['); at >= 0 && !strings.Contains(message[at:], "]") {
			whole := message[at:] + "\n" + text[next:min(len(text), next+4*MaxText)]
			if array := numbers().FindString(whole); array != "" {
				behind, _, _ := strings.Cut(whole[len(array):], "\n")
				message = message[:at] + "[…]" + behind
			}
		}
		if len(message) > MaxMessage { // else the hints may be cut in their middle
			message = repr().ReplaceAllString(withoutHints(message), "<$1 …>")
		}
		e = Exception{Type: m[2], Message: shortened(message), Function: function}
		if inMessage && frame != nil {
			e.setPlace(frame[1], frame[2], code, program)
		}
		rest, tool = -1, -1
		switch {
		case toolBelow().MatchString(text[next:]):
			tool = next
		case message == "in user code:":
			if m := inUserCode().FindStringSubmatch(text[next:min(len(text), next+4*MaxText)]); m != nil {
				e.Rest = Clip(m[1], MaxMessage)
			}
		case needsNextLine(m[4]) && strings.Contains(line, ":"), continued().MatchString(strings.TrimLeft(text[next:], " \t")):
			rest = next
		case strings.HasPrefix(text[next:], ofJava):
			rest = next + len(ofJava)
		}
		if m[2] == "RuntimeEnvSetupError" {
			break // its message continues with tracebacks of the agent that sets up environments
		}
	}
	if tool >= 0 {
		printed, _, _ := strings.Cut(text[tool:min(len(text), tool+maxLastText)], TracebackStart)
		e.Message = Clip(e.Message, MaxMessage/3)
		e.Rest = Clip(ofTool.answer(ownCandidates(printed), "").said, MaxMessage)
	}
	if rest >= 0 {
		e.Rest = restOfMessage(text[rest:])
		java := strings.HasSuffix(text[:rest], "\n"+ofJava)
		if all := causedBy().FindAllString(text[rest:min(len(text), rest+maxCrash)], -1); java && all != nil {
			e.Rest = shortened(strings.TrimPrefix(all[len(all)-1], "Caused by: "))
		}
	}
	return e
}

// udfNote begins what Ray Data adds to the message of what a function raised, within the quotes that Python puts around
// that of a KeyError.
const udfNote = `\nFailed to apply UDF `

// folders matches the folders of a file of a library.
var folders = lazyregexp.New(`(?:/[\w.+-]+)+/(?:site|dist)-packages/`)

// shortened returns a message of at most MaxMessage bytes: a longer one without its middle, because at its end it often
// has the reason.
func shortened(message string) string {
	if len(message) > MaxMessage {
		message = folders().ReplaceAllString(message, "…/")
	}
	if len(message) <= MaxMessage {
		return Clip(message, MaxMessage)
	}
	return Clip(message, MaxMessage/2) + strings.ToValidUTF8(message[len(message)-MaxMessage/2:], "")
}

// isException reports whether a line of a traceback that has a module and a name names an exception: by the usual
// ending of its type, or, if behindFrames says that frames stand above it, by its module or a capital letter.
func isException(module, name string, behindFrames bool) bool {
	capital := strings.ToUpper(name[:1]) == name[:1]
	return typical().MatchString(name) || behindFrames && (module != "" || capital) && name != "Traceback"
}

// setPlace sets what the last frame above an exception tells of it. file, function and code are the frame's, and
// program is the library to which the program's own code belongs.
func (e *Exception) setPlace(file, function, code, program string) {
	library := libraryOf(file)
	e.Library = library != "" && library != program || ofNetworks().MatchString(file)
	e.Own = strings.HasPrefix(code, "raise ") && (!ofPackages().MatchString(file) || library != "" && library == program)
	switch {
	case e.Type == "NotImplementedError" && function != "":
		e.Code = "in " + Clip(function, MaxMessage)
	case e.Type == "AssertionError" && strings.HasPrefix(code, "assert "):
		e.Code = Clip(Printable(code), MaxMessage)
	}
}

// countsBelow matches what pydantic says before the name of a field and what is wrong with it; onlyCode what YAML's
// parser, and clients of HTTP, say before the reason, pip before the package, Ray of a lost object, and the beginning
// of an object.
var (
	countsBelow = lazyregexp.New(`(?:^|: )\d+ validation errors? for [^:]*$`)
	onlyCode    = lazyregexp.New(`^(?:\(\d+\)|[\[{(]+)$|^Failed to retrieve object [0-9a-f]+\.|^while (?:scanning|parsing|constructing) |^ERROR: THESE PACKAGES DO NOT MATCH THE HASHES `)
)

// continued matches a line that goes on with a message, or is the field of omegaconf's that says which key it is about;
// toolBelow what a message goes on with that has the output of a compiler, git or another program.
var (
	continued = lazyregexp.New(`^(?:[Bb]ut |full_key: )`)
	toolBelow = lazyregexp.New(`^(?:[^\n]*\n){0,4}?\s*(?:\[\d+/\d+\] |FAILED: |ninja: |cmdline: |(?:[^\n]{0,40}\b)?(?:[Cc]ommand|[Oo]utput|[Ss]td(?:out|err)|STD(?:OUT|ERR)):(?:\n| '))`)
	// inUserCode matches what TensorFlow says below its frames of user code.
	inUserCode = lazyregexp.New(`(?m)^ {4}(\w+(?:Error|Exception): .*)$`)
	numbers    = lazyregexp.New(`^\[[-+\d.,e\s\[\]]*\]`) // an array, also on several lines
)

// needsNextLine reports whether the first line of a message says little without the next one: "Version mismatch: the
// cluster was started with:". So does what Ray says of any runtime environment that failed.
func needsNextLine(first string) bool {
	first = strings.TrimSpace(first)
	return first == "" || first == "Failed to set up runtime environment." || strings.HasSuffix(first, ":") ||
		countsBelow().MatchString(first) || onlyCode().MatchString(first)
}

// recentLast ends the heading of frames.
const recentLast = "(most recent call last):"

// restOfMessage joins the first lines of a text, with which a message goes on: until an empty line, a frame, another
// traceback, or a record of a log.
func restOfMessage(text string) string {
	var rest []string
	size, at := 0, 0
	text = text[:min(len(text), 4*MaxText)]
	for line := range strings.Lines(text) {
		at += len(line)
		line = strings.TrimRight(line, "\r\n")
		said := strings.Join(strings.Fields(Printable(line)), " ")
		switch {
		case said == "" && size == 0:
			continue
		case said == "", said == directCause, said == whileHandling, strings.HasPrefix(line, "\tat "), frameLine().MatchString(line), boxed(line),
			remote().MatchString(line), marked().MatchString(line),
			strings.Contains(line, TracebackStart), logline.Parse([]byte(line), &logline.Clock{}).Begins(),
			size > 0 && strings.HasSuffix(said, recentLast):
			return Clip(strings.Join(rest, " "), MaxMessage)
		case strings.HasSuffix(said, recentLast): // where TensorFlow's graph has the node
			return restOfMessage(WithoutFrames(text[at:]))
		case marksLine().MatchString(line):
			continue
		}
		rest = append(rest, said)
		if size += len(said) + 1; size > MaxMessage {
			break
		}
	}
	return Clip(strings.Join(rest, " "), MaxMessage)
}

var (
	// groupStart matches the first line of an exception group's traceback, which may stand behind a progress bar,
	// groupRaised the line that names the group (PEP 654).
	groupStart  = lazyregexp.New(`(?m)(?:^[ +|]*|  \+ )Exception Group Traceback \(most recent call last\):$`)
	groupRaised = lazyregexp.New(`(?m)^[ |]*((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*): (.* \(\d+ sub-exceptions?\))$`)
	// groupPart matches the line above each exception in a group, and the line below the last one.
	groupPart = lazyregexp.New(`^[ |]*\+(?:-\+)?-{3,}(?: (?:\d+|\.\.\.) -{3,})?$`)
	isGroup   = lazyregexp.New(` \(\d+ sub-exceptions?\)$`)
)

const (
	maxGroupText = 64 << 10 // bytes of a group's text that are read
	maxInGroup   = 1000     // exceptions in a group that are counted
)

// LastGroup returns the first exception in the last exception group of a log, and the offset where the group's
// traceback begins; -1 if there is no group. If no exception is found in the group, it returns the group itself as an
// exception.
func LastGroup(log string) (e Exception, at int) {
	starts := groupStart().FindAllStringIndex(log, -1)
	end := len(log)
	for i := len(starts) - 1; i >= 0; i-- {
		// Tracebacks of groups inside a group are indented by four spaces or more, the traceback of the outermost group
		// is not. The line that names it comes before the tracebacks inside.
		from := starts[i][0]
		if i == 0 || !strings.HasPrefix(log[from:], "    ") {
			if m := groupRaised().FindStringSubmatch(log[from:end]); m != nil {
				if e = inGroup(log[from:]); e.Type == "" {
					e = Exception{Type: m[2], Message: Clip(m[3], MaxMessage)}
				}
				return e, from
			}
		}
		end = from
	}
	return e, -1
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
		if exception.Type == "" || isGroup().MatchString(exception.Message) {
			return
		}
		if found++; found == 1 {
			e = exception
		}
	}
	first := true
	for line := range strings.Lines(text[:min(len(text), maxGroupText)]) {
		line = strings.TrimRight(line, "\r\n")
		if groupPart().MatchString(line) {
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
