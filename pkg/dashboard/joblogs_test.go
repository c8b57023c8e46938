package dashboard

import (
	"bytes"
	"slices"
	"testing"
)

func TestJobLogText(t *testing.T) {
	const text = "a\r\nb\rc\n\"ü€😀\" \xff\x1b[0m\r"
	const want = `a\nb\nc\n\"\u00fc\u20ac\ud83d\ude00\" \ufffd\u001b[0m\n`
	for size := 1; size <= len(text); size++ {
		var b bytes.Buffer
		j := jsonString(&b)
		for part := range slices.Chunk([]byte(text), size) {
			if _, err := j.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.flush(); err != nil || b.String() != want {
			t.Fatalf("in parts of %d: %s, %v, want %s", size, b.String(), err, want)
		}
	}
}
