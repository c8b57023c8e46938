// Package human writes sizes, counts, times and durations for people, and what others wrote. The pages of the history
// server and its commands use the same forms.
package human

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// Bytes writes a size in units of 1024 with about three digits: 17 B, 4.25 KiB, 1.21 GiB. What would be rounded up to
// 1024, 100 or 10 counts as that, so that there are no "1024 KiB" and no "10.00 KiB".
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), -1
	for v >= 1023.5 && unit < 4 {
		v /= 1024
		unit++
	}
	digits := 2
	if v >= 99.5 {
		digits = 0
	} else if v >= 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + [...]string{"KiB", "MiB", "GiB", "TiB", "PiB"}[unit]
}

// Duration writes a duration in its two largest units, as the Ray Dashboard does: 45s, 3m 12s, 5h 2m, 3d 4h.
func Duration(d time.Duration) string {
	seconds := int64(d.Round(time.Second) / time.Second)
	switch {
	case seconds < 60:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%dm %ds", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%dh %dm", seconds/3600, seconds%3600/60)
	}
	return fmt.Sprintf("%dd %dh", seconds/86400, seconds%86400/3600)
}

// Seconds writes a duration in seconds with about three digits, such as 12 ms, 1.25 s or 34.5 s. From a minute on it
// writes it as Duration does: 3m 12s. What would be rounded up to a second or a minute counts as that.
func Seconds(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0 s"
	case a < 0.9995:
		return strconv.FormatFloat(1000*s, 'g', 3, 64) + " ms"
	case a < 59.5:
		return strconv.FormatFloat(s, 'g', 3, 64) + " s"
	case s < 0:
		return "-" + Seconds(-s)
	}
	return Duration(time.Duration(s * float64(time.Second)))
}

// Time writes a time in UTC, to the second; "-" for none.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

// Ago writes how long before now a time was, in the largest unit: 3m ago, 2h ago, 5d ago. Of times more than 30 days
// ago it writes the date. Pages write the same in a browser.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	case d < 30*24*time.Hour:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
	return t.UTC().Format(time.DateOnly)
}

// Cut writes a text in at most so many characters, with … at the end of one that is longer.
func Cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(0, most-1)]) + "…"
	}
	return text
}

// FirstBytes returns at most so many bytes from the beginning of a text, without what is no UTF-8, such as a part of a
// character at the cut.
func FirstBytes(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// Count writes a number of things whose plural ends in s: "1 object", "2 objects".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Or joins values to choose from for an error's text: "a", "a or b", "a, b or c"; "" for none.
func Or[S ~string](values []S) string {
	var text strings.Builder
	for i, value := range values {
		switch {
		case i == 0:
		case i == len(values)-1:
			text.WriteString(" or ")
		default:
			text.WriteString(", ")
		}
		text.WriteString(string(value))
	}
	return text.String()
}

// Change says how a figure differs from that of a time before: "+12 %"; "" if there was none.
func Change(now, before float64) string {
	if !(before > 0) {
		return ""
	}
	sign := "+"
	if now < before {
		sign = "−"
	}
	return fmt.Sprintf("%s%.0f %%", sign, 100*math.Abs(now-before)/before)
}

// Printable replaces control characters, also those that turn text around: what others wrote must not act on a
// terminal.
func Printable(line string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' || leftByJSON(c) {
			return '\uFFFD'
		}
		return c
	}, line)
}

// PrintableJSON escapes the control characters in a JSON text that encoding/json leaves as they are. A terminal would
// obey them.
func PrintableJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, leftByJSON) {
		return text
	}
	var out []byte
	for _, c := range string(text) {
		if leftByJSON(c) {
			out = fmt.Appendf(out, `\u%04x`, c)
		} else {
			out = utf8.AppendRune(out, c)
		}
	}
	return out
}

func leftByJSON(c rune) bool {
	return c >= 0x7f && c < 0xa0 || unicode.Is(unicode.Bidi_Control, c)
}

var colour = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")

// WithoutColours removes the sequences by which terminals choose colours and move their cursor.
func WithoutColours(text string) string { return colour().ReplaceAllString(text, "") }

// PrintableLines is Printable for a text of several lines.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

// maxSuggested is how long a name is at most, in bytes, that is compared with others.
const maxSuggested = 100

// Suggest is DidYouMean of the nearest of some names.
func Suggest(typed string, names []string) string { return DidYouMean(Nearest(typed, names)) }

// DidYouMean returns " (did you mean NAME?)"; "" for no name.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return " (did you mean " + name + "?)"
}

// Nearest returns the name that is most like a mistyped one, whatever the case; "" if none is like it. A name counts as
// like it if at most a quarter of the letters are wrong, or one.
func Nearest(typed string, names []string) string {
	best, like := max(1, len(typed)/4)+1, ""
	for _, name := range names {
		if name == "" || max(len(name), len(typed)) > maxSuggested {
			continue
		}
		if d := typoDistance(strings.ToLower(typed), strings.ToLower(name)); d < best {
			best, like = d, name
		}
	}
	return like
}

// typoDistance counts the letters that are wrong, missing, too many or swapped with the next between two texts (optimal
// string alignment distance).
func typoDistance(a, b string) int {
	// row[j] is the distance of the first letters of a, one more in each round, from the first j letters of b; above is
	// the row of one letter less of a, twoAbove of two less.
	twoAbove, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		twoAbove, above, row = above, row, twoAbove
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(above[j]+wrong, above[j+1]+1, row[j]+1) // wrong or equal, too many, missing
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], twoAbove[j-1]+1) // swapped
			}
		}
	}
	return row[len(b)]
}
