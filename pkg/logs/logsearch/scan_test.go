package logsearch

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
)

const (
	smallBlock = 1600 // of the tests' scanners, in bytes
	smallReach = 300
)

func prepared(t testing.TB, q Query) *Query {
	t.Helper()
	must.OK(t, q.Prepare())
	return &q
}

// scanned searches a text in small blocks, as it comes by reads of few bytes.
func scanned(t testing.TB, q *Query, text string) (matches []*Match, undated int64) {
	t.Helper()
	s := newScanner(q, smallBlock, smallReach)
	s.read = func(int) error { return nil }
	s.report = func(f found) { matches = append(matches, newMatch(&f)) }
	must.OK(t, s.scan(t.Context(), iotest.HalfReader(strings.NewReader(text))))
	return matches, s.undated
}

// naive is the same, with the whole text in memory and line by line.
func naive(q *Query, text string, matches func(line string) []int) (all []*Match) {
	type numbered struct {
		start int
		text  string
	}
	var lines []numbered
	for start := 0; start < len(text); {
		line, _, _ := strings.Cut(text[start:], "\n")
		lines = append(lines, numbered{start, line})
		start += len(line) + 1
	}
	for i, line := range lines {
		at := matches(line.text)
		if at == nil {
			continue
		}
		f := found{line: int64(i + 1), length: int64(len(line.text)), before: []string{}, after: []string{}}
		known := newDating(0)
		if state, _ := logline.State([]byte(line.text), at[0]); len(state)+1 < len(line.text) {
			known.addLine(int64(line.start), logline.Parse(state, &logline.Clock{}))
		}
		for j := i; j >= 0 && lines[j].start >= line.start-smallReach; j-- {
			known.addLine(int64(lines[j].start), logline.Parse([]byte(text[lines[j].start:]), &logline.Clock{}))
		}
		f.header = known.headerOfAll()
		for j := max(0, i-q.Before); j < i; j++ {
			if lines[j].start >= line.start-smallReach {
				f.before = append(f.before, contextLine([]byte(lines[j].text)))
			}
		}
		end := line.start + len(line.text) + 1
		for j := i + 1; j < len(lines) && len(f.after) < q.After && lines[j].start < end+smallReach; j++ {
			f.after = append(f.after, contextLine([]byte(text[lines[j].start:min(len(text), end+smallReach)])))
		}
		if (f.header.Dated || !q.hasTimeRange()) && q.inTimeRange(f.header.Time) && f.header.Level >= q.Level {
			f.setText([]byte(line.text), at[0], at[1])
			all = append(all, newMatch(&f))
		}
	}
	return all
}

// randomLog is lines of words, with times in some of them; some are longer than a scanner's block.
func randomLog(r *rand.Rand) string {
	words := []string{"error", "Error", "ERROR", "needle", "NEEDLE", "timeout", "ök", "\u212Aelvin", "\xff", "", "x=12",
		"  at file.py:7", "needneedle"}
	var b strings.Builder
	for range r.IntN(120) {
		if r.IntN(3) == 0 {
			at := time.Date(2026, 11, 20, 23, r.IntN(60), r.IntN(60), 0, time.UTC)
			fmt.Fprintf(&b, "[%s,000 %c 1 1] ", at.Format("2006-01-02 15:04:05"), "IWE"[r.IntN(3)])
		}
		n := r.IntN(6)
		if r.IntN(30) == 0 {
			n = 1000
		}
		if r.IntN(10) == 0 {
			b.WriteString("Traceback (most recent call last):\n")
		}
		for range n {
			b.WriteString(words[r.IntN(len(words))])
			b.WriteString([]string{" ", "", "\t"}[r.IntN(3)])
		}
		b.WriteString([]string{"\n", "\n", "\n", "\r\n", "\n\n"}[r.IntN(5)])
	}
	text := b.String()
	return text[:len(text)-min(len(text), r.IntN(3))] // the last line may have no end
}

