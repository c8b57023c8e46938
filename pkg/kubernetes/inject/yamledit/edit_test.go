package yamledit

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// set changes the tree at a path of keys and indices; -1 appends to a list.
func set(tree any, value any, path ...any) any {
	if len(path) == 0 {
		return value
	}
	switch t := tree.(type) {
	case map[string]any:
		key := path[0].(string)
		t[key] = set(t[key], value, path[1:]...)
		return t
	case []any:
		if i := path[0].(int); i >= 0 {
			t[i] = set(t[i], value, path[1:]...)
			return t
		}
		return append(t, value)
	default:
		return set(map[string]any{}, value, path...)
	}
}

func TestEdit(t *testing.T) {
	tests := map[string]struct {
		in, want string
		value    any
		path     []any
	}{
		"key after a block text that ends like a comment": {
			in: "m:\n  a: |\n    x\n    # y\n\n# z\nb: 1\n", path: []any{"m", "c"}, value: "d",
			want: "m:\n  a: |\n    x\n    # y\n  c: d\n\n# z\nb: 1\n",
		},
		"item after a quoted text over two lines": {
			in: "l:\n- a: \"x\n    y\" # c\n# end\n", path: []any{"l", -1}, value: "z",
			want: "l:\n- a: \"x\n    y\" # c\n- z\n# end\n",
		},
		"item after a plain text over two lines": {
			in: "l:\n- a: x\n    y  # c\n", path: []any{"l", -1}, value: int64(1),
			want: "l:\n- a: x\n    y  # c\n- 1\n",
		},
		"item after an empty value": {in: "l:\n- a:\n", path: []any{"l", -1}, value: "z", want: "l:\n- a:\n- z\n"},
		"no line end":               {in: "a: 1", path: []any{"b"}, value: true, want: "a: 1\nb: true"},
		"over nothing": {in: "a: # why\nb: 1\n", path: []any{"a"}, value: []any{"x"},
			want: "a: # why\n- x\nb: 1\n"},
		"over an empty list": {in: "l:\n  - a: [ ] # why\n    b: 1\n", path: []any{"l", 0, "a"},
			value: []any{"x"}, want: "l:\n  - a: # why\n      - x\n    b: 1\n"},
		"over a scalar": {in: "a: 'x''y' # why\n", path: []any{"a"}, value: "z", want: "a: z # why\n"},
		"over a block text": {in: "a: |+\n  x\n\nb: 1\n", path: []any{"a"}, value: "z",
			want: "a: z\nb: 1\n"},
		"item behind a text that keeps its empty lines": {in: "l:\n- |+ # why\n  x\n\n\nb: 1\n",
			path: []any{"l", -1}, value: "z", want: "l:\n- |+ # why\n  x\n\n\n- z\nb: 1\n"},
		"item behind a text that keeps its empty lines, at the end": {in: "l:\n- >+\n  x\n\n\n", path: []any{"l", -1},
			value: "z", want: "l:\n- >+\n  x\n\n\n- z\n"},
		"over an item": {in: "l: \n- 1 # one\n- 2\n", path: []any{"l", 0}, value: int64(3),
			want: "l: \n- 3 # one\n- 2\n"},
		"into brackets": {in: "a: {b: [1, 'x]', \"y]\"], # ]\n  it's: ok}\n", path: []any{"a", "b", -1},
			value: "z", want: "a: {b: [1, 'x]', \"y]\", \"z\"], # ]\n  it's: ok}\n"},
		"into brackets with a comma": {in: "a: [\n  1,\n]\n", path: []any{"a", -1}, value: int64(2),
			want: "a: [\n  1, 2\n]\n"},
		"over a value in brackets": {in: "a: {b: x, c: 1}\n", path: []any{"a", "b"}, value: "y",
			want: "a: {b: \"y\", c: 1}\n"},
		"anchored list": {in: "a: &x\n  - 1\nb: *x\n", path: []any{"b", -1}, value: int64(2),
			want: "a: &x\n  - 1\nb:\n  - 1\n  - 2\n"},
		"anchored empty value": {in: "a: &x\nb: *x\n", path: []any{"c"}, value: "d",
			want: "a: &x\nb: *x\nc: d\n"},
		"over an anchored and tagged empty value": {in: "a: &x !!null # why\nb: 1\n", path: []any{"a"}, value: "d",
			want: "a: d # why\nb: 1\n"},
		"behind a tagged empty text": {in: "b: 1\na: !!str\n", path: []any{"c"}, value: "d",
			want: "b: 1\na: !!str\nc: d\n"},
		"over a text below its tag": {in: "a: !!str # 'why\n  'x'\nb: 1\n", path: []any{"a"}, value: "d",
			want: "a: d\nb: 1\n"},
		"behind a plain text below its anchor": {in: "a: &x\n  y\n", path: []any{"c"}, value: "d",
			want: "a: &x\n  y\nc: d\n"},
		"tagged text": {in: "a: !!str 1\n", path: []any{"c"}, value: "d", want: "a: !!str 1\nc: d\n"},
		"not ASCII": {in: "ä: {é: 'ü', ö: [1]}\n", path: []any{"ä", "ö", -1}, value: int64(2),
			want: "ä: {é: 'ü', ö: [1, 2]}\n"},
		"quoted key": {in: "\"a b\": {}\n", path: []any{"a b", "c"}, value: "d",
			want: "\"a b\":\n  c: d\n"},
		"text that looks like a number": {
			in: "a: 1\n", path: []any{"b"}, value: map[string]any{"n": "1", "t": "true", "e": "", "l": "x\ny\n"},
			want: "a: 1\nb:\n  e: \"\"\n  l: |\n    x\n    y\n  \"n\": \"1\"\n  t: \"true\"\n",
		},
		"item on the line after its dash": {in: "l:\n-\n  a: 1\n", path: []any{"l", -1}, value: "z",
			want: "l:\n-\n  a: 1\n- z\n"},
		"item behind a comment": {in: "l:\n  - # the first - of all -\n    # - so\n    a: 1\n", path: []any{"l", -1},
			value: "z", want: "l:\n  - # the first - of all -\n    # - so\n    a: 1\n  - z\n"},
		"list in a list": {in: "- - 1\n  - 2\n- 3\n", path: []any{0, -1}, value: int64(9),
			want: "- - 1\n  - 2\n  - 9\n- 3\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tree := must.Get(Decode([]byte(tt.in)))(t)
			got := must.Get(Edit([]byte(tt.in), set(tree, tt.value, tt.path...)))(t)
			says.Equal(t, cmp.Diff(tt.want, string(got)), "", "-want +got")
		})
	}
}

