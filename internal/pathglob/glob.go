// Package pathglob matches paths against patterns like those of Python's Path.glob. Its time is bounded also for
// hostile patterns.
package pathglob

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	// ErrForm says that a glob is empty or absolute, or has "..".
	ErrForm = errors.New("want a relative path below the folder")
	// ErrLong says that a glob has more than MaxLength bytes or MaxWildcards wildcards.
	ErrLong = errors.New("the pattern is too long")
)

// Names of logs are at most some hundred characters long, so longer globs match nothing. Matching takes time as the
// product of the lengths of name and glob.
const (
	MaxLength    = 1024
	MaxWildcards = 64
)

// Glob is a pattern of paths, as Python's Path.glob has them: * and ? within a name, [sets], and ** for any folders.
type Glob struct {
	parts []pattern
	// FoldersOnly says that the pattern ends in **, which is for folders.
	FoldersOnly bool
}

// pattern is the pattern of one name of a path.
type pattern struct {
	anyNames bool // **: any number of names
	items    []item
}

// item matches any number of characters, or one of a set: that are in ranges or, with not, in none of them.
type item struct {
	star   bool
	not    bool
	ranges [][2]rune
}

// Parse parses a pattern of relative paths. The error is ErrForm or ErrLong. As in Python, "." and empty names have no
// effect, and several ** in a row are as one.
func Parse(text string) (*Glob, error) {
	if text == "" || path.IsAbs(text) || slices.Contains(strings.Split(text, "/"), "..") {
		return nil, ErrForm
	}
	if len(text) > MaxLength || strings.Count(text, "*")+strings.Count(text, "?")+
		strings.Count(text, "[") > MaxWildcards {
		return nil, ErrLong
	}
	g := &Glob{FoldersOnly: strings.HasSuffix(text, "**")}
	for part := range strings.SplitSeq(text, "/") {
		switch part {
		case "", ".":
		case "**":
			if n := len(g.parts); n == 0 || !g.parts[n-1].anyNames {
				g.parts = append(g.parts, pattern{anyNames: true})
			}
		default:
			g.parts = append(g.parts, pattern{items: parseItems(part)})
		}
	}
	return g, nil
}

// parseItems parses the pattern of one part of a path. A bracket that is not closed stands for the character itself.
func parseItems(part string) (items []item) {
	for part != "" {
		c, size := utf8.DecodeRuneInString(part)
		rest := part[size:]
		switch c {
		case '*':
			if n := len(items); n == 0 || !items[n-1].star {
				items = append(items, item{star: true})
			}
		case '?':
			items = append(items, item{not: true})
		case '[':
			set, not := strings.CutPrefix(rest, "!")
			end := 0 // where the closing bracket is; a bracket at 0 is one of the set's characters
			if set != "" {
				end = strings.IndexByte(set[1:], ']') + 1
			}
			if end == 0 {
				items = append(items, item{ranges: [][2]rune{{c, c}}})
				break
			}
			items = append(items, item{not: not, ranges: parseRanges(set[:end])})
			rest = set[end+1:]
		default:
			items = append(items, item{ranges: [][2]rune{{c, c}}})
		}
		part = rest
	}
	return items
}

// parseRanges parses what is between the brackets of a set: characters, and ranges such as a-z.
func parseRanges(text string) (ranges [][2]rune) {
	for chars := []rune(text); len(chars) > 0; {
		if len(chars) > 2 && chars[1] == '-' {
			ranges = append(ranges, [2]rune{chars[0], chars[2]})
			chars = chars[3:]
			continue
		}
		ranges = append(ranges, [2]rune{chars[0], chars[0]})
		chars = chars[1:]
	}
	return ranges
}

func (i item) matches(c rune) bool {
	return i.not != slices.ContainsFunc(i.ranges, func(r [2]rune) bool { return r[0] <= c && c <= r[1] })
}

// Matches says whether the pattern matches a path, which is relative and clean.
func (g *Glob) Matches(p string) bool {
	names := strings.Split(p, "/")
	if len(g.parts) == 0 {
		return false // the pattern was ".": the folder itself, which is no path below it
	}
	parts, elements := len(g.parts), len(names)
	open := g.parts[parts-1].anyNames
	if open {
		// ** at the end matches what is below a folder, not the folder itself: at least the last name is left to it.
		parts, elements = parts-1, elements-1
	}
	return matchItems(parts, elements, func(i int) bool { return g.parts[i].anyNames },
		func(i, n int) bool { return g.parts[i].matches(names[n]) }, open)
}

func (p pattern) matches(name string) bool {
	chars := []rune(name)
	return matchItems(len(p.items), len(chars), func(i int) bool { return p.items[i].star },
		func(i, n int) bool { return p.items[i].matches(chars[n]) }, false) // the whole name
}

// matchItems says whether a pattern matches a text. items and elements are how many items the pattern and how many
// elements the text has. star says which items match any number of elements, and matches whether one of the others
// matches an element. With open it is enough that the pattern matches the text's beginning. Of several stars only the
// last one met is ever tried again: what was before it matches as early as it can, which leaves the most to what
// follows.
func matchItems(items, elements int, star func(item int) bool, matches func(item, element int) bool, open bool) bool {
	i, n := 0, 0
	lastStar, starEnd := -1, 0 // the last star met, and the element before which its match is tried to end
	for {
		switch {
		case i == items && (n == elements || open):
			return true
		case i < items && star(i):
			lastStar, starEnd = i, n
			i++
			continue
		case i < items && n < elements && matches(i, n):
			i++
			n++
			continue
		}
		if lastStar < 0 || starEnd >= elements {
			return false
		}
		starEnd++ // the star takes one more
		i, n = lastStar+1, starEnd
	}
}