// TestEqualsNaive: what is found in blocks is what is found line by line, wherever blocks begin and end.
func TestEqualsNaive(t *testing.T) {
	mid := time.Date(2026, 11, 20, 23, 30, 0, 0, time.UTC).UnixNano()
	for name, q := range map[string]Query{
		"text":            {Pattern: "needle"},
		"text, any case":  {Pattern: "nEEdle", IgnoreCase: true},
		"letters":         {Pattern: "ÖK", IgnoreCase: true},
		"one byte":        {Pattern: "x", Before: 1},
		"context":         {Pattern: "timeout", Before: 3, After: 4},
		"all":             {Before: 1, After: 1},
		"level":           {Pattern: "e", Selection: Selection{}, Level: logline.Warning},
		"time":            {Pattern: "e", From: mid, After: 2},
		"time and level":  {From: mid - 1, To: mid + int64(10*time.Minute), Level: logline.Error},
		"carriage return": {Pattern: "\r"},
	} {
		t.Run(name, func(t *testing.T) {
			q := prepared(t, q)
			folded := regexp.MustCompile(regexp.QuoteMeta(q.Pattern))
			if q.IgnoreCase && isASCII(q.Pattern) {
				folded = regexp.MustCompile("[nN][eE][eE][dD][lL][eE]")
			} else if q.IgnoreCase {
				folded = regexp.MustCompile("(?i)" + q.Pattern)
			}
			compareWithNaive(t, q, func(line string) []int { return folded.FindStringIndex(line) },
				func(r *rand.Rand) string { return randomLog(r) })
		})
	}
}

// TestRegexpEqualsNaive is the same for expressions, on lines that are searched in one part.
func TestRegexpEqualsNaive(t *testing.T) {
	short := func(r *rand.Rand) string {
		lines := strings.SplitAfter(randomLog(r), "\n")
		for i, line := range lines {
			if len(line) > smallBlock/2 {
				lines[i] = line[:smallBlock/2] + "\n"
			}
		}
		return strings.Join(lines, "")
	}
	for _, expression := range []string{
		`needle.*error`, `error|timeout`, `(error|needle) +timeout`, `^\s*at `, `\d+$`, `^$`, `x=\d`, `(?i)needle`,
		`(?i)kelvin`, `[^e]error`, `\bneedle\b`, `.`, `(?s:e.*n)`,
		`\Aerror`, `\s+needle`, `(?:need){2}le`, `n(eedle)?error`, `t\W`, `e\z`, `[[:upper:]]{5}`,
	} {
		t.Run(expression, func(t *testing.T) {
			q := prepared(t, Query{Pattern: expression, Regexp: true, Before: 1, After: 1})
			re := regexp.MustCompile("(?m)" + strings.ReplaceAll(expression, "$", "\r?$"))
			compareWithNaive(t, q, func(line string) []int { return re.FindStringIndex(line) }, short)
		})
	}
}

func compareWithNaive(t *testing.T, q *Query, matches func(string) []int, log func(*rand.Rand) string) {
	t.Helper()
	lines := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := log(r)
		got, _ := scanned(t, q, coloured(r, text))
		want := naive(q, text, matches)
		lines += len(want)
		for i := range max(len(got), len(want)) {
			if i < min(len(got), len(want)) {
				comparable(got[i], text)
				comparable(want[i], text)
			}
			if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("seed %d: match %d of %d and %d differs:\n%+v\n%+v", seed, i, len(got), len(want), at(got, i),
					at(want, i))
			}
		}
	}
	says.True(t, lines != 0, "nothing matches")
}

// coloured puts a terminal's colours into some texts.
func coloured(r *rand.Rand, text string) string {
	if r.IntN(2) == 0 {
		return text
	}
	var b strings.Builder
	for _, c := range []byte(text) {
		if r.IntN(5) == 0 {
			b.WriteString([]string{"\x1b[0m", "\x1b[1;36m", "\x1b[K"}[r.IntN(3)])
		}
		b.WriteByte(c)
	}
	return b.String()
}

// comparable leaves of a line that is not in a scanner's buffer as a whole only the match: how much is shown around it
// depends on the buffer.
func comparable(m *Match, log string) {
	// Not the length of what is shown: what is no UTF-8 is shown as one character, however long.
	lines := strings.Split(log, "\n")
	if m.Line <= int64(len(lines)) && len(lines[m.Line-1]) > smallBlock-3*smallReach {
		m.Text, m.Match, m.Length, m.Skipped = m.Text[m.Match[0]:m.Match[1]], [2]int{}, 0, 0
	}
}

func at(matches []*Match, i int) any {
	if i < len(matches) {
		return *matches[i]
	}
	return nil
}

