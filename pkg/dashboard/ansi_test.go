package dashboard

import (
	"bytes"
	"slices"
	"testing"
)

func TestANSIFilter(t *testing.T) {
	const text = "a\x1b[1;32mb\x1b[0mc\x1b[md\x1b[2Ke\x1b\x1b[31mf\x1b[(0)mg\x1b[12"
	const want = "abc\x1b[md\x1b[2Ke\x1bfg\x1b[12"
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		f := withoutColours(&b)
		for part := range slices.Chunk([]byte(text), size) {
			if _, err := f.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.flush(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Fatalf("in parts of %d: %q, want %q", size, b.String(), want)
		}
	}
}
