// Package words finds words in many texts that do not change. An index of the four-byte parts that texts contain selects the few texts in
// which it then searches.
package words

import (
	"bytes"
	"iter"
)

// Finder finds a word in texts. Of a long one it looks at the pair of bytes where the word would end, and skips as far as no place of that pair in the
// word allows it (Horspool's algorithm, with pairs): most of a text is not looked at.
type Finder struct {
	Word []byte
	skip *[1 << pairBits]uint8 // by pair; nil: the word is short
}

const (
	pairBits = 12
	minSkips = 12 // bytes of a long word: bytes.Index finds shorter ones sooner
)

// NewFinder makes one for a word.
func NewFinder(word string) Finder {
	f := Finder{Word: []byte(word)}
	if len(word) < minSkips {
		return f
	}
	f.skip = new([1 << pairBits]uint8)
	for i := range f.skip {
		f.skip[i] = uint8(min(len(word)-1, 255))
	}
	for i := 1; i < len(word); i++ {
		f.skip[pair(word[i-1], word[i])] = uint8(min(len(word)-1-i, 255))
	}
	return f
}

// pair is a number for two bytes, of which several may have the same.
func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) & (1<<pairBits - 1) }

// Index returns the place of the word in a text; -1 if it has none.
func (f *Finder) Index(text []byte) int {
	if f.skip == nil {
		return bytes.Index(text, f.Word)
	}
	for end := len(f.Word) - 1; end < len(text); {
		skip := int(f.skip[pair(text[end-1], text[end])])
		if skip == 0 {
			if from := end + 1 - len(f.Word); bytes.Equal(text[from:end+1], f.Word) {
				return from
			}
			skip = 1
		}
		end += skip
	}
	return -1
}

// Occurrences returns the places of the word in a text. Words have no newline, and parts of the text that end in one are told apart by that.
func (f *Finder) Occurrences(text []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		for from := 0; ; {
			i := f.Index(text[from:])
			if i < 0 || !yield(from+i) {
				return
			}
			from += i + 1
		}
	}
}
