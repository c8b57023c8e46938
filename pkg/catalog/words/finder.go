// Package words finds words in many texts that do not change. An index of the four-byte parts that texts contain
// selects the few texts in which it then searches.
package words

import (
	"bytes"
	"iter"
)

// Finder finds a word in texts. For a long word it reads the pair of bytes where the word would end, and skips as far
// as the positions of this pair in the word allow (Horspool's algorithm, with pairs). So it does not read most of a
// text.
type Finder struct {
	Word []byte
	skip *[1 << pairBits]uint8 // how far to skip, by pair; nil: the word is short
}

const (
	pairBits = 12
	minSkips = 12 // bytes of a long word: bytes.Index is faster for shorter ones
)

// NewFinder makes a Finder for a word.
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

// pair returns a number for two bytes; several pairs may have the same number.
func pair(a, b byte) int { return (int(a)<<5 ^ int(b)) & (1<<pairBits - 1) }

// Index returns the position of the word in a text; -1 if it does not occur.
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

// Occurrences returns the positions of the word in a text. Words contain no newline, so a match never spans two parts
// of the text that are separated by one.
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