// TestLongLine: a line of many blocks is one match, cut, with its length; what spans two blocks is found, and ends of
// blocks are none of lines.
func TestLongLine(t *testing.T) {
	for length := 3 * smallBlock; length < 3*smallBlock+50; length++ {
		text := "first\n" + strings.Repeat("x", length) + "needle" + strings.Repeat("y", 5000) + "\nlast\n"
		for _, q := range []Query{{Pattern: "needle", Before: 1, After: 1},
			{Pattern: "xneedl[e]y", Regexp: true, Before: 1, After: 1}} {
			matches, _ := scanned(t, prepared(t, q), text)
			must.True(t, len(matches) == 1, "length %d: %d matches", length, len(matches))
			m := matches[0]
			if m.Line != 2 || m.Length != int64(length+5006) ||
				!strings.Contains(m.Text[m.Match[0]:m.Match[1]], "needle") ||
				!reflect.DeepEqual(m.Before, []string{"first"}) ||
				!reflect.DeepEqual(m.After, []string{"last"}) || len(m.Text) > maxText {
				t.Errorf("length %d: %+v", length, m)
			}
		}
		for _, expression := range []string{"^x+y", "^x$", "x+$", "^y"} {
			if matches, _ := scanned(t, prepared(t, Query{Pattern: expression, Regexp: true}),
				text); len(matches) != 0 {
				t.Errorf("length %d: %s matches %+v", length, expression, matches[0])
			}
		}
	}
}

// TestExpressionsOfLongLines: a line that fits into the buffer is matched as a whole, and of one that does not, what
// matches within its parts.
func TestExpressionsOfLongLines(t *testing.T) {
	for _, c := range []struct {
		expression   string
		whole, parts bool
	}{
		{`^ERROR.*`, true, true}, {`\bneedle\b.*`, true, true}, {`^x|last`, true, true}, {`last$`, true, true},
		{`\Bx last\b`, true, true}, {`needle\b x`, true, true},
		{`^ERROR.*$`, true, false}, {`needle.*$`, true, false}, {`ERROR.*last`, true, false},
		{`^x`, false, false}, {`^needle`, false, false}, {`needle$`, false, false}, {`x$`, false, false},
		{`^xx*`, false, false}, {`\bxx+\b`, true, false},
		{`\Qneedle`, true, true}, {`(?i)\Qx LAST`, true, true}, {`\Qneedle)`, false, false},
	} {
		q := prepared(t, Query{Pattern: c.expression, Regexp: true})
		for length := 3 * smallBlock; length < 3*smallBlock+40; length++ {
			text := "first\nERROR " + strings.Repeat("x", length) + " needle x" + strings.Repeat("y", length) +
				"x last\n"
			for block, want := range map[int]bool{blockBytes: c.whole, smallBlock: c.parts} {
				lines := 0
				s := newScanner(q, block, smallReach)
				s.read, s.report = func(int) error { return nil }, func(found) { lines++ }
				must.OK(t, s.scan(t.Context(), strings.NewReader(text)))
				says.Equal(t, lines == 1, want,
					"%s in blocks of %d bytes, %d bytes twice: %d lines match", c.expression, block, length, lines)
			}
		}
	}
}

// What is wrong with an expression is said of what the user wrote, not of what the search puts around it.
func TestWrongExpression(t *testing.T) {
	for _, ignoreCase := range []bool{false, true} {
		_, err := compile("(", true, ignoreCase)
		want := "the pattern is not an RE2 regular expression: missing closing ): `(`"
		says.True(t, err != nil && err.Error() == want, "%v, want %s", err, want)
	}
}

