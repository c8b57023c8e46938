package pkg_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

// notOurs says which folders hold what is fetched or made.
func notOurs(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "node_modules" || folder == "build"
}

// pages are the Markdown files, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // a build or a test goes on beside this one
			return nil
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && notOurs(entry.Name()):
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" && !strings.Contains(path, "testdata") {
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		}
		return nil
	})
	must.OK(t, err)
	return texts
}

// TestLinks: links between the Markdown files lead to a file, and to a heading in it.
func TestLinks(t *testing.T) {
	texts := pages(t)
	for path, text := range texts {
		texts[path] = fenced.ReplaceAllString(text, "")
	}
	checked := 0
	for path, text := range texts {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, ":") {
				continue // another site's
			}
			checked++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, found[1])
			} else if anchor != "" && !hasHeading(texts[to], anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, found[1])
			}
		}
	}
	says.True(t, checked >= 50, "only %d links were found", checked)
}

// hasHeading says whether a heading has an anchor: its words in small letters, joined by "-".
func hasHeading(text, anchor string) bool {
	for _, found := range heading.FindAllStringSubmatch(text, -1) {
		words := regexp.MustCompile(`[^\pL\pN\- _]`).ReplaceAllString(strings.ToLower(found[1]), "")
		if strings.ReplaceAll(words, " ", "-") == anchor {
			return true
		}
	}
	return false
}
