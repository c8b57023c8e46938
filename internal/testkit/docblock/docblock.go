// Package docblock keeps the parts of pages that the code gives: those between the marks <!-- name --> and
// <!-- /name -->.
package docblock

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// Keep checks that the part of a page with this name is text. With UPDATE_DOCS=1 it writes it.
func Keep(t *testing.T, page, name, text string) {
	t.Helper()
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(string(must.Get(os.ReadFile(page))(t)), begin)
	written, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no place between %q and %q", page, begin, end)
	case written == text:
	case os.Getenv("UPDATE_DOCS") == "":
		t.Errorf("%s is not up to date: run `make docs`, or this test with UPDATE_DOCS=1", page)
	default:
		must.OK(t, os.WriteFile(page, []byte(before+begin+text+end+after), 0o644))
	}
}

var (
	helpHeading = regexp.MustCompile(`^([A-Z].*):$`)
	helpFlag    = regexp.MustCompile(`^(?:  -\w, |      )--([a-z0-9-]+)`) // descriptions are further right
)

// Flags are the names of the flags in a --help, a line for each heading of it.
func Flags(help string) string {
	var b strings.Builder
	heading := ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		if m := helpHeading.FindStringSubmatch(line); m != nil {
			heading = m[1]
		} else if m := helpFlag.FindStringSubmatch(line); m != nil {
			if heading != "" {
				b.WriteString("\n- " + heading + ":")
				heading = ""
			}
			b.WriteString(" `" + m[1] + "`")
		}
	}
	return strings.TrimPrefix(b.String(), "\n") + "\n"
}

// Names writes names as code, sorted, with spaces between them.
func Names(names []string) string {
	return "`" + strings.Join(slices.Sorted(slices.Values(names)), "` `") + "`"
}
