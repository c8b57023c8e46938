package strictyaml

import "testing"

import "github.com/rayhistory/historyserver/internal/testkit/says"

func TestDecode(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1":                 "",
		"":                     "",
		"---\na: 1\n---\n":     "",
		"a: 1\n---\n# no more": "",
		"a: 1\n---\na: 2":      "another document follows after ---: want one document with all rules",
		"---\n---\na: 2":       "another document follows after ---: want one document with all rules",
		"a: 1\n---\n}broken":   "another document follows after ---: want one document with all rules",
		"a: 1\n---\n---\na: 2": "another document follows after ---: want one document with all rules",
		"b: 1":                 `line 1: unknown name "b"`,
		"b: 1\na: x":           `line 1: unknown name "b"; line 2: want a number, not ` + "`x`",
		"a: {x: 1}":            "line 1: want a number, not names with values",
		"- 1":                  "line 1: want names with values, not a list",
		"rules: x":             "line 1: want a list, not `x`",
		"rules: [x]":           "line 1: want names with values, not `x`",
		"on: 7":                "line 1: want true or false, not `7`",
		"name: []":             "line 1: want a text, not a list",
	} {
		var file struct {
			A     int
			Rules []struct{ B bool }
			On    bool
			Name  string
		}
		got := ""
		if err := Decode([]byte(text), &file, "rules"); err != nil {
			got = err.Error()
		}
		says.Equal(t, got, want, "%q", text)
	}
}
