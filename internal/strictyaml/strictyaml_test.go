package strictyaml

import "testing"

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
		"b: 1\na: x":           `line 1: unknown name "b"; line 2: cannot unmarshal !!str ` + "`x` into int",
	} {
		var file struct{ A int }
		got := ""
		if err := Decode([]byte(text), &file, "rules"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
