package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

func TestEach(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string // numbers that were read
		err  string // a part of the error
	}{
		"a list":        {`{"other": {"list": [9]}, "in": {"x": [1, {}], "list": [{"n": 1}, {"n": 2, "more": [1]}], "y": 1}}`, "[1 2]", ""},
		"an empty one":  {`{"in":{"list":[]}}`, "[]", ""},
		"none":          {`{"in":{"other":[]}}`, "[]", `no field "list"`},
		"null":          {`{"in":null}`, "[]", `no object that has "list"`},
		"no elements":   {`{"in":{"list":null}}`, "[]", ""},
		"not a list":    {`{"in":{"list":{}}}`, "[]", "no list"},
		"too long":      {`{"in":{"list":[{"n":1},{"n":2},{"n":3},{"n":4}]}}`, "[1 2 3]", "more than 3 elements"},
		"cut off":       {`{"in":{"list":[{"n":1},`, "[1]", "EOF"},
		"cut off later": {`{"in":{"list":[{"n":1}`, "[1]", "EOF"},
		"a large element": {`{"in":{"list":[{"n":1},{"x":"` + strings.Repeat("x", 3000) + `"}]}}`, "[1]",
			"more than 1000 bytes"},
		"a large name": {`{"` + strings.Repeat("x", 3000) + `":1}`, "[]", "more than 1000 bytes"},
		"something before": {`{"x":"` + strings.Repeat("x", 3000) + `","in":{"list":[]}}`, "[]",
			"more than 1000 bytes"},
		"many before": {`{` + strings.Repeat(`"x":[1,2,3],`, maxFields-1) + `"in":{"list":[{"n":5}]}}`, "[5]", ""},
		"too many before": {`{` + strings.Repeat(`"x":[1,2,3],`, maxFields) + `"in":{"list":[{"n":5}]}}`, "[]",
			`no field "in"`},
	} {
		t.Run(name, func(t *testing.T) {
			read := []int{}
			r := New(strings.NewReader(test.text), 1000)
			err := errors.Join(r.Enter("in"), r.Enter("list"))
			if err == nil {
				err = Each(r, 3, func(e struct{ N int }) error {
					read = append(read, e.N)
					return nil
				})
			}
			says.True(t, fmt.Sprint(read) == test.want && (err == nil) == (test.err == "") &&
				(err == nil || strings.Contains(err.Error(), test.err)), "read %v, %v", read, err)
		})
	}
}

// TestEveryLength: wherever an element ends in what was read at once, those after it are read, or there is an error.
func TestEveryLength(t *testing.T) {
	for n := range 3000 {
		read := 0
		text := `[{"x":"` + strings.Repeat("x", n) + `"},{}]`
		err := Each(New(strings.NewReader(text), 1000), 3, func(struct{}) error { read++; return nil })
		says.True(t, err != nil || read == 2, "with %d bytes: %d elements", n, read)
	}
}

// TestMemory: a document of millions of elements takes no memory for them.
func TestMemory(t *testing.T) {
	text := "[" + strings.Repeat("{},", 1_000_000) + "{}]"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Each(New(strings.NewReader(text), 1000), 1000, func(struct{ A, B, C, D, E string }) error { return nil })
	runtime.ReadMemStats(&after)
	says.True(t, errors.Is(err, ErrMany) && after.TotalAlloc-before.TotalAlloc <= 1<<20, "%v after %d bytes", err,
		after.TotalAlloc-before.TotalAlloc)
}

// TestSpace: a list with much space in it is read to its end, or with an error; nothing of it is left out silently.
func TestSpace(t *testing.T) {
	for n := range 200 {
		elements := 0
		text := "[1" + strings.Repeat(" ", n) + ",2,3]"
		err := Each(New(strings.NewReader(text), 16), 10, func(int) error {
			elements++
			return nil
		})
		says.True(t, (err == nil) == (elements == 3) && (err == nil || n >= 8), "%d spaces: %d elements, %v", n,
			elements, err)
	}
}

// TestFinite: what Python writes and JSON lacks is null, wherever a document is cut into parts; strings stay as they
// are.
func TestFinite(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`: `{"a": null, "b": [null, null, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`,
		`NaN`: `null`, `-Infinity`: `null`, `[NaN,NaN]`: `[null,null]`, `"Infinity"`: `"Infinity"`,
		`{"NaN": NaN, "\u004eaN": true, "x": -5}`: `{"NaN": null, "\u004eaN": true, "x": -5}`,
		`[true, false, null, {"-": "-"}]`:         `[true, false, null, {"-": "-"}]`,
	} {
		for size := 1; size <= len(in); size++ {
			var f Finite
			var out []byte
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				out = f.Append(out, []byte(rest[:n]))
				rest = rest[n:]
			}
			got := string(out)
			says.True(t, got == want && json.Valid(out), "%s in parts of %d: %s, want %s", in, size, got, want)
		}
		for name, r := range map[string]io.Reader{
			"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in)),
			"with its end": iotest.DataErrReader(strings.NewReader(in)),
		} {
			if got, err := io.ReadAll(iotest.OneByteReader(FromPython(r))); err != nil || string(got) != want {
				t.Errorf("%s, read %s: %s, %v", in, name, got, err)
			}
		}
	}
	broken := errors.New("broken")
	r := FromPython(io.MultiReader(strings.NewReader("[NaN"), iotest.ErrReader(broken)))
	if got, err := io.ReadAll(r); string(got) != "[null" || !errors.Is(err, broken) {
		t.Errorf("%s, %v", got, err)
	}
}