// TestExpressionsInParts: every expression that is taken finds in a part of a line what it finds between two characters
// when they are written around it. Only one that leaves a \Q open cannot be written so.
func TestExpressionsInParts(t *testing.T) {
	pieces := []string{`\Q`, `\E`, `(`, `(?:`, `(?i`, `(?i)`, `(?s-m:`, `(?U)`, `)`, `)`, `|`, `*`, `+?`, `{2}`, `?`,
		`[`, `^`, `]`, `\`, `\b`, `\B`, `\pL`, `[^a]`, `[[:alpha:]]`, `.`, `$`, `\z`, `\A`, `a`, `B`, `-`, `é`, `K`,
		`\x{212A}`}
	random, compared, open := rand.New(rand.NewPCG(5, 6)), 0, 0
	for range 20000 {
		expression := ""
		for range 1 + random.IntN(7) {
			expression += pieces[random.IntN(len(pieces))]
		}
		p, err := compile(expression, true, false)
		if err != nil {
			continue
		}
		between, err := regexp.Compile("(?s:.)((?m)" + expression + ")(?s:.)")
		if err != nil {
			open++
		}
		for _, line := range []string{"", "a", "aab-B", "éK a", "-(a)\\Q*"} {
			from, to, ok := p.find(t.Context(), []byte(line), false, false)
			if err != nil {
				continue
			}
			compared++
			at := between.FindStringSubmatchIndex(line)
			says.True(t, ok == (at != nil) && (!ok || from == at[2] && to == at[3]), "%s in %q: %d to %d, %t; want %v",
				expression, line, from, to, ok, at)
		}
	}
	says.True(t, compared >= 10000 && open >= 100, "only %d finds are compared, and %d expressions are open", compared,
		open)
}

// TestColours: what is found in a log with a terminal's colours is what people see of it, also where reads cut it.
func TestColours(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mERROR\x1b[0m: needle":               "ERROR: needle",
		"\x1b[36m(f pid=1)\x1b[0m nee\x1b[1mdle":     "(f pid=1) needle",
		"needle\x1b[":                                "needle", // the end of the line ends the sequence
		"needle\x1b[1;3":                             "needle",
		"\x1b\x1b[2Kneedle\x1bx":                     "needlex", // of another escape only the character is left out
		"\x1b[38;5;31\u00e9needle":                   "\u00e9needle",
		"\x1b]0;title\x07needle":                     "needle",
		"\x1b]8;;http://x\x1b\\needle\x1b]8;;\x1b\\": "needle", // a link
		"needle\x1b]0;title":                         "needle",
	} {
		found, _ := scanned(t, prepared(t, Query{Pattern: "needle", After: 1}), text+"\nnext\x1b[0m\n")
		says.True(t, len(found) == 1 && found[0].Text == want && found[0].After[0] == "next", "%q: %+v", text, found)
	}
}

// TestStates: of a line that overwrites itself the state that matches is shown, and beside it what stays in the end.
func TestStates(t *testing.T) {
	bar := strings.Repeat("10%\r", 40) + "20% needle\r30%\r  \r"
	found, _ := scanned(t, prepared(t, Query{Pattern: "needle", Before: 1, After: 1}), bar+"\nneedle two\r\n"+bar+"\n")
	says.True(t, len(found) == 3, "%+v", found)
	for i, want := range []Match{
		{Text: "20% needle", Match: [2]int{4, 10}, Length: int64(len(bar)), Skipped: 160, After: []string{"needle two"}},
		{Text: "needle two", Match: [2]int{0, 6}, Before: []string{"30%"}, After: []string{"30%"}},
		{Text: "20% needle", Match: [2]int{4, 10}, Length: int64(len(bar)), Skipped: 160, Before: []string{"needle two"}},
	} {
		m := found[i]
		got := Match{Text: m.Text, Match: m.Match, Length: m.Length, Skipped: m.Skipped, Before: m.Before, After: m.After}
		says.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
	spanning, _ := scanned(t, prepared(t, Query{Pattern: "a.*b", Regexp: true}), "x\r1 a\r2\r3 b\rx\n")
	says.True(t, len(spanning) == 1 && spanning[0].Text == "1 a\r2\r3 b", "%+v", spanning)
}

// TestHeaderBehindTitle: a title or a link before a line's header does not hide its level.
func TestHeaderBehindTitle(t *testing.T) {
	text := "\x1b]0;title\x07ERROR: needle\n\x1b]8;;http://x\x1b\\ERROR\x1b]8;;\x1b\\: needle\n"
	found, _ := scanned(t, prepared(t, Query{Pattern: "needle", Level: logline.Error}), text)
	says.True(t, len(found) == 2, "%+v", found)
}

// TestColoursAreRead: they count as read, so that a log of nothing else ends a search as any other does.
func TestColoursAreRead(t *testing.T) {
	text, read := strings.Repeat("\x1b[0m", 1000)+"needle\n", 0
	s := newScanner(prepared(t, Query{Pattern: "needle"}), blockBytes, reach)
	s.report = func(found) {}
	s.read = func(n int) error {
		read += n
		return nil
	}
	must.OK(t, s.scan(t.Context(), strings.NewReader(text)))
	says.Equal(t, read, len(text), "bytes read")
}

// TestUndated: where a time is asked for, matches without one are counted.
func TestUndated(t *testing.T) {
	q := prepared(t, Query{Pattern: "x", From: 1})
	matches, undated := scanned(t, q, "x\nx\n2026-11-20 23:00:00 x\nx\n")
	says.True(t, len(matches) == 2 && undated == 2, "%d matches, %d undated", len(matches), undated)
}

func TestPatternsAreBounded(t *testing.T) {
	for _, q := range []Query{
		{Pattern: strings.Repeat("a", maxPattern+1)}, {Pattern: "a\nb"}, {Pattern: "(", Regexp: true},
		{Pattern: strings.Repeat(`(?:\pL{30}){30}`, 3), Regexp: true}, {Pattern: `a**`, Regexp: true},
		{Pattern: "a", Before: maxContext + 1}, {Pattern: "a", Lines: maxLines + 1}, {Pattern: "a", From: 2, To: 1},
		{Pattern: "a", Selection: Selection{Files: "../x"}},
		{Pattern: `\C`, Regexp: true}, {Pattern: `(a)\1`, Regexp: true}, {Timeout: MaxTimeout + 1},
	} {
		says.True(t, q.Prepare() != nil, "%.40q is taken", q.Pattern)
	}
}

func TestLiterals(t *testing.T) {
	for expression, want := range map[string]string{
		`needle`: "needle", `a.*needle`: "needle", `(error|timeout)+ x`: "error timeout", `(?i)Timeout`: "timeout",
		`(?i)task`: "task tas\u212a ta\u017fk ta\u017f\u212a", `a|b*`: "", `x*`: "", `(?:ab){3}`: "ababab",
		`\d+ms`: "ms", `error (?i)x|b`: "B b error X error x",
		`abc\x{fffd}de`: "abc", // which matches "abc\xffde"
	} {
		p := must.Get(compile(expression, true, false))(t)
		says.Equal(t, string(bytes.Join(p.literals, []byte(" "))), want, expression)
	}
}

// TestCancelled: a search whose request is gone ends, also within a line that an expression takes long for.
func TestCancelled(t *testing.T) {
	q := prepared(t, Query{Pattern: `(?:x+x+)+y`, Regexp: true})
	s := newScanner(q, blockBytes, reach)
	s.report = func(found) {}
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	s.read = func(int) error {
		if reads++; reads == 3 {
			cancel()
		}
		return nil
	}
	err := s.scan(ctx, readerFunc(func(p []byte) (int, error) {
		for i := range p {
			p[i] = 'x'
		}
		return len(p), nil
	}))
	says.Equal(t, err, context.Canceled, "it ends")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// FuzzScan: any text is searched as line by line.
func FuzzScan(f *testing.F) {
	f.Add("needle", "a needle\n\nb", 3)
	f.Add("e", "2026-11-20 23:00:00 E\r\ne", 1)
	f.Fuzz(func(t *testing.T, pattern, text string, repeat int) {
		if pattern == "" || len(pattern) > 100 || len(text) > 1000 || repeat < 0 || repeat > 20 {
			return
		}
		text = strings.Repeat(text, repeat)
		if logline.EncodingOf([]byte(text)) != logline.Bytes {
			return // the scanner decodes it, the model does not
		}
		q := Query{Pattern: pattern, Before: 2, After: 2}
		if q.Prepare() != nil {
			return
		}
		got, _ := scanned(t, &q, text)
		want := naive(&q, text, func(line string) []int {
			if at := strings.Index(line, pattern); at >= 0 {
				return []int{at, at + len(pattern)}
			}
			return nil
		})
		for _, m := range slices.Concat(got, want) {
			comparable(m, text)
		}
		says.True(t, len(got) == len(want) && (len(got) == 0 || reflect.DeepEqual(got, want)), "%d matches, want %d",
			len(got), len(want))
	})
}

// TestOwnLevel: a line that says a level or a time begins a record, in whatever form: it takes the level of no other.
// Lines that say neither have that of their record. Where a level is asked for, matches whose level nothing says are
// counted.
func TestOwnLevel(t *testing.T) {
	bars := strings.Repeat("\repoch:  10%|█         | 1/10 [00:01<00:09,  1.00it/s]", 50000)
	for name, c := range map[string]struct {
		text, level, time string
		unlevelled        int64
	}{
		"JSON after another form": {"2026-11-20 10:00:00,000\tINFO a.py:1 -- ok\n" +
			`{"event": "needle", "level": "error", "timestamp": "2026-11-20T10:00:05Z"}`, "error", "10:00:05", 0},
		"level alone after a time": {"2026-11-20 10:00:00,000\tINFO a.py:1 -- ok\nERROR:root:needle", "error",
			"10:00:00", 0},
		"time alone after a level": {"2026-11-20 10:00:00,000\tERROR a.py:1 -- bad\n2026/11/20 10:00:05 needle", "",
			"10:00:05", 1},
		"traceback": {
			"2026-11-20 10:00:00 ERROR x\nTraceback (most recent call last):\n  File \"a.py\", line 1\nValueError: needle", "error", "10:00:00", 0},
		"traceback below a record of another program": {
			"2026-11-20 10:00:00 INFO x\nTraceback (most recent call last):\n  File \"a.py\", line 1\nValueError: needle", "error", "10:00:00", 0},
		"traceback of a print": {"loading\nTraceback (most recent call last):\nValueError: needle", "error", "", 0},
		"traceback of a warning": {"2026-11-20 10:00:00 WARNING x\nTraceback (most recent call last):\nValueError: needle",
			"warning", "10:00:00", 0},
		"before a traceback": {"2026-11-20 10:00:00 INFO x\nneedle\nTraceback (most recent call last):", "info",
			"10:00:00", 0},
		"a record behind a traceback": {
			"Traceback (most recent call last):\nValueError: x\n2026-11-20 10:00:00 INFO needle", "info", "10:00:00", 0},
		"indented JSON": {"2026-11-20 10:00:00 ERROR x {\n  \"level\": \"info\",\n  \"a\": \"needle\"\n}",
			"error", "10:00:00", 0},
		"an object of several lines": {
			"2026-11-20 10:00:00 INFO x\n{\n  \"body\": \"needle\",\n  \"severity_text\": \"ERROR\",\n  \"timestamp\": \"2026-11-20T10:00:05Z\"\n}", "error", "10:00:05", 0},
		"a print": {"needle", "", "", 1},
		"long JSON": {`{"message": "needle` + strings.Repeat(`x\"`, 40000) +
			`", "asctime": "2026-11-20 10:00:05", "levelname": "ERROR"}`, "error", "10:00:05", 0},
		"between bars": {"2026-11-20 10:00:00 INFO x\n" + bars + "\r2026-11-20 10:00:05 ERROR needle" +
			bars, "error", "10:00:05", 0},
		"behind a bar":         {"2026-11-20 10:00:00 INFO x\n" + bars + "ERROR:root:needle\n", "error", "10:00:00", 0},
		"line ends of Windows": {"2026-11-20 10:00:05 ERROR x\r\nneedle\r\n", "error", "10:00:05", 0},
		"UTF-16": {"\xff\xfe" +
			strings.Join(strings.Split("2026-11-20 10:00:05 ERROR needle\r\n", ""), "\x00") + "\x00", "error",
			"10:00:05", 0},
		"Latin-1": {"2026-11-20 10:00:05 ERROR caf\xe9 needle\n", "error", "10:00:05", 0},
	} {
		s := newScanner(prepared(t, Query{Pattern: "needle"}), blockBytes, reach)
		s.read = func(int) error { return nil }
		var all []*Match
		s.report = func(f found) { all = append(all, newMatch(&f)) }
		err := s.scan(t.Context(), strings.NewReader(c.text))
		must.True(t, err == nil && len(all) == 1, "%s: %d matches, %v", name, len(all), err)
		if m := all[0]; m.Level != c.level || !strings.Contains(m.Time, c.time) || c.time == "" && m.Time != "" ||
			!strings.Contains(m.Text, "needle") {
			t.Errorf("%s: level %q at %q, want %q at %s", name, m.Level, m.Time, c.level, c.time)
		}
		s = newScanner(prepared(t, Query{Pattern: "needle", Level: logline.Warning}), blockBytes, reach)
		s.read, s.report = func(int) error { return nil }, func(found) {}
		if err := s.scan(t.Context(), strings.NewReader(c.text)); err != nil || s.unlevelled != c.unlevelled {
			t.Errorf("%s: %d lines of unknown level, want %d (%v)", name, s.unlevelled, c.unlevelled, err)
		}
	}
}
