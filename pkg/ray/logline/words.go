package logline

import (
	"bytes"
	"strings"
)

// wordSize is how many bytes the word has that b begins with. It ends before a space, a tab, a bar, a closing bracket,
// or a comma behind which there is a space or nothing; its first byte may be any.
func wordSize(b []byte) (n int) {
	for n = 1; n < len(b); n++ {
		if c := b[n]; c == ' ' || c == '\t' || c == '|' || c == ',' && (n+1 == len(b) || b[n+1] == ' ') || c == ']' {
			return n
		}
	}
	return n
}

// separatorFollows reports whether b begins, behind spaces, with what stands between fields: "| ", "- ", ": " or a tab.
func separatorFollows(b []byte) bool {
	b = bytes.TrimLeft(b, " ")
	return len(b) > 1 && (b[0] == '|' || b[0] == '-' && (b[1] == ' ' || b[1] == '-') || b[0] == ':' || b[0] == '\t')
}

// isException says whether a word is the name of an exception: a line that begins with it ends a traceback.
func isException(word []byte) bool {
	for _, end := range [...]string{"Error", "Exception", "Exit", "Interrupt", "Failure", "Timeout", "Group",
		"Warning"} {
		if bytes.HasSuffix(word, []byte(end)) && len(word) > len(end) && isLetter(word[0]) {
			return true
		}
	}
	return false
}

// looksLikeName says whether a word is more likely the name of a host, a module, a process or a line of a program than
// one of a sentence: it has a digit, a colon, a capital letter behind a small one (MapWorker), or what joins the parts
// of names, but for the sentence's own full stop at its end.
func looksLikeName(word []byte) bool {
	for i, c := range word {
		switch {
		case isDigit(c), c == ':':
			return true
		case strings.IndexByte("_[]/@#\\+.", c) >= 0 && i+1 < len(word):
			return true
		case isCapital(c) && i > 0 && word[i-1] >= 'a' && word[i-1] <= 'z':
			return true
		}
	}
	switch string(word) {
	case "NCCL", "UCX", "root": // libraries that name themselves in their logs, and Python's own logger
		return true
	}
	return false
}

func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }

func allCapitals(word []byte) bool { return len(word) > 1 && len(leadingCapitals(word)) == len(word) }

// leadingCapitals are the capital letters that b starts with.
func leadingCapitals(b []byte) []byte {
	n := 0
	for n < len(b) && isCapital(b[n]) {
		n++
	}
	return b[:n]
}

func leadingLetters(b []byte) []byte {
	n := 0
	for n < len(b) && isLetter(b[n]) {
		n++
	}
	return b[:n]
}

// levelFollows says whether a level in capital letters or a group comes next, with at most two names before it.
func levelFollows(b []byte) bool {
	for range 3 {
		i, _ := skipSeparators(b, 0)
		if b = b[i:]; len(b) == 0 {
			return false
		}
		if b[0] == '[' {
			return true
		}
		size := wordSize(b)
		word := leadingCapitals(b)
		if len(word) > 1 && levelByName(word) != Unknown && (len(word) == len(b) || mayFollowLevel(b[len(word)])) {
			return true
		}
		if !looksLikeName(b[:size]) {
			return false
		}
		b = b[size:]
	}
	return false
}

// mayFollowLevel reports whether a byte may stand directly behind a level.
func mayFollowLevel(c byte) bool { return strings.IndexByte(" \t:/|,;-)]}[>*!", c) >= 0 }

