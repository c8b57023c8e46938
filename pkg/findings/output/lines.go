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
	maxParagraph = 50       // lines of a paragraph
)

// rayLine matches lines that Ray prints into the log of a job.
var rayLine = lazyregexp.New(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+\t(?:V*INFO|SUCC|DEBUG|` +
	`V?WARN(?:ING)?) \S+\.py:\d+ -- |^Running entrypoint for job |^Reporting training result \d+: |` +
	`^- \(ip=[\d.]+, pid=\d+\) |^\[notice\] |^WARNING: There was an error checking the latest version of pip|` +
	`^\[State Transition\] |^WARNING \S+ \S+ serve \d+ -- Failed to get queue length |` +
	ofHandler)

// ofHandler matches what Ray's handler of signals prints (failure_signal_handler.cc of Abseil), also as Ray logs it.
const ofHandler = `^(?:\[.{1,80}\] logging\.cc:\d+: )?\s*(?:\*\*\* (SIG[A-Z]+) received at |PC: @ +0x|` +
	`@ +(?:0x|\.\.\. ))|^\[failure_signal_handler\.cc `

// ownEnd returns the end of a log that is looked at, without the lines that Ray copied from other processes.
func ownEnd(log string) string { return OwnLines(lastText(log)) }

// lastText returns the end of a log that is looked at, in whole lines: without its beginning a line may seem to say
// something else. Of a line that is longer it returns the end.
func lastText(log string) string {
	if len(log) <= maxLastText {
		return log
	}
	begin := len(log) - maxLastText
	_, lines, _ := strings.Cut(log[begin-1:], "\n")
	return cmp.Or(lines, log[begin:])
}

// statement is what a line says, or lines that belong together, such as those of a box.
type statement struct {
	text         string
	line, margin int // of the line with which it begins: its number, and how far it is indented
}

// statementsBackward returns what one process printed, from the end on, without the names of processes of its own.
// Lines that Ray printed are left out, and lines that say nothing or only where something happened.
func statementsBackward(printed string) iter.Seq[statement] {
	return func(yield func(statement) bool) {
		printed = wentOnWithTraceback().ReplaceAllStringFunc(printed, func(record string) string {
			return strings.Repeat("\n", strings.Count(record, "\n")) // lines below it keep their numbers
		})
		if end := strings.LastIndex(printed, endOfOutput); end >= 0 && strings.Count(printed[end:], "\n") <= maxBelow {
			printed = printed[:end]
		}
		lines := strings.Split(printed, "\n")
		for end := len(lines); end > 0; {
			from := lastParagraph(lines[:end])
			p := paragraph{}
			for i := max(0, from-1); i < end; i++ {
				p.line = i
				p.add(lines[i], i < from)
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
	said   []statement
	line   int    // the number of the line that is read
	frames frames // of tracebacks above it
	above  string // the line above it
	open   block  // the block to which the next line may belong
	// Of the open block:
	indent  int    // lines with a larger margin belong to it
	title   string // of a box
	hasText bool   // the last of said is its text
}

// block is what several lines are parts of. A block is one text of the paragraph, or is left out.
type block int

const (
	noBlock      block = iota
	box                // with lines around it, as the library rich and Terraform draw them
	skippedBox         // a box of a traceback's frames, or a table: left out
	place              // "--- FAIL: TestRead (0.01s)" says where an error was, and the line below says which
	causeTree          // of causes, as miette draws it: "╰─▶ Because …"
	causeBelow         // "Caused by:", and the cause in the lines below, maybe numbered: the last one is the root
	skippedLines       // what a program would have taken, "valid options:", or a hint what to do: left out
	npmMessage         // each of its lines begins with "npm error"
)

var (
	branchSign   = lazyregexp.New(`^[├╰└]─+▶ ?`)                                                   // "╰─▶ Because …"
	causeHeading = lazyregexp.New(`(?i)^(?:the conflict is )?caused by:$`)                         // "Caused by:"
	causeNumber  = lazyregexp.New(`^\d+: `)                                                        // "0: connection refused"
	npmPrefix    = lazyregexp.New(`^npm (?:error|ERR!)(?: (?:404|e[a-z]{5,}|E[A-Z]{4,}))?(?: |$)`) // "npm error ERESOLVE "
	// placeHeading matches the first line of a place: "Error in module.vpc (main.tf)", "go: a@v1: reading a.mod: 404 ",
	// or that names the type of an exception in C++.
	placeHeading = lazyregexp.New(`\bterminate called after throwing an instance of '[^']*'$|` +
		`\b(?:[Ee]rror|[Ff]ailure) in [^:]*[)\]]$|^--- FAIL: \S+ \([\d.]+s\)$|^go: \S+: reading \S+: \d{3} `)
	// offersHeading matches the line above what a program would have taken: "optional arguments:", "Did you mean one of
	// these:".
	offersHeading = lazyregexp.New(`(?i)^(?:(?:\w+ ){0,3}(?:options|choices|candidates)|` +
		`(?:(?:the|optional|positional|available|valid|other|similar) ){0,2}(?:commands|arguments)|` +
		`(?:similar|valid|available) [\w ]+):$|^did you mean\b.*:$|^usage: `)
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
// say nothing of the end of their program are left out, and so is the line above the paragraph, which may be a frame.
func (p *paragraph) add(line string, isAbove bool) {
	line = Printable(string(logline.Visible([]byte(processMark().ReplaceAllString(line, "")))))
	isCode := p.frames.take(line) || strings.HasPrefix(line, "  ") && warningsModule().MatchString(p.above)
	if p.above = line; isCode || isAbove {
		return
	}
	text, margin := strings.TrimLeft(line, " \t"), indentOf(line)
	said := strings.Trim(text, "│├╰└─▶ \t")
	if p.takeBoxEdge(text, said) {
		return // it opened or closed a box
	}
	switch {
	case p.leavesOut(text, said):
	case p.open == npmMessage && npmPrefix().MatchString(said):
		p.continueBlock(strings.TrimSpace(said[len(npmPrefix().FindString(said)):]))
	case p.holds(text, said, margin):
		p.continueBlock(said)
	default:
		p.begin(text, said, margin)
	}
}

