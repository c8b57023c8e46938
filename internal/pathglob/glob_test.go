package pathglob

import (
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// matchesByHand is what a glob means, tried in all ways there are.
func matchesByHand(glob, text string) bool {
	switch {
	case glob == "**":
		return text != ""
	case strings.HasPrefix(glob, "**/"):
		for rest := text; ; {
			if matchesByHand(glob[3:], rest) {
				return true
			}
			var more bool
			if _, rest, more = strings.Cut(rest, "/"); !more {
				return false
			}
		}
	}
	part, glob, more := strings.Cut(glob, "/")
	name, text, below := strings.Cut(text, "/")
	return more == below && nameByHand(part, name) && (!more || matchesByHand(glob, text))
}

func nameByHand(part, name string) bool {
	if part == "" {
		return name == ""
	}
	if part[0] == '*' {
		for rest := name; ; {
			if nameByHand(part[1:], rest) {
				return true
			}
			if rest == "" {
				return false
			}
			_, size := utf8.DecodeRuneInString(rest)
			rest = rest[size:]
		}
	}
	if name == "" {
		return false
	}
	c, size := utf8.DecodeRuneInString(name)
	p, patternSize := utf8.DecodeRuneInString(part)
	name = name[size:]
	if p == '[' {
		start := 1
		if strings.HasPrefix(part[1:], "!") {
			start++
		}
		if end := strings.Index(part[min(start+1, len(part)):], "]"); end >= 0 {
			end += start + 1
			return setByHand([]rune(part[start:end]), c) == (start == 1) && nameByHand(part[end+1:], name)
		}
	}
	return (p == '?' || p == c) && nameByHand(part[patternSize:], name)
}

func setByHand(set []rune, c rune) bool {
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			if set[i] <= c && c <= set[i+2] {
				return true
			}
			i += 2
		} else if set[i] == c {
			return true
		}
	}
	return false
}

// FuzzGlob: the matcher finds what trying all ways finds.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"*", "raylet.out"}, {"**", "a/b"}, {"a/**", "a"}, {"**/*.log", "events/x/event_GCS.log"},
		{"w*[0-9].o?t", "worker-1.out"}, {"[!a-c]*", "d"}, {"[]a]", "]"},
		{"[!]]", "x"}, {"[", "["}, {"[a-", "[a-"}, {"a*b*c", "aXbXbXc"}, {"**/a/**/b", "a/x/a/y/b"},
		{"**/a/**", "x/a/y"}, {"[z-a]", "z"}, {"ü?", "üx"}, {"a\\*", "a\\b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, glob, text string) {
		if len(glob) > 12 || len(text) > 12 || !utf8.ValidString(glob) || !utf8.ValidString(text) || text == "" ||
			path.Clean("/"+text) != "/"+text {
			return // trying all ways takes long
		}
		g, err := Parse(glob)
		if err != nil {
			return
		}
		clean := strings.TrimPrefix(path.Clean("/"+glob), "/")
		got, want := g.Matches(text), clean != "" && matchesByHand(clean, text)
		says.True(t, got == want, "%q matches %q: %t, want %t", glob, text, got, want)
	})
}
