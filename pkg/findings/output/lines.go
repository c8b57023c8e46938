package output

import (
	"iter"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

const (
	maxLastText  = 64 << 10 // bytes at the end of a log that are looked at
	maxParagraph = 50       // lines of a paragraph
)

// ofRay matches lines that Ray prints into the log of a job.
var ofRay = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t(?:V*INFO|SUCC|DEBUG|V?WARN(?:ING)?) \S+\.py:\d+ -- |^Running entrypoint for job |^Reporting training result \d+: |^- \(ip=[\d.]+, pid=\d+\) |^\[notice\] |^WARNING: There was an error checking the latest version of pip|^\[State Transition\] |^WARNING \S+ \S+ serve \d+ -- Failed to get queue length |` +
	`^\*\*\* SIG[A-Z]+ received at |^PC: @ +0x|^@ +(?:0x|\.\.\. )`)

// lastOwn returns what a program itself printed at the end of its log, from the end on, without the names of its
// processes. Lines of Ray and of its workers are left out, and lines that say nothing or only where something happened.
// Lines that belong together, such as those of a box, are one.
func lastOwn(log string) iter.Seq[string] {
	return func(yield func(string) bool) {
		own := passedWhole().ReplaceAllString(OwnLines(log[max(0, len(log)-maxLastText):]), "")
		if end := strings.LastIndex(own, endOfOutput); end >= 0 && strings.Count(own[end:], "\n") <= maxBelow {
			own = own[:end]
		}
		lines := strings.Split(own, "\n")
		for end := len(lines); end > 0; {
			from := lastParagraph(lines[:end])
			p := paragraph{}
			for i := from; i < end; i++ {
				p.add(lines[i], lines[max(0, i-1)])
			}
			for _, said := range slices.Backward(p.said) {
				if !yield(said) {
					return
				}
			}
			end = from
		}
	}
}

// endOfOutput is what pip prints below the output of a process that failed. What follows, at most maxBelow lines, only
// says that it did.
const (
	endOfOutput = "[end of output]"
	maxBelow    = 20
)

// lastParagraph returns the index of the line with which the last paragraph begins, at most maxParagraph lines before
// the end. lines must not be empty.
func lastParagraph(lines []string) int {
	at := len(lines) - 1
	for at > 0 && strings.TrimSpace(lines[at-1]) != "" && len(lines)-at < maxParagraph {
		at--
	}
	return at
}

// paragraph is what the lines of a program say up to an empty one.
type paragraph struct {
	said []string
	open block
	// of the open block
	indent int    // of its first line: deeper lines are its own
	title  string // of a box
	begun  bool   // it has said something
}

// block is what several lines are parts of.
type block int

const (
	noBlock    block = iota
	box              // with lines around it, as the library rich and Terraform draw them
	skipped          // a box of a traceback's frames, or a table, which are left out
	place            // a line that says where an error was: the next one says which
	branch           // of a tree of causes, as miette draws it: "╰─▶ Because …"
	causeBelow       // "Caused by:", and the cause in the lines below, which may be numbered: the last one is the root
	offers           // a list of what a program would have taken, which is left out
	hint             // what to do about an error, which is left out
	labelled         // of npm, which begins each line of a message alike
)

var (
	branches = lazyregexp.New(`^[├╰└]─+▶ ?`)
	causes   = lazyregexp.New(`(?i)^(?:the conflict is )?caused by:$`)
	numbered = lazyregexp.New(`^\d+: `)
	ofNPM    = lazyregexp.New(`^npm (?:error|ERR!)(?: (?:404|e[a-z]{5,}|E[A-Z]{4,}))?(?: |$)`)
	inPlace  = lazyregexp.New(`\b(?:[Ee]rror|[Ff]ailure) in [^:]*[)\]]$|^--- FAIL: \S+ \([\d.]+s\)$|^go: \S+: reading \S+: \d{3} `)
	// offer matches the heading of a list of what a program would have taken, or how it is used.
	offer = lazyregexp.New(`(?i)^(?:(?:\w+ ){0,3}(?:options|choices|candidates)|(?:(?:the|optional|positional|available|valid|other|similar) ){0,2}(?:commands|arguments)|(?:similar|valid|available) [\w ]+):$|^did you mean\b.*:$|^usage: `)
)

// How lines begin that say a cause, as Java and uv have it, and a hint of uv, which is the cause if an index refused to
// answer.
const (
	causedByText = "Caused by: "
	causeText    = "cause: "
	hintText     = "hint: "
	indexHint    = hintText + "An index URL "
)

// add adds a line to the paragraph: it begins a block, continues the open one, or says something by itself. Lines that
// say nothing are left out. above is the line before it.
func (p *paragraph) add(line, above string) {
	line, above = ownMarked().ReplaceAllString(line, ""), ownMarked().ReplaceAllString(above, "")
	if frameLine().MatchString(above) && indentOf(line) > indentOf(above) || inLoggedTraceback(line, above) ||
		strings.HasPrefix(line, "  ") && ofPython().MatchString(above) {
		return // the code of the frame, or of what warned
	}
	line = Printable(string(logline.Visible([]byte(line))))
	text, margin := strings.TrimLeft(line, " \t"), indentOf(line)
	said := strings.Trim(text, "│├╰└─▶ \t")
	if p.edge(text, said) {
		return // it opened or closed a box
	}
	rowOfTable := strings.HasPrefix(said, "| ") && strings.HasSuffix(said, " |")
	if p.open == skipped && boxed(text) || rowOfTable || !letters().MatchString(said) || ofRay().MatchString(said) ||
		frameLine().MatchString(said) {
		return // it says nothing of its program's end
	}
	npm := ofNPM().FindString(said) // what npm begins the line with; "" for lines of others
	switch {
	case p.open == labelled && npm != "":
		if more := strings.TrimSpace(said[len(npm):]); more != "" && !saysNothing().MatchString(said) {
			p.continueBlock(more)
		}
	case p.open == box && boxed(text), p.open == branch && strings.HasPrefix(text, "│"),
		p.open > skipped && margin > p.indent && !strings.HasPrefix(said, "---"):
		p.continueBlock(said)
	case branches().MatchString(text), strings.HasPrefix(text, causeText):
		p.openBlock(branch, margin)
		p.continueBlock(strings.TrimPrefix(said, causeText))
	case strings.HasPrefix(text, indexHint):
		p.openBlock(branch, margin-1)
		p.continueBlock(strings.TrimPrefix(said, hintText))
	case strings.HasPrefix(text, hintText) && margin > 0:
		p.openBlock(hint, margin-1)
	case npm != "" && strings.HasPrefix(said[len(npm):], "code "):
		p.openBlock(labelled, margin)
		p.said, p.begun = append(p.said, said), true
	case causes().MatchString(said):
		p.openBlock(causeBelow, margin)
	case offer().MatchString(said) && (!saysError().MatchString(said) || saysNothing().MatchString(said)):
		p.openBlock(offers, margin)
	default:
		p.openBlock(noBlock, 0)
		if inPlace().MatchString(said) {
			p.openBlock(place, margin)
		}
		p.said = append(p.said, said)
	}
}

// edge opens or closes a box if a line is the edge of one, and reports whether it is. text is the line without its
// indent, and said is what it says without the signs of the box.
func (p *paragraph) edge(text, said string) bool {
	switch {
	case strings.HasPrefix(text, "╭"), strings.HasPrefix(text, "╷"):
		p.openBlock(box, 0)
		p.title = strings.Trim(said, "╭╮╷ ─")
		if strings.HasPrefix(p.title, "Traceback") {
			p.open = skipped
		}
	case strings.HasPrefix(text, "├") && p.open == box && p.title == "": // of a table
		if p.begun {
			p.said = p.said[:len(p.said)-1]
		}
		p.open = skipped
	case strings.HasPrefix(text, "╵"), strings.HasPrefix(text, "╰") && strings.HasSuffix(text, "╯"):
		p.openBlock(noBlock, 0)
	default:
		return false
	}
	return true
}

// openBlock opens a block at a margin, in place of the one that was open.
func (p *paragraph) openBlock(what block, margin int) {
	*p = paragraph{said: p.said, open: what, indent: margin}
}

// continueBlock adds a text to the open block, in the way that its kind needs.
func (p *paragraph) continueBlock(said string) {
	switch {
	case p.open == offers, p.open == hint: // left out
	case p.open == place:
		p.said[len(p.said)-1] += ": " + said
		p.openBlock(noBlock, 0)
	case p.begun && p.open == causeBelow && numbered().MatchString(said):
		p.said[len(p.said)-1] = causedByText + numbered().ReplaceAllString(said, "")
	case p.begun:
		p.said[len(p.said)-1] += " " + said
	case p.open == box:
		if p.title != "" {
			said = p.title + ": " + said
		}
		p.said, p.begun = append(p.said, said), true
	default:
		p.said, p.begun = append(p.said, causedByText+numbered().ReplaceAllString(said, "")), true
	}
}

// recordFrame matches a frame of a traceback of which each line has the header of its record, as vLLM prints it. The
// first group is the header.
var recordFrame = lazyregexp.New(`^(\S[^"\n]{0,200}\S) {2,}File "[^"\n]*", line \d+`)

// inLoggedTraceback reports whether a line is of a traceback of which a logger printed each line behind the header of a
// record: a frame, or the code of the frame in the line above.
func inLoggedTraceback(line, above string) bool {
	const frame = `  File "` // looked for first, because that is cheaper than the expression
	if strings.Contains(line, frame) && recordFrame().MatchString(line) {
		return true
	}
	if !strings.Contains(above, frame) {
		return false
	}
	m := recordFrame().FindStringSubmatch(above)
	// Of the header only the length counts: the time in it may be a later one.
	return m != nil && len(line) > len(m[1]) && strings.HasPrefix(line[len(m[1]):], "   ")
}

// indentOf returns how many spaces and tabs a line begins with.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
