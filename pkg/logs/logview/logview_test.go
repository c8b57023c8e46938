package logview

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/logline"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// stored is a log in two chunks, and the bytes that were read of it.
func stored(t *testing.T, text []byte) (*sessionlogs.File, *storetest.Store) {
	t.Helper()
	return inChunks(t, map[int64][]byte{0: text[:len(text)/3], int64(len(text) / 3): text[len(text)/3:]})
}

// inChunks is a log in plain chunks, by their offsets.
func inChunks(t *testing.T, chunks map[int64][]byte) (*sessionlogs.File, *storetest.Store) {
	t.Helper()
	return packed(t, layout.Plain, chunks)
}

// packed is a log in chunks of a compression, by their offsets.
func packed(t *testing.T, compression layout.Compression, chunks map[int64][]byte) (*sessionlogs.File,
	*storetest.Store) {
	t.Helper()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	store := storetest.New()
	set := sessionlogs.New(store)
	for offset, text := range chunks {
		key := layout.LogChunkKey(layout.LogKey("log", ref, rayid.Node{1}, "a.log"), offset, compression)
		store.Objects[key] = layouttest.Pack(t, string(text), compression)
		o := must.Get(layout.ParseObject("log", ref, key))(t)
		set.Add(o, blob.Object{Key: key, Size: int64(len(store.Objects[key]))})
	}
	f := must.Get(set.Open(t.Context(), rayid.Node{1}, "a.log"))(t)
	return f, store
}

// TestPagesWithGaps: where a chunk is lost, pages forwards and backwards hold every stored byte once, and lines have
// the places and numbers that they have among the stored ones.
func TestPagesWithGaps(t *testing.T) {
	const chunkLines, lineBytes = 3000, 100
	for name, gap := range map[string]int64{"within a page": 1000, "of pages": 4*pageBytes + 7,
		"of a step": 2*indexStep + 7, "huge": 1 << 40} {
		for _, compression := range []layout.Compression{layout.Plain, layout.Zstd} {
			t.Run(fmt.Sprintf("%s, compression %d", name, compression), func(t *testing.T) {
				chunks := map[int64][]byte{}
				var places []int64 // of lines
				var at int64
				for range 4 {
					var b bytes.Buffer
					for range chunkLines {
						places = append(places, at+int64(b.Len()))
						fmt.Fprintf(&b, "line %*d\n", lineBytes-6, len(places))
					}
					chunks[at] = b.Bytes()
					at += int64(b.Len()) + gap
				}
				f, _ := packed(t, compression, chunks)
				x := NewIndex()
				check := func(p Page, first int64) {
					t.Helper()
					if n, err := x.Number(t.Context(), f, p.Start); n != first || err != nil {
						t.Fatalf("the page at %d begins with line %d, %v, want %d", p.Start, n, err, first)
					}
					for i, line := range p.Lines {
						want := fmt.Sprintf("line %*d", lineBytes-6, first+int64(i))
						must.True(t, len(line.Spans) == 1 && line.Spans[0].Text == want,
							"line %d of the page at %d is %.200v, want line %d", i, p.Start, line.Spans, first+int64(i))
					}
				}
				next := int64(1)
				for at := int64(0); at < f.Size(); {
					p, err := NewIndex().Read(t.Context(), f, at, f.Size(), PageLines)
					must.True(t, err == nil && p.End > at && len(p.Lines) != 0,
						"the page at %d ends at %d and has %d lines, %v", at, p.End, len(p.Lines), err)
					check(p, next)
					next, at = next+int64(len(p.Lines)), p.End
				}
				says.Equal(t, next, int64(len(places))+1, "the pages have %d lines of %d", next-1, len(places))
				for end := f.Size(); end > 0; {
					start, err := NewIndex().Before(t.Context(), f, end, PageLines)
					must.True(t, err == nil && start < end, "the page before %d begins at %d, %v", end, start, err)
					p, err := NewIndex().Read(t.Context(), f, start, end, PageLines)
					must.True(t, err == nil && p.End == end && len(p.Lines) != 0,
						"the page from %d to %d ends at %d and has %d lines, %v", start, end, p.End, len(p.Lines), err)
					next -= int64(len(p.Lines))
					check(p, next)
					end = start
				}
				says.Equal(t, next, 1, "pages from the end begin with line")
				for _, line := range []int64{2, chunkLines - 1, chunkLines + 2, 3*chunkLines + 5, 4 * chunkLines} {
					says.Equal(t, must.Get(x.Offset(t.Context(), f, line))(t), places[line-1],
						"line %d begins at", line)
				}
			})
		}
	}
}

