package catalog

import (
	"bytes"
	"fmt"
	"math/bits"
	"testing"
)

func TestGramsLeaveNothingOut(t *testing.T) {
	var b block
	for i := range blockRows {
		b.text = append(b.text, "a cause\n"...)
		b.text = fmt.Appendf(b.text, "raysubmit_%08x\ntrain.py é%d\n", i*i*7919, i)
		b.rows = append(b.rows, row{causeLen: uint16(len("a cause")), textEnd: uint32(len(b.text))})
	}
	every := 0
	for i := range b.rows {
		text := b.text[b.nameFrom(i):b.rows[i].textEnd]
		for _, n := range []int{1, 3, 4, 5, 18} {
			word := text[i%5 : min(i%5+n, len(text))]
			groups := b.groups(word)
			if groups&(1<<(i/groupRows)) == 0 {
				t.Fatalf("%q of row %d is searched in %b", word, i, groups)
			}
			every += boolToInt(groups == ^uint32(0))
		}
	}
	if every == 5*len(b.rows) {
		t.Error("each word is searched everywhere")
	}
	passed := 0
	for i := range 1000 {
		word := fmt.Appendf(nil, "raysubmit_z%07d", i)
		if bytes.Contains(b.text, word) {
			t.Fatalf("%q is in the text", word)
		}
		passed += bits.OnesCount32(b.groups(word))
	}
	if passed > 10*32 {
		t.Errorf("1000 words that are not there are searched for in %d groups", passed)
	}
}