// leavesOut reports whether a line says nothing of its program's end. text and said are as for takeBoxEdge.
func (p *paragraph) leavesOut(text, said string) bool {
	switch {
	case p.open == skippedBox && isBoxLine(text):
		return true
	case strings.HasPrefix(said, "| ") && strings.HasSuffix(said, " |"): // the row of a table: "| loss | 0.3 |"
		return true
	}
	if npm := npmPrefix().FindString(said); npm != "" { // a hint, and the command that it tells
		more := strings.TrimSpace(said[len(npm):])
		return more == "" || saysNothing().MatchString(more) || strings.HasPrefix(more, "npm ")
	}
	return !anyLetter().MatchString(said) || rayLine().MatchString(said)
}

// holds reports whether a line belongs to the open block. text and said are as for takeBoxEdge.
func (p *paragraph) holds(text, said string, margin int) bool {
	switch {
	case p.open == noBlock, p.open == skippedBox:
		return false
	case p.open == box:
		return isBoxLine(text)
	case p.open == causeTree && strings.HasPrefix(text, "│"):
		return true
	}
	return margin > p.indent && !strings.HasPrefix(said, "---") // "    --- FAIL:" begins another place
}

// begin adds a line that belongs to no block above it: it opens one, or says something by itself. text and said are as
// for takeBoxEdge. Hints are wrapped without a larger margin: lines at the same margin belong to them.
func (p *paragraph) begin(text, said string, margin int) {
	npm := npmPrefix().FindString(said)
	switch {
	case branchSign().MatchString(text), strings.HasPrefix(text, causeText):
		p.openBlock(causeTree, margin)
		p.continueBlock(strings.TrimPrefix(said, causeText))
	case strings.HasPrefix(text, indexHint):
		p.openBlock(causeTree, margin-1)
		p.continueBlock(strings.TrimPrefix(said, hintText))
	case strings.HasPrefix(text, hintText) && margin > 0:
		p.openBlock(skippedLines, margin-1)
	case npm != "" && strings.HasPrefix(said[len(npm):], "code "): // "npm error code ERESOLVE"
		p.openBlock(npmMessage, margin)
		p.addText(said)
	case causeHeading().MatchString(said):
		p.openBlock(causeBelow, margin)
	case offersHeading().MatchString(said) && (!saysError().MatchString(said) || saysNothing().MatchString(said)):
		p.openBlock(skippedLines, margin)
	case placeHeading().MatchString(said):
		p.openBlock(place, margin)
		p.addText(said)
	default:
		p.openBlock(noBlock, margin)
		p.addText(said)
	}
}

// addText adds a text that is the open block's.
func (p *paragraph) addText(said string) {
	p.said, p.hasText = append(p.said, statement{said, p.line, p.indent}), true
}

// takeBoxEdge opens or closes a box if a line is the edge of one, and reports whether it is. text is the line without
// its indent, and said is what it says without the signs of the box.
func (p *paragraph) takeBoxEdge(text, said string) bool {
	switch {
	case strings.HasPrefix(text, "╭"), strings.HasPrefix(text, "╷"):
		p.openBlock(box, 0)
		p.title = strings.Trim(said, "╭╮╷ ─")
		if strings.HasPrefix(p.title, "Traceback") {
			p.open = skippedBox
		}
	case strings.HasPrefix(text, "├") && p.open == box && p.title == "": // of a table
		if p.hasText {
			p.said = p.said[:len(p.said)-1]
		}
		p.open = skippedBox
	case strings.HasPrefix(text, "╵"), strings.HasPrefix(text, "╰") && strings.HasSuffix(text, "╯"):
		p.openBlock(noBlock, 0)
	default:
		return false
	}
	return true
}

// openBlock opens a block in place of the one that was open. Lines with a larger margin belong to it.
func (p *paragraph) openBlock(what block, margin int) {
	p.open, p.indent, p.title, p.hasText = what, margin, "", false
}

// continueBlock adds a text to the open block, in the way that its kind needs.
func (p *paragraph) continueBlock(said string) {
	switch {
	case p.open == skippedLines: // left out
	case p.open == place:
		p.said[len(p.said)-1].text += ": " + said
		p.openBlock(noBlock, 0)
	case p.hasText && p.open == causeBelow && causeNumber().MatchString(said):
		p.said[len(p.said)-1].text = causedByText + causeNumber().ReplaceAllString(said, "")
	case p.hasText:
		p.said[len(p.said)-1].text += " " + said
	case p.open == box:
		if p.title != "" {
			said = p.title + ": " + said
		}
		p.addText(said)
	default:
		p.addText(causedByText + causeNumber().ReplaceAllString(said, ""))
	}
}

// indentOf returns how many spaces and tabs a line begins with.
func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
