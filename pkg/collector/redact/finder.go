package redact

// finder looks for many literals in one pass. Each of them has a pair of neighbouring bytes at every stride-th place of
// the data, wherever it begins, so only the pairs there are looked up. ASCII letters match in either case.
type finder struct {
	stride int
	marked [pairs]bool
	wanted [pairs][]wanted // literals by their first stride pairs
}

// wanted is a literal that has a pair at an offset.
type wanted struct {
	text   string
	offset int
	rules  uint64
}

const (
	pairs = 1 << 14
	// maxStride bounds the pairs of a literal that are marked: with more, common pairs are among them.
	maxStride = 4
)

// pair is the index of two neighbouring bytes. Several pairs may share one.
func pair(a, b byte) uint { return (uint(a)<<6 ^ uint(b)) % pairs }

// newFinder makes a finder of literals in lower case, each of at least two bytes, and of the rules that need them.
func newFinder(literals map[string]uint64) *finder {
	f := &finder{stride: maxStride}
	for text := range literals {
		f.stride = min(f.stride, len(text)-1)
	}
	for text, rules := range literals {
		for offset := range f.stride {
			indexes := make(map[uint]bool) // a letter's two cases may share one
			for _, a := range cases(text[offset]) {
				for _, b := range cases(text[offset+1]) {
					indexes[pair(a, b)] = true
				}
			}
			for i := range indexes {
				f.marked[i] = true
				f.wanted[i] = append(f.wanted[i], wanted{text, offset, rules})
			}
		}
	}
	return f
}

// cases are a lower-case byte and its capital letter, if it has one.
func cases(c byte) []byte {
	if c >= 'a' && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// next returns where a literal at or after from begins, and the rules of the literals around it; len(b) if there is
// none. No literal is in an earlier line. A nil finder finds none.
func (f *finder) next(b []byte, from int) (at int, rules uint64) {
	at = len(b)
	if f == nil {
		return at, 0
	}
	stride, marked := f.stride, &f.marked
	for i := from + stride - 1; i >= 0 && i < len(b)-1; i += stride {
		pair := pair(b[i], b[i+1])
		if !marked[pair] {
			continue
		}
		for _, w := range f.wanted[pair] {
			if start := i - w.offset; start >= from && begins(b[start:], w.text) {
				at, rules = min(at, start), rules|w.rules
			}
		}
		if rules != 0 {
			return at, rules
		}
	}
	return at, 0
}

// rules returns the rules that have a literal in b.
func (f *finder) rules(b []byte) (rules uint64) {
	for at, found := f.next(b, 0); found != 0; at, found = f.next(b, at+1) {
		rules |= found
	}
	return rules
}

// begins says whether b begins with a text in lower case.
func begins(b []byte, text string) bool {
	if len(b) < len(text) {
		return false
	}
	for i := range len(text) {
		c := b[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != text[i] {
			return false
		}
	}
	return true
}
