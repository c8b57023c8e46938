package logs

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	errGlob     = errors.New("glob leaves the logs folder")
	errLongGlob = errors.New("glob is too long")
)

// Names of logs are at most some hundred characters long, so longer globs match nothing. Matching takes time as the product of the lengths
// of name and glob.
const (
	maxGlob      = 1024
	maxWildcards = 64
)

// glob is a pattern of paths, as Python's Path.glob has them: * and ? within a name, [sets], and ** for any folders.
type glob struct {
	parts []globPart
	// foldersOnly says that the pattern ends in **, which is for folders.
	foldersOnly bool
}

// globPart is the pattern of one name of a path.
type globPart struct {
	anyNames bool // **: any number of names
	items    []globItem
}

// globItem matches one character, or any number of them.
type globItem struct {
	star bool // any number
	one  bool // any character
	char rune
	set  *globSet
}

// globSet is a set of characters, [a-z] or [!a-z].
type globSet struct {
	not    bool
	ranges [][2]rune
}

func parseGlob(text string) (*glob, error) {
	if text == "" || path.IsAbs(text) || slices.Contains(strings.Split(text, "/"), "..") {
		return nil, errGlob
	}
	if len(text) > maxGlob || strings.Count(text, "*")+strings.Count(text, "?")+strings.Count(text, "[") > maxWildcards {
		return nil, errLongGlob
	}
	g := &glob{foldersOnly: strings.HasSuffix(text, "**")}
	for part := range strings.SplitSeq(text, "/") {
		switch part {
		case "", ".":
		case "**":
			if n := len(g.parts); n == 0 || !g.parts[n-1].anyNames {
				g.parts = append(g.parts, globPart{anyNames: true})
			}
		default:
			g.parts = append(g.parts, globPart{items: globItems(part)})
		}
	}
	return g, nil
}

func globItems(part string) (items []globItem) {
	for part != "" {
		c, size := utf8.DecodeRuneInString(part)
		rest := part[size:]
		switch c {
		case '*':
			if n := len(items); n == 0 || !items[n-1].star {
				items = append(items, globItem{star: true})
			}
		case '?':
			items = append(items, globItem{one: true})
		case '[':
			// A bracket that is the first in a set is one of its characters.
			from := strings.TrimPrefix(rest, "!")
			end := -1
			if from != "" {
				end = strings.IndexByte(from[1:], ']') + 1
			}
			if end < 1 {
				items = append(items, globItem{char: c})
				break
			}
			items = append(items, globItem{set: newGlobSet(from[:end], len(from) < len(rest))})
			rest = from[end+1:]
		default:
			items = append(items, globItem{char: c})
		}
		part = rest
	}
	return items
}

func newGlobSet(text string, not bool) *globSet {
	s := &globSet{not: not}
	for chars := []rune(text); len(chars) > 0; {
		if len(chars) > 2 && chars[1] == '-' {
			s.ranges = append(s.ranges, [2]rune{chars[0], chars[2]})
			chars = chars[3:]
			continue
		}
		s.ranges = append(s.ranges, [2]rune{chars[0], chars[0]})
		chars = chars[1:]
	}
	return s
}

func (s *globSet) has(c rune) bool {
	return s.not != slices.ContainsFunc(s.ranges, func(r [2]rune) bool { return r[0] <= c && c <= r[1] })
}

func (i globItem) matches(c rune) bool {
	return i.one || i.set != nil && i.set.has(c) || i.set == nil && i.char == c
}

// matches says whether a path is one that the pattern is for.
func (g *glob) matches(p string) bool {
	names := strings.Split(p, "/")
	if len(g.parts) == 0 {
		return false // "." is none of what is below
	}
	parts, below := len(g.parts), len(names)
	open := g.parts[parts-1].anyNames
	if open {
		// ** at the end is for what is below, not for the folder itself.
		parts, below = parts-1, below-1
	}
	return matchRuns(parts, below, func(i int) bool { return g.parts[i].anyNames }, func(i, n int) bool { return g.parts[i].matches(names[n]) }, open)
}

func (p globPart) matches(name string) bool {
	chars := []rune(name)
	return matchRuns(len(p.items), len(chars), func(i int) bool { return p.items[i].star }, func(i, n int) bool { return p.items[i].matches(chars[n]) }, false)
}

// matchRuns says whether a pattern matches a text, given their numbers of items and elements. Star items match any number of elements. With
// open it is enough that it matches a beginning of the text. Of several stars only the last one met is ever tried again: what was before it
// matches as early as it can, which leaves the most to what follows.
func matchRuns(items, elements int, star func(item int) bool, matches func(item, element int) bool, open bool) bool {
	i, n := 0, 0
	again, from := -1, 0 // the last star met, and the element it is tried up to
	for {
		switch {
		case i == items && (n == elements || open):
			return true
		case i < items && star(i):
			again, from = i, n
			i++
			continue
		case i < items && n < elements && matches(i, n):
			i++
			n++
			continue
		}
		if again < 0 || from >= elements {
			return false
		}
		from++
		i, n = again+1, from
	}
}
