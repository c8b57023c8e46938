package web

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// Part is some of the lines of a text. A part that is not what people look for first is folded.
type Part struct {
	Text   string
	Folded string // what a folded part holds, such as "5 frames of Ray and libraries"; "" if it is shown
	Mine   bool   // frames of the user's own code
	Note   string // instead of Text: what is left out
}

// frameOf reads the first line of a frame of a Python traceback. before is what stands before the frame, such as
// indentation and what a logger puts before each line; file is the frame's file. ok is false for other lines.
func frameOf(line string) (before, file string, ok bool) {
	before, rest, ok := strings.Cut(line, `File "`)
	if !ok || len(before) > 200 {
		return "", "", false
	}
	file, rest, _ = strings.Cut(rest, `"`)
	return before, file, strings.HasPrefix(rest, ", line ")
}

// foreign matches the files of frames that are not the user's code: those of Ray, of installed packages and of Python
// itself.
var foreign = lazyregexp.New(`[/\\](?:site|dist)-packages[/\\]|[/\\](?:lib|Lib)[/\\]python\d|^<frozen |^python/ray/|\.pyx$`)

// Classes of lines. People look for the frames of their own code first: those of other code are folded.
const (
	plainLine    = iota // belongs to no frame of a traceback
	mineLine            // of a frame of the user's code
	foreignLine         // of a frame of other code
	repeatedLine        // shown above on the page
)

// Of many plain lines, the first firstShown and the last lastShown are shown. Of a line with more than longLine bytes,
// the first firstBytes and the last lastBytes are.
const (
	firstShown, lastShown           = 6, 14
	longLine, firstBytes, lastBytes = 800, 400, 200
)

// partsOf splits a text into parts: frames of the user's code, frames of other code, which are folded, and other lines.
// It leaves out lines that the page has shown before, and remembers the others.
func (s *shownLines) partsOf(text string) (parts []Part) {
	lines := strings.SplitAfter(text, "\n")
	for len(lines) > 1 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	// Ray writes some empty lines twice.
	lines = slices.CompactFunc(lines, func(a, b string) bool { return strings.TrimSpace(a+b) == "" })
	class, beginsFrame := classesOf(lines)
	s.markRepeated(lines, class)
	for from := 0; from < len(lines); {
		to := from + 1
		for to < len(lines) && class[to] == class[from] {
			to++
		}
		block := lines[from:to]
		switch class[from] {
		case repeatedLine:
			parts = append(parts, Part{Note: fmt.Sprintf("%d lines as above", len(block))})
		case foreignLine:
			n := 0
			for _, begins := range beginsFrame[from:to] {
				n += boolToInt(begins)
			}
			parts = append(parts, Part{Text: strings.Join(block, ""),
				Folded: fmt.Sprintf("%d %s of Ray and libraries", n, pluralize(n, "frame"))})
		case mineLine:
			parts = append(parts, Part{Text: strings.Join(block, ""), Mine: true})
		default:
			// Without the source line above them, which may have been left out, ^^^ and ~~~ mark nothing.
			parts = appendPlain(parts, slices.DeleteFunc(block,
				func(line string) bool { return strings.ContainsAny(line, "^~") && onlyMarks(line) }))
		}
		from = to
	}
	return parts
}

// classesOf returns the class of each line: plainLine, mineLine or foreignLine. beginsFrame says which lines are the
// first of a frame.
func classesOf(lines []string) (class []int, beginsFrame []bool) {
	class, beginsFrame = make([]int, len(lines)), make([]bool, len(lines))
	for i := 0; i < len(lines); i++ {
		before, file, ok := frameOf(lines[i])
		if !ok {
			continue
		}
		class[i], beginsFrame[i] = mineLine, true
		if foreign().MatchString(file) {
			class[i] = foreignLine
		}
		// The frame's source and marks follow, which are indented further. Ray puts empty lines between frames.
		for i+1 < len(lines) && (strings.HasPrefix(lines[i+1], before+"  ") ||
			strings.HasPrefix(lines[i+1], before+"[Previous line") || onlyMarks(lines[i+1])) {
			i++
			class[i] = class[i-1]
		}
	}
	return class, beginsFrame
}

// onlyMarks reports whether a line is blank, or has only characters that mark a place in the line above.
func onlyMarks(line string) bool { return strings.Trim(line, " \t\n^~") == "" }

// appendPlain appends plain lines to parts. It folds the middle of a long line, and the middle of many lines.
func appendPlain(parts []Part, lines []string) []Part {
	show := func(lines []string) {
		for _, line := range lines {
			if len(line) <= longLine {
				parts = appendText(parts, line)
				continue
			}
			from, to := wordStart(line, firstBytes), wordStart(line, len(line)-lastBytes)
			parts = appendText(parts, line[:from])
			parts = append(parts, Part{Text: line[from:to],
				Folded: formatCount(utf8.RuneCountInString(line[from:to])) + " characters of this line"})
			parts = appendText(parts, line[to:])
		}
	}
	const fewLines = 2 // so few are not worth folding
	if cut := len(lines) - firstShown - lastShown; cut > fewLines {
		show(lines[:firstShown])
		parts = append(parts, Part{Text: strings.Join(lines[firstShown:firstShown+cut], ""),
			Folded: fmt.Sprintf("%d lines", cut)})
		lines = lines[firstShown+cut:]
	}
	show(lines)
	return parts
}

// appendText appends a text that is neither folded nor marked: to the last part if that is such a text, too, else as a
// new part.
func appendText(parts []Part, text string) []Part {
	if n := len(parts); n > 0 {
		last := &parts[n-1]
		if isText := *last == (Part{Text: last.Text}); isText {
			last.Text += text
			return parts
		}
	}
	return append(parts, Part{Text: text})
}

// wordStart returns the offset of the first word that begins after at, if one begins soon; else that of the first
// character.
func wordStart(text string, at int) int {
	const soon = 40
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	if space := strings.IndexByte(text[at:min(len(text), at+soon)], ' '); space >= 0 {
		return at + space + 1
	}
	return at
}

// shownLines remembers the texts and lines that a page shows, so that it shows none of them twice.
type shownLines struct {
	texts   map[string]bool
	windows map[[windowLines]string]bool // each windowLines lines in a row
}

// windowLines is how many lines in a row must have been shown before, for them to be left out.
const windowLines = 4

// markRepeated changes the class of the lines that were shown before to repeatedLine, and remembers all lines.
func (s *shownLines) markRepeated(lines []string, class []int) {
	if s.windows == nil {
		s.windows = map[[windowLines]string]bool{}
	}
	var windows [][windowLines]string
	for i := 0; i+windowLines <= len(lines); i++ {
		var window [windowLines]string
		for j := range window {
			window[j] = strings.TrimSpace(lines[i+j])
		}
		if s.windows[window] {
			for j := range window {
				class[i+j] = repeatedLine
			}
		}
		windows = append(windows, window)
	}
	for _, window := range windows { // only now: a text does not repeat itself
		s.windows[window] = true
	}
}

// hasText reports whether a text, apart from its spaces, was shown before, and remembers it.
func (s *shownLines) hasText(text string) bool {
	key := strings.Join(strings.Fields(text), " ")
	if s.texts[key] {
		return true
	}
	if s.texts == nil {
		s.texts = map[string]bool{}
	}
	s.texts[key] = true
	return false
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
