package words

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestFinder: it finds the first place of a word, as bytes.Index does.
func TestFinder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	letters := func(n, of int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("ab\n\xff_0"[random.IntN(of)])
		}
		return b.String()
	}
	for range 20_000 {
		of := 1 + random.IntN(6)
		text, word := letters(random.IntN(400), of), letters(1+random.IntN(20), of)
		if from := random.IntN(len(text) + 1); random.IntN(2) == 0 {
			text = text[:from] + word + text[from:]
		}
		f := NewFinder(word)
		if got, want := f.Index([]byte(text)), strings.Index(text, word); got != want {
			t.Fatalf("%q in %q: %d, want %d", word, text, got, want)
		}
	}
	long := bytes.Repeat([]byte("ab"), 1000)
	f := NewFinder(string(long[:600]))
	if at := f.Index(append([]byte("b"), long...)); at != 1 {
		t.Errorf("a long word: %d", at)
	}
}