// TestShortChunk: a compressed chunk before a gap, whose length its name does not tell, is looked at a few times,
// however long it might have been.
func TestShortChunk(t *testing.T) {
	noise := make([]byte, 4<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	line := hex.EncodeToString(noise) + "\n"
	for name, text := range map[string][]byte{"bytes": []byte(line), "UTF-16": utf16Of(line, false)} {
		f, store := packed(t, layout.Zstd, map[int64][]byte{0: text, 1 << 40: nil})
		start, err := NewIndex().Before(t.Context(), f, f.Size(), PageLines)
		if read, size := store.Read.Load(), int64(len(text)); err != nil || start != 0 || read > 10*size {
			t.Errorf("%s: the page begins at %d, %v, and %d bytes were read of %d", name, start, err, read, size)
		}
	}
}

// TestLineWithGap: a line of which a part is not stored is one line for pages and for the index.
func TestLineWithGap(t *testing.T) {
	f, _ := inChunks(t, map[int64][]byte{0: []byte("one\ntw"), 100: []byte("o\nthree\n")})
	p, err := NewIndex().Read(t.Context(), f, 0, f.Size(), PageLines)
	says.True(t, err == nil && len(p.Lines) == 3 && p.Lines[1].Spans[0].Text == "two" && p.End == f.Size(),
		"page %+v, %v", p, err)
	x := NewIndex()
	says.Equal(t, must.Get(x.Number(t.Context(), f, 102))(t), 3, "the line at 102")
	says.Equal(t, must.Get(x.Offset(t.Context(), f, 3))(t), 102, "line 3 begins at")
}

// numbered is a log of 24 MiB whose lines say their numbers, and some lines that are longer than a page.
func numbered() []byte {
	var b bytes.Buffer
	for n := 1; b.Len() < 3*indexStep; n++ {
		fmt.Fprintf(&b, "line %d%s\n", n, strings.Repeat(".", n%100))
		if n%50_000 == 0 {
			b.Truncate(b.Len() - 1)
			b.WriteString(strings.Repeat("x", 2*pageBytes) + "\n")
		}
	}
	return b.Bytes()
}

// TestShortLogGrows: of a log that has few bytes yet, or none, it is not settled that it is not UTF-16.
func TestShortLogGrows(t *testing.T) {
	text := []byte("b\x00e\x00g\x00i\x00n\x00s\x00 \x00s\x00h\x00o\x00r\x00t\x00\n\x00")
	x := NewIndex()
	for _, size := range []int{0, 3, 7, len(text)} {
		f, _ := inChunks(t, map[int64][]byte{0: text[:size]})
		want := logline.Bytes
		if size == len(text) {
			want = logline.UTF16LE
		}
		says.Equal(t, must.Get(x.Encoding(t.Context(), f))(t), want, "%d bytes: encoding", size)
	}
}

func TestIndex(t *testing.T) {
	text := numbered()
	f, store := stored(t, text)
	x := NewIndex()
	for _, line := range []int64{1, 2, 999, 150_000, 60_000, 300_000, 50_001} {
		offset, err := x.Offset(t.Context(), f, line)
		must.True(t, err == nil && bytes.HasPrefix(text[offset:], fmt.Appendf(nil, "line %d", line)),
			"line %d begins at %d with %.20q, %v", line, offset, text[offset:], err)
		says.Equal(t, must.Get(x.Number(t.Context(), f, offset))(t), line, "the line at %d", offset)
	}
	says.Equal(t, must.Get(x.Offset(t.Context(), f, 1<<40))(t), f.Size(), "a line that is not there is at")
	store.Read.Store(0)
	if _, err := x.Number(t.Context(), f, 2*indexStep+100); err != nil || store.Read.Load() > 100 {
		t.Errorf("%d bytes were read again, %v", store.Read.Load(), err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	says.True(t, says.Err(NewIndex().Number(gone, f, f.Size())) != nil, "it counts for nobody")
	must.OK(t, x.counting.Acquire(t.Context(), 1))
	says.ErrorIs(t, says.Err(x.Number(gone, f, 0)), context.Canceled, "who has left waits for others to count")
}

// TestIndexOfHugeGap: an index is bounded even if the name of a chunk says that a log is as long as no log can be, and
// making it heeds its context.
func TestIndexOfHugeGap(t *testing.T) {
	f, _ := inChunks(t, map[int64][]byte{0: []byte("one\ntwo\n"), 1 << 60: []byte("three\nfour\n")})
	x := NewIndex()
	gone, leave := context.WithCancel(t.Context())
	leave()
	_, err := x.Number(gone, f, f.Size())
	says.True(t, err != nil && len(x.marks) == 0, "%d marks for nobody, %v", len(x.marks), err)
	says.Equal(t, must.Get(x.Number(t.Context(), f, f.Size()-1))(t), 4, "the last line")
	says.Equal(t, must.Get(x.Offset(t.Context(), f, 2))(t), 4, "the second line begins at")
	says.Equal(t, must.Get(x.Offset(t.Context(), f, 9))(t), f.Size(), "a line that is not there is at")
	says.True(t, len(x.marks) <= maxMarks, "%d marks", len(x.marks))
}

// TestPages: pages from the first to the last hold every byte once, and those back to the first begin where others do.
func TestPages(t *testing.T) {
	text := numbered()
	f, _ := stored(t, text)
	lines := 0
	for at := int64(0); at < f.Size(); {
		p, err := NewIndex().Read(t.Context(), f, at, f.Size(), PageLines)
		if err != nil || p.Start != at || p.End <= at || p.End-at > pageBytes || len(p.Lines) == 0 ||
			len(p.Lines) > PageLines {
			t.Fatalf("page at %d: to %d, %d lines, %v", at, p.End, len(p.Lines), err)
		}
		lines += bytes.Count(text[at:p.End], []byte{'\n'})
		at = p.End
	}
	says.Equal(t, lines, bytes.Count(text, []byte{'\n'}), "lines")
	pages := 0
	for at := f.Size(); at > 0; pages++ {
		start, err := NewIndex().Before(t.Context(), f, at, PageLines)
		must.True(t, err == nil && start < at && at-start <= pageBytes, "the page before %d begins at %d, %v", at,
			start, err)
		at = start
	}
	says.True(t, pages <= 10_000, "%d pages", pages)
}

// utf16Of is a text in UTF-16, in either order of bytes, with its mark.
func utf16Of(text string, big bool) []byte {
	out := []byte{}
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		if big {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

// TestPagesUTF16: a log in UTF-16 has the pages, lines and numbers of its text, also where characters have the byte of
// a line end.
func TestPagesUTF16(t *testing.T) {
	var text strings.Builder
	const lines = 5000
	for n := 1; n <= lines; n++ {
		fmt.Fprintf(&text, "ERROR line %d 上海 ਊ %s\n", n, strings.Repeat("x", n%300))
	}
	for _, big := range []bool{false, true} {
		raw := utf16Of(text.String(), big)
		cut := len(raw)/3 | 1 // within a character
		f, _ := inChunks(t, map[int64][]byte{0: raw[:cut], int64(cut): raw[cut:]})
		x := NewIndex()
		next := int64(1)
		for at := int64(0); at < f.Size(); {
			p, err := x.Read(t.Context(), f, at, f.Size(), PageLines)
			must.True(t, err == nil && len(p.Lines) != 0 && p.End > at && p.End-at <= pageBytes,
				"the page at %d: %d lines, to %d, %v", at, len(p.Lines), p.End, err)
			if n, err := x.Number(t.Context(), f, at); n != next || err != nil {
				t.Fatalf("the page at %d begins with line %d, %v, want %d", at, n, err, next)
			}
			for i, line := range p.Lines {
				want := fmt.Sprintf("ERROR line %d 上海 ਊ %s", next+int64(i), strings.Repeat("x", int(next+int64(i))%300))
				must.True(t, len(line.Spans) == 1 && line.Spans[0].Text == want && line.Level == logline.Error,
					"line %d is %+v", next+int64(i), line)
			}
			if at > 0 {
				before, err := x.Before(t.Context(), f, at, PageLines)
				if p, err2 := x.Read(t.Context(), f, before, at, PageLines); err != nil || err2 != nil ||
					before >= at ||
					p.End != at {
					t.Fatalf("the page before %d begins at %d and ends at %d, %v, %v", at, before, p.End, err, err2)
				}
			}
			next, at = next+int64(len(p.Lines)), p.End
		}
		says.Equal(t, next, lines+1, "%d lines, want %d", next-1, lines)
		for _, n := range []int64{2, 300, 4999} {
			offset, err := x.Offset(t.Context(), f, n)
			p, err2 := x.Read(t.Context(), f, offset+1, f.Size(), PageLines) // an offset within a character
			must.True(t, err == nil && err2 == nil && len(p.Lines) != 0 && offset&1 == 0, "line %d is at %d, %v, %v", n,
				offset, err, err2)
			if p, _ = x.Read(t.Context(), f, offset, f.Size(), PageLines); !strings.HasPrefix(p.Lines[0].Spans[0].Text,
				fmt.Sprintf("ERROR line %d ", n)) {
				t.Errorf("at line %d is %+v", n, p.Lines[0])
			}
		}
	}
}

// TestPageText: of a progress bar the last state is shown, and no encoding breaks a page.
func TestPageText(t *testing.T) {
	bar := strings.Repeat("\repoch:  10%|████      | 1/10 [00:01<00:09,  1.00it/s]", 60000)
	for text, want := range map[string]Line{
		"a\r 10%\r 20%\r\n":         {Spans: []Span{{"", " 20%"}}},
		"\r 10%\rERROR:x:late\n":    {Spans: []Span{{"", "ERROR:x:late"}}, Level: logline.Error},
		"plain\r\n":                 {Spans: []Span{{"", "plain"}}},
		"le train est termin\xe9\n": {Spans: []Span{{"", "le train est terminé"}}},
		"Traceback (most recent call last):\n": {Spans: []Span{{"", "Traceback (most recent call last):"}},
			Level: logline.Error},
		"ERROR:x:\xd6\xd0\xce\xc4\n": {Spans: []Span{{"", "ERROR:x:中文"}}, Level: logline.Error},
		"没有分片 7 \xff 没有\n":           {Spans: []Span{{"", "没有分片 7 \uFFFD 没有"}}},
		`{"level": "warn", "msg": "m"}` + "\n": {Spans: []Span{{"", `{"level": "warn", "msg": "m"}`}},
			Level: logline.Warning},
		strings.Repeat("中", maxLine/2) + "\n": {Spans: []Span{{"", strings.Repeat("中", maxLine/3)}}, Cut: maxLine / 2},
		"\x80 begins within a character 中\n":  {Spans: []Span{{"", " begins within a character 中"}}},
	} {
		f, _ := stored(t, []byte(text))
		p, err := NewIndex().Read(t.Context(), f, 0, f.Size(), PageLines)
		says.True(t, err == nil && len(p.Lines) == 1 && reflect.DeepEqual(p.Lines[0], want), "%.40q: %+v, %v", text,
			p.Lines, err)
	}
	f, _ := stored(t, []byte(bar+"\nend\n"))
	x, states := NewIndex(), 0
	for at := int64(0); at < f.Size(); {
		p, err := x.Read(t.Context(), f, at, f.Size(), PageLines)
		must.True(t, err == nil && p.End-at <= pageBytes && p.End > at, "the page at %d ends at %d, %v", at, p.End, err)
		for _, line := range p.Lines {
			states++
			said := line.Spans[0].Text
			says.True(t, said == "epoch:  10%|████      | 1/10 [00:01<00:09,  1.00it/s]" || said == "end",
				"a line of the page at %d is %.200q", at, said)
		}
		at = p.End
	}
	says.True(t, states <= len(bar)/pageBytes+3, "%d states are shown", states)
}

func TestColours(t *testing.T) {
	for line, want := range map[string][]Span{
		"plain":                        {{"", "plain"}},
		"\x1b[31mred\x1b[0m x":         {{"fg1", "red"}, {"", " x"}},
		"\x1b[1;92mb\x1b[22mc\x1b[39m": {{"bold fg10", "b"}, {"fg10", "c"}},
		"a\x1b[2Kb\x1b]0;t\x07c":       {{"", "a"}, {"", "b"}, {"", "]0;tc"}},
		"\x1b[38;5;31mx":               {{"", "x"}},
		"\x1b[31":                      nil,
		"x\x1b":                        {{"", "x"}},
		"\xff\x00\ty\r":                {{"", "\uFFFD\ty"}},
		"\x1b[<script>mx":              {{"", "cript>mx"}},
	} {
		got := spansOf([]byte(line))
		says.True(t, reflect.DeepEqual(got, want), "%q: %q, want %q", line, got, want)
	}
}

// FuzzColours: no line makes a class of its own, nor loses its letters.
func FuzzColours(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m")
	f.Add("\x1b[1;97;99999999999999999999mx")
	f.Fuzz(func(t *testing.T, line string) {
		for _, span := range spansOf([]byte(line)) {
			for name := range strings.FieldsSeq(span.Class) {
				says.True(t, name == "bold" || strings.HasPrefix(name, "fg") && len(name) <= 4, "class %q", span.Class)
			}
			says.True(t, !strings.ContainsAny(span.Text, "\x1b\x00\x07"), "text %q", span.Text)
		}
	})
}
