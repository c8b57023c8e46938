package pyjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestSpellings: separators and escapes are those of Python's json.dumps; numbers keep their spelling; half a surrogate
// pair, which Go's strings cannot hold, is lost.
func TestSpellings(t *testing.T) {
	for text, want := range map[string]string{
		`{"b":1,"a":[true,false,null]}`:       `{"b": 1, "a": [true, false, null]}`,
		`[]`:                                  `[]`,
		` { } `:                               `{}`,
		`[1,1.0,-0,1e3,12345678901234567890]`: `[1, 1.0, -0, 1e3, 12345678901234567890]`,
		`"ü€😀"`:                               `"\u00fc\u20ac\ud83d\ude00"`,
		`"\u00fc\ud83d\ude00\/\b\f"`:          `"\u00fc\ud83d\ude00/\b\f"`,
		"\"a\\\"b\\\\c\\n\\t\\u001b[1m\x7f\"": `"a\"b\\c\n\t\u001b[1m\u007f"`,
		`NaN`:                                 `NaN`,
		`[-Infinity,Infinity]`:                `[-Infinity, Infinity]`,
		`"\ud83d"`:                            `"\ufffd"`,
		`{"a":1,"a":2}`:                       `{"a": 2}`,
		"{\"\xff\":1,\"\ufffd\":2}":           `{"\ufffd": 2}`,
	} {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("Parse(%s): %v", text, err)
			continue
		}
		says.Equal(t, string(Append(nil, v)), want, "%s", text)
	}
}

func TestFloats(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -2.5: "-2.5", 0.1: "0.1", 0.8000000000000007: "0.8000000000000007",
		1795216810416: "1795216810416.0",
		1e16:          "1e+16", 123456789012345680: "1.2345678901234568e+17", 9007199254740993: "9007199254740992.0",
		0.0001:  "0.0001",
		0.00001: "1e-05", 1.5e-7: "1.5e-07", 5.4836273193359375e-06: "5.4836273193359375e-06", 1e100: "1e+100",
		math.Inf(1): "Infinity", math.Inf(-1): "-Infinity",
	} {
		says.Equal(t, string(AppendFloat(nil, f)), want, "%v", f)
	}
	says.Equal(t, string(AppendFloat(nil, math.NaN())), "NaN")
}

func TestGoValues(t *testing.T) {
	var none *Object
	o := Obj("int", 1, "uint", uint64(math.MaxUint64), "float", 2.0, "strings", []string{"a"}, "map",
		map[string]float64{"b": 1, "a": 2},
		"texts", map[string]string{}, "raw", Raw(`[1]`), "none", none, "objects", []*Object{Obj("x", nil)}, "nil", nil)
	const want = `{"int": 1, "uint": 18446744073709551615, "float": 2.0, "strings": ["a"], "map": {"a": 2.0, "b": 1.0}, "texts": {}, ` +
		`"raw": [1], "none": null, "objects": [{"x": null}], "nil": null}`
	says.Equal(t, string(Append(nil, o)), want)
}

func TestRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "{", "[", `"`, `"\`, `"\u12`, `"\x"`, "{a: 1}", `{"a" 1}`, `{"a": }`, `{"a": 1,}`, "[1,]", "[1 2]",
		"nul", "1.", "-", ".5", "1e", "1 2", "01", "-00", "[1, 01.5]",
		"[1]]", strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000),
	} {
		v, err := Parse([]byte(text))
		says.True(t, err != nil, "Parse(%.40q) = %v, want an error", text, v)
	}
	says.True(t, says.Err(ParseObject([]byte("[]"))) != nil, "a list is no object")
}

// TestParseWithin: what values take is counted before it is allocated, and not less than it is.
func TestParseWithin(t *testing.T) {
	for _, text := range []string{
		"[" + strings.Repeat("{},", 50_000) + "{}]", "[" + strings.Repeat("[],", 50_000) + "[]]",
		strings.Repeat("[", 400) + strings.Repeat("]", 400),
		"[" + strings.Repeat("1,", 50_000) + "1]", `"` + strings.Repeat("x", 200_000) + `"`,
		`"` + strings.Repeat(`\n`, 100_000) + `"`,
		"[" + strings.Repeat(`{"a": 1, "b": "text", "c": [1, 2, {}]},`, 5_000) + "1]",
		"{" + manyKeys(20_000) + `"z": 1}`,
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		v, bytes, err := ParseWithin([]byte(text), math.MaxInt64)
		runtime.GC()
		runtime.ReadMemStats(&after)
		held := int64(after.HeapAlloc) - int64(before.HeapAlloc) - int64(len(text))
		says.True(t, err == nil && held <= bytes+64<<10, "%.30s: counted %d bytes, it holds %d (%v)", text, bytes, held,
			err)
		runtime.KeepAlive(v)
		if _, _, err := ParseWithin([]byte(text), bytes); err != nil {
			t.Errorf("%.30s does not fit what it takes: %v", text, err)
		}
		_, _, err = ParseWithin([]byte(text), bytes-1)
		says.True(t, errors.Is(err, ErrTooLarge), "%.30s fits less than it takes: %v", text, err)
		runtime.ReadMemStats(&before)
		_, _, err = ParseWithin([]byte(text), 1000)
		says.True(t, errors.Is(err, ErrTooLarge), "%.30s: %v, want that it is too large", text, err)
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > uint64(len(text))+64<<10 {
			t.Errorf("%.30s: %d bytes were allocated of 1000", text, after.TotalAlloc-before.TotalAlloc)
		}
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\"%d\": %d, ", i, i)
	}
	return b.String()
}

