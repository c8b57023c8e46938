package redact

// finder looks for many literals in one pass, as Wu and Manber do ("A fast algorithm for multi-pattern searching",
// 1994): the last two bytes of a window say how far the next literal's beginning is at least. Longer literals make
// longer steps. ASCII letters match in either case.
type finder struct {
	window   int // bytes: of the shortest literal
	steps    [blocks]uint8
	literals [blocks][]wanted // by the last two bytes of their first window bytes
}

type wanted struct {
	text  string
	rules uint64
}

const blocks = 1 << 14

// block is the index of two neighbouring bytes. Several pairs may share one.
func block(a, b byte) uint { return (uint(a)<<6 ^ uint(b)) % blocks }

// newFinder makes a finder of literals in lower case, each of at least two bytes, and of the rules that need them.
func newFinder(literals map[string]uint64) *finder {
	f := &finder{window: 255}
	for text := range literals {
		f.window = min(f.window, len(text))
	}
	for i := range f.steps {
		f.steps[i] = uint8(f.window - 1)
	}
	for text, rules := range literals {
		for i := 1; i < f.window; i++ {
			for _, a := range cases(text[i-1]) {
				for _, b := range cases(text[i]) {
					at := block(a, b)
					step := f.window - 1 - i
					f.steps[at] = min(f.steps[at], uint8(step))
					if step == 0 {
						f.add(at, wanted{text, rules})
					}
				}
			}
		}
	}
	return f
}

// add adds a literal to a block, unless it is there: a letter's two cases may share a block.
func (f *finder) add(at uint, w wanted) {
	for _, other := range f.literals[at] {
		if other.text == w.text {
			return
		}
	}
	f.literals[at] = append(f.literals[at], w)
}

// cases are a lower-case byte and its capital letter, if it has one.
func cases(c byte) []byte {
	if c >= 'a' && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// next returns where the first literal at or after from begins, and the rules of the literals there; len(b) if there is
// none. A nil finder finds none.
func (f *finder) next(b []byte, from int) (at int, rules uint64) {
	if f == nil {
		return len(b), 0
	}
	for i := from + f.window - 1; i < len(b); {
		block := block(b[i-1], b[i])
		if step := f.steps[block]; step > 0 {
			i += int(step)
			continue
		}
		start := i - f.window + 1
		for _, w := range f.literals[block] {
			if begins(b[start:], w.text) {
				rules |= w.rules
			}
		}
		if rules != 0 {
			return start, rules
		}
		i++
	}
	return len(b), 0
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
