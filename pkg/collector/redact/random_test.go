package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// FuzzJSON: JSON stays JSON of the same length and form, and of what an expression matched nothing is left in a string.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":"secret=x\"y","b":["\u0073ecret=1","{\"secret\":\"z\"}"],"c":-1.5e7}`, `"\\\"secret=\\\\\""`,
		`[{"TOKEN":{"x":["a",1]}},"TOKEN=\"a b\"",null]`, `{"a":"\ud83d\ude00 secret=\ud83d","b":"x\nsecret=\ny"}`,
		` {"x" : "secret" } `, `{"a":"[\"secret=x\",1"}`,
		`{"key":"abc","\u006bey":"b","a":["ab\/c","ab/c","\"qx","{\"key\":\"\\u0061\",\"b\":\"ab\\/c\"}"]}`,
		`{"at":"sk-ab","bt":["sk-1","{\"ct\":\"\\\\u0073k-a\"}","\ud83dsecret=\u0000"],"x":"x \u00e9yé"}`,
	} {
		f.Add([]byte(seed))
	}
	r := redactor(f, []string{"TOKEN"}, `secret=\S+`, `x.*y`, `[0-9]{5,}`)
	fast := redactor(f, []string{"TOKEN"}, `secret=\S+`, `\bx.*yé`, `ab/c|"q\w+`, `"key": "(\w+)`, `\w+t\W+(sk-\w+)`)
	slow := withoutLiterals(fast)
	secret := regexp.MustCompile(`secret=[^\s*]`)
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		got, want := bytes.Clone(data), bytes.Clone(data)
		fast.JSON(got)
		if slow.JSON(want); !bytes.Equal(got, want) {
			t.Fatalf("%q became %q with literals, %q without", data, got, want)
		}
		got = bytes.Clone(data)
		r.JSON(got)
		must.True(t, len(got) == len(data) && json.Valid(got), "%q became %q", data, got)
		var before, after any
		for text, value := range map[*[]byte]*any{&data: &before, &got: &after} {
			decoder := json.NewDecoder(bytes.NewReader(*text))
			decoder.UseNumber()
			must.OK(t, decoder.Decode(value))
		}
		for _, text := range texts(after) {
			must.True(t, !secret.MatchString(text), "%q became %q, which has %q", data, got, text)
		}
		var copied bytes.Buffer
		n, err := r.Copy(&copied, iotest.OneByteReader(bytes.NewReader(data)))
		// A text that begins like a number is copied as text.
		if first := bytes.TrimLeft(data, " \t\r\n")[0]; err != nil || n != int64(len(data)) ||
			strings.IndexByte(`{["`, first) >= 0 && !bytes.Equal(copied.Bytes(), got) {
			t.Fatalf("%q is copied as %q (%v), redacted %q", data, &copied, err, got)
		}
	})
}

// texts are the strings of a value.
func texts(value any) (list []string) {
	switch value := value.(type) {
	case string:
		list = append(list, value)
	case []any:
		for _, v := range value {
			list = append(list, texts(v)...)
		}
	case map[string]any:
		for k, v := range value {
			list = append(append(list, k), texts(v)...)
		}
	}
	return list
}

// randomLog is lines of text and JSON, some with secrets, some too long.
func randomLog(random *rand.Rand, lines int) []byte {
	var b bytes.Buffer
	for range lines {
		switch random.IntN(12) {
		case 0:
			b.WriteString("the password=hunter2 of HF_TOKEN=abc")
		case 1:
			b.WriteString(`{"m":"pass\u0077ord=x","n":"AKIAABCDEFGHIJKLMNOP"}`)
		case 2:
			b.WriteString("PASSWORD: ключ " + strings.Repeat("x", random.IntN(300)))
		case 3:
			b.WriteString(strings.Repeat("y", maxLine-1+random.IntN(4)))
		case 4:
			if random.IntN(4) == 0 {
				b.WriteString(strings.Repeat("password=zz ", maxLine/4))
			}
		default:
			b.WriteString(strings.Repeat("line ", random.IntN(40)))
		}
		b.WriteString([]string{"\n", "\r", "\r\n"}[random.IntN(3)])
	}
	return b.Bytes()
}

// withoutLiterals returns a redactor each of whose rules reads everything.
func withoutLiterals(r *Redactor) *Redactor {
	return &Redactor{rules: &rules{list: r.list, names: r.names, assigned: r.assigned, always: 1<<len(r.list) - 1}}
}

// TestFinderMissesNothing: lines are redacted as if each expression had read each of them.
func TestFinderMissesNothing(t *testing.T) {
	r := redactor(t, []string{"HF_TOKEN", "*_SECRET"}, manyExpressions()...)
	slow := withoutLiterals(r)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		log := randomLog(random, 60)
		got, want := bytes.Clone(log), bytes.Clone(log)
		r.Lines(got)
		slow.Lines(want)
		must.True(t, bytes.Equal(got, want), "seed %d: with literals another result than without", seed)
		must.True(t, len(got) == len(log) && !bytes.Equal(got, log) && !bytes.Contains(got, []byte("hunter2")),
			"seed %d: %d bytes of %d", seed, len(got), len(log))
	}
}

