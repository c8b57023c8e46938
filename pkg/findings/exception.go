package findings

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// exception is the exception that a traceback is about. Of nested exceptions it is the first one: the one that another was raised from, or the
// one of the innermost task.
type exception struct {
	Type     string // without its module, such as ValueError
	Message  string // the first line of the message
	Function string // the task or method that raised it, from Ray's "ray::name()"; "" if the text names none
}

// String returns the line that Python prints about the exception.
func (e exception) String() string {
	if e.Message == "" || e.Type == "" {
		return e.Type + e.Message
	}
	return e.Type + ": " + e.Message
}

// same reports whether two texts are about the same exception.
func (e exception) same(other exception) bool {
	return e.Type != "" && e.Type == other.Type && normalised(e.Message) == normalised(other.Message)
}

var (
	// raised matches the line of a traceback that names the exception: "module.Type(Inner): message".
	raised = expression(`^((?:[A-Za-z_]\w*\.|<locals>\.)*)([A-Za-z_]\w*)(?:\(([\w.]+)\))?(?::\s?(.*))?$`)
	// typical matches names of exceptions with a usual ending, such as Error. Other names count only directly after a traceback's frames, and only
	// if they begin with a capital letter or have a module.
	typical = expression(`(Error|Exception|Exit|Interrupt|Timeout|Cancelled|Failure|Warning)$`)
	// remote matches the line that Ray puts before the traceback of a task: the name of its process, which may be any text, and the process's ID.
	remote = expression(`ray::(?:(.{1,300}?)\(\) \(pid=|([^\s()]+(?:\([^()\s]*\))?(?:->[^\s()]+(?:\([^()\s]*\))?)*(?:\.\w+)?)\(\))`)
	colour = expression("\x1b\\[[0-9;]*[A-Za-z]")

	varying = expression(`0x[0-9a-fA-F]+|\b[0-9a-fA-F]{16,}\b|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|\d+(?:\.\d+)*`)
)

// exceptionOf returns the exception that a text printed by Python is about. A CancelledError does not count if another exception was raised
// because of it: asyncio cancels what took too long, and then raises a TimeoutError.
func exceptionOf(text string) (e exception) {
	text = colour().ReplaceAllString(text, "")
	for {
		first, rest, more := strings.Cut(text, directCause)
		if e = raisedIn(first); !more || e.Type != "CancelledError" {
			return e
		}
		text = rest
	}
}

// raisedIn returns the exception of a text that does not contain directCause.
func raisedIn(text string) (e exception) {
	// indented: the line before is part of a frame. inMessage: the lines are below the one that names the exception, and may be the rest of its
	// message or its notes.
	indented, inMessage := false, false
	function := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if m := remote().FindStringSubmatch(line); m != nil {
			function, inMessage = m[1]+m[2], false
		}
		inMessage = inMessage && line != tracebackStart && !strings.HasPrefix(line, "  File \"")
		if line == "" || line[0] == ' ' || line[0] == '\t' || line[0] == '^' || boxed(line) {
			indented = indented || line != ""
			continue
		}
		m := raised().FindStringSubmatch(line)
		if m == nil || inMessage || !typical().MatchString(m[2]) && !(indented && (m[1] != "" || strings.ToUpper(m[2][:1]) == m[2][:1]) && m[2] != "Traceback") {
			indented = false
			continue
		}
		inMessage, indented = indented, false
		if m[2] == "RayTaskError" && m[3] != "" {
			e, inMessage = exception{Type: lastName(m[3]), Function: function}, false
			continue // its own traceback follows, if Ray kept it
		}
		if m[4] == "" && e.Type == m[2] && e.Message != "" {
			continue
		}
		e = exception{Type: m[2], Message: clip(m[4], maxMessage), Function: function}
		if m[2] == "RuntimeEnvSetupError" {
			break // its message continues with tracebacks of the agent that sets up environments
		}
	}
	return e
}

func lastName(dotted string) string { return dotted[strings.LastIndexByte(dotted, '.')+1:] }

// normalised returns a message without what differs between occurrences of one failure: numbers, addresses and IDs.
func normalised(message string) string {
	return varying().ReplaceAllString(clip(message, maxTitleText), "#")
}

// clip cuts a text after the given number of bytes, but not inside a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return strings.ToValidUTF8(text[:most], "\uFFFD") + "…"
}

// printable returns a text without characters that control a terminal or change the direction of writing.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, colour().ReplaceAllString(text, ""))
}

// excerpt returns a text as evidence shows it: printable, and only the beginning and the end of a long text.
func excerpt(text string) string {
	if len(text) > 4*maxText {
		text = text[:2*maxText] + text[len(text)-2*maxText:]
	}
	text = strings.TrimSpace(printable(text))
	if len(text) <= maxText {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	const head = maxText / 4
	return clip(text[:head], head) + "\n…\n" + strings.ToValidUTF8(text[len(text)-(maxText-head):], "")
}

// firstSentence returns the part of Ray's message that says what happened, without the general advice after it.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(colour().ReplaceAllString(clip(text, maxText), "")), " ")
	for _, end := range []string{" Some common causes include", " Refer to the documentation", " To see more information", " Unintentional worker failures"} {
		text, _, _ = strings.Cut(text, end)
	}
	return clip(text, maxTitleText)
}
