package jsontext

import (
	"encoding/json"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// FuzzStringEnd: eight bytes at a time find what one byte at a time finds.
func FuzzStringEnd(f *testing.F) {
	for _, s := range []string{`"`, `abc"`, `a\"b"`, `\\"`, `0123456\"`, `01234567\\\""`, `\`, "\xa2\x5c\x22",
		"\x21\x22\x23", "\x5b\x5d\x5c\x5c\x22"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := len(b)
		for i := 0; i < len(b); i++ {
			if b[i] == '\\' {
				i++
			} else if b[i] == '"' {
				want = i
				break
			}
		}
		says.Equal(t, StringEnd(b, 0), want, "StringEnd(%q)", b)
	})
}

// FuzzEscape: what encoding/json takes for an escape says the same here, and has as many bytes.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{`\n`, `\t`, `\r`, `\b`, `\f`, `\/`, `\\`, `\"`, `\u00e9`, `\uD83D\ude00`, `\ud800x`,
		`\ud800\u0041`, `\udc00\ud800`, `\u12`, `\u00g0`, `\x`, `\`, `x`, `\u+123`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, n, ok := Escape(b)
		if !ok {
			for _, n := range []int{2, 6} {
				if len(b) >= n && b[0] == '\\' && json.Valid([]byte(`"`+string(b[:n])+`"`)) {
					t.Errorf("%q is an escape", b[:n])
				}
			}
			return
		}
		must.True(t, n <= len(b) && b[0] == '\\', "Escape(%q) has %d bytes", b, n)
		var want string
		err := json.Unmarshal([]byte(`"`+string(b[:n])+`"`), &want)
		says.True(t, err == nil && want == string(r), "Escape(%q) = %q, want %q (%v)", b, r, want, err)
	})
}
