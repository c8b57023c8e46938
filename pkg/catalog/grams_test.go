package catalog

import (
	"bytes"
	"fmt"
	"testing"
)

func TestGramsLeaveNothingOut(t *testing.T) {
	var b block
	for i := range blockRows {
		b.text = fmt.Appendf(b.text, "raysubmit_%08x\ntrain.py é%d\n", i*i*7919, i)
	}
	for from := 0; from < len(b.text); from += 37 {
		for _, n := range []int{1, 3, 4, 5, 18} {
			if word := b.text[from:min(from+n, len(b.text))]; !b.mayHave(word) {
				t.Fatalf("%q is not found", word)
			}
		}
	}
	passed := 0
	for i := range 1000 {
		word := fmt.Appendf(nil, "raysubmit_z%07d", i)
		if bytes.Contains(b.text, word) {
			t.Fatalf("%q is in the text", word)
		}
		if b.mayHave(word) {
			passed++
		}
	}
	if passed > 10 {
		t.Errorf("%d of 1000 words that are not there are searched for", passed)
	}
}