// TestLogFromAnywhere: any part of a log is what it is in the whole log, however it is read.
func TestLogFromAnywhere(t *testing.T) {
	r := redactor(t, []string{"HF_TOKEN"}, manyExpressions()...)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 2))
		log := randomLog(random, 30)
		size := int64(len(log))
		want := bytes.Clone(log)
		r.Lines(want)
		for range 10 {
			offset := random.Int64N(size + 1)
			n := random.Int64N(size - offset + 1)
			if random.IntN(2) == 0 {
				n = min(n, 1000)
			}
			part := r.Log(bytes.NewReader(log), offset, n, size, false)
			var read io.Reader = part
			if random.IntN(4) == 0 {
				must.Get(part.Seek(random.Int64N(n+1), io.SeekStart))(t)
				must.Get(io.Copy(io.Discard, io.LimitReader(part, 10)))(t)
				must.Get(part.Seek(0, io.SeekStart))(t)
				read = iotest.HalfReader(part)
			}
			got := must.Get(io.ReadAll(read))(t)
			must.True(t, bytes.Equal(got, want[offset:offset+n]),
				"seed %d: %d bytes from %d are not what they are in the whole log", seed, n, offset)
		}
	}
}

// TestLogThatShrinks: a log that is shorter than it was is an error, not a shorter part.
func TestLogThatShrinks(t *testing.T) {
	r := redactor(t, nil, "secret")
	got, err := io.ReadAll(r.Log(strings.NewReader("short\n"), 0, 100, 100, false))
	says.ErrorIs(t, err, io.ErrUnexpectedEOF, "%q", got)
}

// TestCut: the last line of a log that may go on is not shown, however much of a secret it has.
func TestCut(t *testing.T) {
	r := redactor(t, nil, `sk-[a-z]{10}`)
	const log = "a line\nkey sk-abcdef"
	if got := must.Get(io.ReadAll(r.Log(strings.NewReader(log), 0, 20, 20, true)))(t); string(
		got) != "a line\n*************" {
		t.Errorf("%q", got)
	}
	const whole = "a line\nkey sk-abcdefghij\n"
	got := must.Get(io.ReadAll(r.Log(strings.NewReader(whole), 20, 5, 25, true)))(t)
	says.True(t, string(got) == "****\n", "the rest of a line: %q", got)
}

// TestLastLineEnd: where the last whole line ends.
func TestLastLineEnd(t *testing.T) {
	long := strings.Repeat("x", maxLine+2)
	for _, tt := range []struct {
		log        string
		from, want int64
	}{
		{"", 0, 0}, {"abc", 0, 0}, {"a\nbc", 0, 2}, {"a\nb\r", 0, 4}, {"a\nbc", 2, 2},
		{"a\n" + strings.Repeat("x", 9000), 0, 2}, {"a\n" + long, 0, int64(len(long)) + 2},
		{"a\n" + long, 2, int64(len(long)) + 2},
	} {
		says.Equal(t, must.Get(LastLineEnd(strings.NewReader(tt.log), tt.from, int64(len(tt.log))))(t), tt.want,
			"%.10q of %d bytes from %d", tt.log, len(tt.log), tt.from)
	}
}

// TestCopy: text is redacted by lines; what begins like JSON and is none, or ends early, is an error.
func TestCopy(t *testing.T) {
	r := redactor(t, nil, `secret=\S+`)
	for text, want := range map[string]string{
		"": "", "  ": "  ", "plain secret=x\nand secret=\"y": "plain ********\nand *********", "17": "17",
		`{"a":"secret=x"}` + "\n":                           `{"a":"********"}` + "\n",
		`[` + strings.Repeat(`"secret=x",`, 50_000) + `1]`:  `[` + strings.Repeat(`"********",`, 50_000) + `1]`,
		`["` + strings.Repeat(`a `, 100_000) + `secret=x"]`: `["` + strings.Repeat(`a `, 100_000) + `********"]`,
	} {
		var got bytes.Buffer
		n, err := r.Copy(&got, iotest.HalfReader(strings.NewReader(text)))
		says.True(t, err == nil && n == int64(len(text)) && got.String() == want, "%.50q: %d bytes %.100q, %v", text, n,
			&got, err)
	}
	for _, text := range []string{`{"a": secret=x}`, `["secret=x`, `[1] secret`, `"a" b`} {
		var got bytes.Buffer
		if _, err := r.Copy(&got, strings.NewReader(text)); err == nil || strings.Contains(got.String(), "secret") {
			t.Errorf("%q is copied as %q", text, &got)
		}
	}
}
