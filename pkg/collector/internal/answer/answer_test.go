package answer

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// TestEnter: the list is found whatever stands before it, and an answer without it is an error.
func TestEnter(t *testing.T) {
	for text, want := range map[string]string{
		`{"data":{"list":[7]}}`: "7",
		`{"x":{"list":[1,[2]]},"data":{"y":[[],{}],"list":[8,9]},"z":1}`: "8",
		`{"data":{"lists":[7]}}`: "",
		`{"data":[7]}`:           "",
		`{"data":{"list":7}}`:    "",
		`[7]`:                    "",
		`{"data":`:               "",
		``:                       "",
	} {
		r := NewReader(strings.NewReader(text))
		err := r.Enter("data", "list")
		var row int
		if err == nil {
			err = r.Row(&row)
		}
		if want == "" && err == nil || want != "" && (err != nil || row != int(want[0]-'0')) {
			t.Errorf("%s: %d, %v", text, row, err)
		}
	}
}

// endless repeats a text for ever and counts what is read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

// TestBounds: answers without an end are given up soon, by each way of reading.
func TestBounds(t *testing.T) {
	for name, test := range map[string]struct {
		begin, text, reason string
		most                int // bytes that may be read until then
	}{
		"depth":            {"", "[", "depth", 1 << 20},
		"objects":          {"", `{"a":`, "depth", 1 << 20},
		"tokens":           {"[", "{},", "tokens", MaxBytes},
		"string":           {`["`, "x", "row", 3 * MaxRow},
		"number":           {"", "1", "row", 3 * MaxRow},
		"space":            {"[", " ", "row", 3 * MaxRow},
		"bytes in strings": {"[", `"` + strings.Repeat("x", 1000) + `",`, "bytes", MaxBytes + 1<<20},
	} {
		e := &endless{text: test.text}
		r := NewReader(io.MultiReader(strings.NewReader(test.begin), e))
		var err error
		for err == nil {
			_, err = r.Token()
		}
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Reason != test.reason || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%s: %v", name, err)
		}
		if e.read > test.most {
			t.Errorf("%s: %d bytes were read", name, e.read)
		}
	}
	e := &endless{text: "["}
	r := NewReader(io.MultiReader(strings.NewReader(`[{"a":`), e))
	err := r.Enter()
	if err == nil {
		var row struct{ A any }
		err = r.Row(&row)
	}
	if err == nil || e.read > 3*MaxRow {
		t.Errorf("a row without an end: %v after %d bytes", err, e.read)
	}
	r = NewReader(io.MultiReader(strings.NewReader(`{"x":`), &endless{text: `[[],{}],`}))
	if err := r.Enter("data"); err == nil {
		t.Error("what is skipped has no bound")
	}
}