func TestEditRemoves(t *testing.T) {
	in := "l:\n- name: a # first\n  x: 1\n\n# about b\n- # b - or so\n  name: b\n- name: c\n"
	want := map[string]any{"l": []any{
		map[string]any{"name": "a", "x": int64(1)}, map[string]any{"name": "c"}, map[string]any{"name": "d"},
	}}
	got := must.Get(Edit([]byte(in), want))(t)
	says.Equal(t, cmp.Diff("l:\n- name: a # first\n  x: 1\n\n# about b\n- name: c\n- name: d\n", string(got)), "",
		"-want +got")
}

func TestEditSame(t *testing.T) {
	const in = "# c\r\na:   [1 ,2]\r\nwhen: 2026-11-20\r\n"
	tree := must.Get(Decode([]byte(in)))(t)
	want := map[string]any{"a": []any{int64(1), int64(2)}, "when": "2026-11-20"}
	says.True(t, reflect.DeepEqual(tree, want), "decoded %v, want %v", tree, want)
	says.Equal(t, string(must.Get(Edit([]byte(in), tree))(t)), in)
}

// Kubernetes' decoder of JSON has no uint64, and a deep copy of one panics.
func TestDecodeLargeInteger(t *testing.T) {
	const in = "a: 18446744073709551615 # the largest\nb: -9223372036854775808\n"
	tree := must.Get(Decode([]byte(in)))(t)
	want := map[string]any{"a": float64(1 << 64), "b": int64(-1 << 63)}
	says.True(t, reflect.DeepEqual(tree, want), "decoded %#v, want %#v", tree, want)
	says.Equal(t, string(must.Get(Edit([]byte(in), tree))(t)), in)
}

func TestEditErrors(t *testing.T) {
	says.ErrorIs(t, says.Err(Edit([]byte("# only a comment\n"), nil)), ErrEmpty, "empty document")
	if _, err := Edit([]byte("l:\n- &x {name: a}\n- *x\n"),
		map[string]any{"l": []any{"x", map[string]any{"name": "a"}}}); err == nil {
		t.Error("an anchor that an alias needs was overwritten")
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 10) + "]\n"
	}
	says.Error(t, says.Err(Decode([]byte(bomb))), "aliases unfold", "aliases of aliases")
}