// readWord reads the level or skips the name that b begins with, such as a program's or a module's, and returns how
// many bytes that has; 0 if the message begins here. A message ends the header, so what may be its first word counts as
// a name only if what is around it says so: a separator, a name's form, or a level behind it. delimited and inGroup are
// as in readLevel.
func (h *header) readWord(b []byte, delimited, inGroup bool) int {
	size := wordSize(b)
	word := b[:size]
	if bytes.IndexByte(word, '=') > 0 && !h.Begins() {
		h.addMissing(logfmt(b, h.clock))
		return 0
	}
	if h.Level == Unknown {
		if n := h.readLevel(b, size, delimited, inGroup); n > 0 {
			h.isHeader = true
			return n
		}
	}
	if h.Level != Unknown {
		return 0 // behind the level is the message
	}
	last := word[size-1]
	separated := last == ':' || separatorFollows(b[size:])
	if isException(bytes.TrimRight(word, ":")) {
		return 0
	}
	switch {
	case bytes.ContainsAny(word, `"'=`) && !h.Dated: // no name has these
		return 0
	case separated, inGroup && h.Dated:
		h.nameCount++
		if h.nameCount > 4 { // so many are words of a message
			return 0
		}
	case string(word) == "stdout" || string(word) == "stderr": // of a container's runtime (CRI): "2026-… stderr F …"
		if len(b) > size+3 && b[size+2] == ' ' && (b[size+1] == 'F' || b[size+1] == 'P') {
			return size + 3
		}
	case looksLikeName(word):
		if h.nameCount++; h.nameCount > 5 || !h.isHeader && h.nameCount > 2 { // a message may have several such words
			return 0
		}
	default: // a name of one word, or the message's first
		beginsSentence := isCapital(word[0]) && !allCapitals(word)
		mayBeName := h.isHeader && h.nameCount <= 1 && (h.isBehindTime() || allCapitals(word)) && !beginsSentence
		if !mayBeName || !levelFollows(b[size:]) {
			return 0
		}
		h.nameCount++
	}
	return size
}

// readLevel reads the level that b begins with, whose first word has size bytes, and returns how many bytes belong to
// it; 0 if there is none. delimited says that more than spaces is before it, inGroup that it is between brackets. A
// letter, or a word that a message may begin with, is a level only if what is before or behind it says so.
func (h *header) readLevel(b []byte, size int, delimited, inGroup bool) int {
	word := leadingLetters(b[:size])
	n := len(word)
	if n == 0 {
		return 0
	}
	next := byte(' ')
	if n < len(b) {
		next = b[n]
	}
	if !mayFollowLevel(next) {
		return 0
	}
	isFirst, behindTime := h.fieldCount == 0, h.isBehindTime()
	// Ruby: "E, [2026-11-20T10:00:05 #1]"
	isRubys := next == ',' && isFirst && bytes.HasPrefix(b, []byte(string(b[0])+", ["))
	// NeMo: "[NeMo E 2026-…"; Ray: "[2026-… E 1 2]"
	isBeforeNumber := next == ' ' && inGroup && len(b) > 2 && isDigit(b[2])
	// TensorFlow: "2026-11-20 10:00:05.123456: E file.cc:1] …"
	isBeforePlace := next == ' ' && behindTime &&
		(inGroup || delimited && bytes.IndexByte(b[:min(len(b), 80)], ']') > 0)
	switch {
	case n == 1 && (isRubys || isBeforeNumber || isBeforePlace):
		h.Level = letterLevel(word[0])
	case len(leadingCapitals(word)) == n:
		if h.isHeader || next == '[' || next == ':' || delimited {
			h.Level = levelByName(word)
		} else {
			h.Level = levelByClearName(word)
		}
	case next == ':' && (isFirst || h.isHeader || h.nameCount > 0), // gcc: "x.cpp:12:3: error: …"
		behindTime && (next == '\t' || delimited && separatorFollows(b[n:])),
		inGroup && isFirst && next == '|':
		h.Level = levelInAnyCase(word)
	}
	if h.Level == Unknown {
		return 0
	}
	if next == '[' { // logrus: "ERRO[0005]"; .NET: "fail: Name[0]"
		if end := bytes.IndexByte(b[n:min(len(b), n+12)], ']'); end > 0 {
			return n + end + 1
		}
	}
	return n
}