func TestObject(t *testing.T) {
	o := &Object{}
	for i := range 40 { // more than are walked
		o.Set(string(rune('A'+i)), i)
	}
	o.Set("B", "changed")
	c := o.Clone()
	c.Delete("A")
	c.Delete("nope")
	c.Set("new", true)
	if o.Len() != 40 || c.Len() != 40 || o.Get("A") != 0 || c.Get("A") != nil || c.Get("B") != "changed" ||
		c.Get("C") != 2 || !c.Bool("new") {
		t.Errorf("%s\n%s", Append(nil, o), Append(nil, c))
	}
	var last string
	for k := range c.All() {
		last = k
	}
	says.Equal(t, last, "new", "last key %s: the order is that of setting", last)
	var none *Object
	says.True(t, none.Len() == 0 && none.Get("a") == nil && none.Object("a").List("b") == nil &&
		none.String("c") == "" && none.Int("d") == 0, "a nil object does not read like an empty one")
	for range none.All() {
		t.Error("a nil object has keys")
	}
}

func TestInt(t *testing.T) {
	o := Obj("a", Number("5"), "b", "1795216792394", "c", Number("2.0"), "d", Number("2.5"), "e", "x", "f", 7, "g",
		int64(8), "h", Number("1e400"), "i", nil,
		"k", int32(-9), "l", uint32(9), "m", uint64(1<<63))
	for key, want := range map[string]int64{"a": 5, "b": 1795216792394, "c": 2, "d": 0, "e": 0, "f": 7, "g": 8, "h": 0,
		"i": 0, "j": 0, "k": -9, "l": 9, "m": 1<<63 - 1} {
		says.Equal(t, o.Int(key), want, "%s", key)
	}
}

// FuzzParse: what is read and written is read the same again, and the same as encoding/json reads it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2.5e-3, "\u00fc\n"], "b": {"c": null}}`, `[NaN]`, `"\ud83d\ude00"`,
		`{"a":1,"a":2}`, "\"\xff\"", "{\"\xff\":1,\"\ufffd\":2}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data)
		if err != nil {
			return
		}
		text := Append(nil, v)
		again, err := Parse(text)
		must.OK(t, err, "%q was written as %q", data, text)
		twice := Append(nil, again)
		must.True(t, string(twice) == string(text), "%q, then %q", text, twice)
		var got, want any
		if json.Unmarshal(data, &want) == nil && json.Unmarshal(text, &got) == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q was written as %q", data, text)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	text := []byte(`{"data": [` + strings.Repeat(
		`{"nodeId": "11ddada2522c973b78d21316e6e058f54500e29f", "cpu": 9.7, "mem": [1, 2, 3], "ok": true}, `, 1000) +
		`null]}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		must.Get(Parse(text))(b)
	}
}

func BenchmarkAppend(b *testing.B) {
	v, err := Parse([]byte(`[` + strings.Repeat(
		`{"nodeId": "11ddada2522c973b78d21316e6e058f54500e29f", "cpu": 9.7, "mem": [1, 2, 3], "text": "ü\n"}, `, 1000) +
		`null]`))
	must.OK(b, err)
	buf := Append(nil, v)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf = Append(buf[:0], v)
	}
}

// TestStringsOfAnyLength writes each byte at each place of strings that are looked at in words, and compares with their
// bytes written alone.
func TestStringsOfAnyLength(t *testing.T) {
	quoted := func(s string) string {
		b := AppendString(nil, s)
		return string(b[1 : len(b)-1])
	}
	const around = "abcdefgh~ z0123456789"
	for at := range around {
		for c := range 256 {
			before, odd, after := around[:at], string([]byte{byte(c)}), around[at:]
			want := before + quoted(odd) + after
			got := quoted(before + odd + after)
			must.True(t, got == want, "byte %#x at %d: %s, want %s", c, at, got, want)
		}
	}
}

func TestSetSeveral(t *testing.T) {
	o := Obj("a", 1, "b", 2)
	o.SetAll("b", 3, "c", 4)
	o.SetExisting(map[string]any{"a": 5, "d": 6})
	says.Equal(t, string(Append(nil, o)), `{"a": 5, "b": 3, "c": 4}`)
	if o.Delete("a", "d", "c"); string(Append(nil, o)) != `{"b": 3}` {
		t.Errorf("after Delete: %s", Append(nil, o))
	}
}
