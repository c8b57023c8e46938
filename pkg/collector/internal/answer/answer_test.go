package answer

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestEach: the rows of a list are read whatever stands before it, and an answer without it is an error.
func TestEach(t *testing.T) {
	for text, want := range map[string]string{
		`{"data":{"list":[7]}}`: "[7]",
		`{"x":{"list":[1,[2]]},"data":{"y":[[],{}],"list":[8,9]},"z":1}`: "[8 9]",
		`{"data":{"list":[1,2,3]}}`:                                      "more than 2 nodes",
		`{"data":{"list":["` + strings.Repeat("x", 2*MaxRow) + `"]}}`:    "bytes in one row",
		`{"data":{"lists":[7]}}`:                                         "list",
		`{"data":{"list":7}}`:                                            "list",
		`[7]`:                                                            "data",
		`{"data":`:                                                       "EOF",
	} {
		var rows []int
		err := Each(strings.NewReader(text), []string{"data", "list"}, "nodes", 2, func(row int) error {
			rows = append(rows, row)
			return nil
		})
		if got := fmt.Sprint(rows); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %s, %v", text, got, err)
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
		"tokens":           {"[", "{},", "tokens", layout.MaxSnapshot},
		"string":           {`["`, "x", "row", 3 * MaxRow},
		"number":           {"", "1", "row", 3 * MaxRow},
		"space":            {"[", " ", "row", 3 * MaxRow},
		"bytes in strings": {"[", `"` + strings.Repeat("x", 1000) + `",`, "bytes", layout.MaxSnapshot + 1<<20},
	} {
		e := &endless{text: test.text}
		r := NewReader(io.MultiReader(strings.NewReader(test.begin), e))
		var err error
		for err == nil {
			_, err = r.Token()
		}
		var refusal *Refusal
		says.True(t, errors.As(err, &refusal) && refusal.Reason == test.reason &&
			strings.Contains(err.Error(), "more than"), "%s: %v", name, err)
		says.True(t, e.read <= test.most, "%s: %d bytes were read", name, e.read)
	}
}

// TestBoundsOfRows: neither a row without an end nor one that is passed over on the way to the list is read further
// than a row may be.
func TestBoundsOfRows(t *testing.T) {
	for name, test := range map[string]struct {
		path        []string
		begin, text string
	}{
		"a row":       {nil, `[{"a":[`, "[],"},
		"on the way":  {[]string{"data"}, `{"x":[`, "[],{},"},
		"deep":        {nil, `[{"a":`, "["},
		"many fields": {[]string{"data"}, `{`, `"x":1,`},
		"space":       {nil, `[{}`, " "},
	} {
		e := &endless{text: test.text}
		err := Each(io.MultiReader(strings.NewReader(test.begin), e), test.path, "nodes", MaxNodes,
			func(struct{ A any }) error { return nil })
		says.True(t, err != nil && e.read <= 3*MaxRow, "%s: %v after %d bytes", name, err, e.read)
	}
}
