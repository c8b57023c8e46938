package output

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// Limits of what is shown, in bytes.
const (
	MaxText    = 4000
	MaxTitle   = 300
	MaxMessage = 200 // of an exception
)

// Clip returns a text of at most limit bytes, and "…" behind it if it was cut. It does not cut inside a character.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return strings.ToValidUTF8(text[:limit], "\uFFFD") + "…"
}

// Printable returns a text without characters that control a terminal or change the direction of writing.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, human.WithoutColours(text))
}

// Excerpt returns a text as evidence shows it: printable, and of a text of more than MaxText bytes only both ends.
func Excerpt(text string) string {
	if len(text) > 4*MaxText {
		text = text[:2*MaxText] + text[len(text)-2*MaxText:]
	}
	text = strings.TrimSpace(Printable(text))
	if len(text) <= MaxText {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return Ends(text, MaxText/4, MaxText-MaxText/4)
}

// Ends returns a text or, if it has more bytes than that, so many of its beginning and its end.
func Ends(text string, head, tail int) string {
	if len(text) <= head+tail {
		return text
	}
	return Clip(text[:head], head) + "\n…\n" + strings.ToValidUTF8(text[len(text)-tail:], "")
}

// FirstSentence returns the part of Ray's message that says what happened, in one line: without the general advice
// behind it and without frames of tracebacks.
func FirstSentence(text string) string {
	text = WithoutFrames(human.WithoutColours(Clip(text, 4*MaxText)))
	text = strings.Join(strings.Fields(human.WithoutColours(Clip(text, MaxText))), " ")
	return Clip(withoutHints(text), MaxTitle)
}

// varying matches what differs between occurrences of one failure: addresses in memory, IDs of at least 16 hexadecimal
// digits, UUIDs, and numbers with their sign and their dots, as those of versions and hosts.
var varying = lazyregexp.New(`0x[0-9a-fA-F]+|\b[0-9a-fA-F]{16,}\b|\b[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}\b|` +
	`(?:\B-)?\d+(?:\.\d+)*`)

// Normalised returns a message with "#" for all that differs between occurrences of one failure: numbers, addresses and
// IDs. Of a long message only the first MaxTitle bytes are used.
func Normalised(message string) string {
	return varying().ReplaceAllString(Clip(message, MaxTitle), "#")
}
