package jsontext

import "testing"

// FuzzStringEnd: eight bytes at a time find what one byte at a time finds.
func FuzzStringEnd(f *testing.F) {
	for _, s := range []string{`"`, `abc"`, `a\"b"`, `\\"`, `0123456\"`, `01234567\\\""`, `\`, "\xa2\x5c\x22",
		"\x21\x22\x23", "\x5b\x5d\x5c\x5c\x22"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := -1
		for i := 0; i < len(b); i++ {
			if b[i] == '\\' {
				i++
			} else if b[i] == '"' {
				want = i
				break
			}
		}
		if got := StringEnd(b, 0); got != want {
			t.Errorf("StringEnd(%q) = %d, want %d", b, got, want)
		}
	})
}
