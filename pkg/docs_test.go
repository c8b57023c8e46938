package pkg_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestPagesNameFiles: every file and folder of the repository that a page names is there.
func TestPagesNameFiles(t *testing.T) {
	path := regexp.MustCompile(`(?m)(?:^|[^\w./-])((?:pkg|internal|cmd|config|docs|test|scripts)/[\w./{},-]*[\w}])`)
	found := 0
	for where, page := range pages(t) {
		for _, m := range path.FindAllStringSubmatch(page, -1) {
			for _, name := range choices(m[1]) {
				found++
				// In a script the end of a name may be a variable.
				at, err := filepath.Glob("../" + name + "*")
				says.True(t, err == nil && len(at) != 0, "%s names %s, which is not there", where, name)
			}
		}
	}
	says.True(t, found >= 300, "only %d are named", found)
}

// TestPagesNameTests: every target of make, test and benchmark that the pages name is there: they are how a figure is
// measured again.
func TestPagesNameTests(t *testing.T) {
	targets := string(must.Get(os.ReadFile("../Makefile"))(t))
	tests := sources(t, "..", func(path string) bool { return strings.HasSuffix(path, "_test.go") })
	all := strings.Join(slices.Collect(maps.Values(tests)), "")
	target := regexp.MustCompile("`make ([a-z0-9-]+)(?:`| [A-Z])")
	test := regexp.MustCompile(`\b(?:Test|Benchmark)[A-Z]\w+\b`)
	found := 0
	for where, page := range pages(t) {
		for _, m := range target.FindAllStringSubmatch(page, -1) {
			if found++; !strings.Contains(targets, "\n"+m[1]+":") {
				t.Errorf("%s names make %s", where, m[1])
			}
		}
		for _, name := range test.FindAllString(page, -1) {
			if found++; !strings.Contains(all, "func "+name) {
				t.Errorf("%s names %s", where, name)
			}
		}
	}
	says.True(t, found >= 80, "only %d are named", found)
}

// sources are the Go files below a folder that a function selects.
func sources(t *testing.T, top string, selected func(path string) bool) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	must.OK(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != top && notOurs(entry.Name()):
			return fs.SkipDir
		case selected(path):
			texts[path] = string(must.Get(os.ReadFile(path))(t))
		}
		return nil
	}))
	return texts
}

// product are the Go files of the product.
func product(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, top := range []string{".", "../internal", "../cmd"} {
		maps.Copy(texts, sources(t, top, func(path string) bool {
			return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") &&
				!strings.Contains(path, "/testkit/")
		}))
	}
	return texts
}

// metricNames are the metrics of the product. Their names are written whole, or in parts of which the first is a
// constant of the file.
func metricNames(t *testing.T) []string {
	t.Helper()
	const part = `"([a-z_]+[a-z])"`
	prefix := regexp.MustCompile(`refix = "((?:rayhistory|historyserver)_[a-z_]+_)"`)
	whole := regexp.MustCompile(`"((?:rayhistory|historyserver)_[a-z_]+[a-z])"`)
	rest := regexp.MustCompile(`(?:\b(?:counter|gauge|vector)\(|refix ?\+ ?)` + part)
	var names []string
	for _, text := range product(t) {
		for _, m := range whole.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		if m := prefix.FindStringSubmatch(text); m != nil {
			for _, r := range rest.FindAllStringSubmatch(text, -1) {
				names = append(names, m[1]+r[1])
			}
		}
	}
	return names
}

// TestPagesNameMetrics: alerts, panels and pages name metrics that are there, and docs/operations.md has them all; … there
// is the beginning of the line's first name.
func TestPagesNameMetrics(t *testing.T) {
	names := metricNames(t)
	texts := pages(t)
	for _, path := range must.Get(filepath.Glob("../config/helm/files/*"))(t) {
		texts[path] = string(must.Get(os.ReadFile(path))(t))
	}
	metric := regexp.MustCompile(`\b(?:rayhistory|historyserver)_[a-z_]+`)
	short := regexp.MustCompile("`…_([a-z_]+)")
	ofHistogram := regexp.MustCompile(`_(bucket|count|sum)$`)
	named := 0
	for where, text := range texts {
		for _, name := range metric.FindAllString(text, -1) {
			named++
			says.True(t, slices.Contains(names, name) || slices.Contains(names, ofHistogram.ReplaceAllString(name, "")),
				"%s names %s, which is no metric", where, name)
		}
	}
	says.True(t, named >= 80, "only %d metrics are named", named)
	documented := make(map[string]bool)
	for line := range strings.Lines(texts["../docs/operations.md"]) {
		for _, name := range metric.FindAllString(line, -1) {
			documented[name] = true
		}
		first := metric.FindString(line)
		for _, m := range short.FindAllStringSubmatch(line, -1) {
			for i := range first {
				if first[i] == '_' {
					documented[first[:i+1]+m[1]] = true
				}
			}
		}
	}
	for _, name := range names {
		says.True(t, documented[name], "docs/operations.md does not have %s", name)
	}
}

// TestTroubleshootingQuotesMessages: the page quotes what people see, with … for what differs.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	text := strings.Join(slices.Collect(maps.Values(product(t))), "")
	for _, pattern := range []string{"web/templates/*", "server/access/*.html"} {
		for _, path := range must.Get(filepath.Glob(pattern))(t) {
			text += string(must.Get(os.ReadFile(path))(t))
		}
	}
	text = strings.NewReplacer(`\"`, `"`, "&#39;", "'", "’", "'").Replace(text)
	quoted := regexp.MustCompile("`([^`]{25,})`|\\*([^*|]{20,})\\*")
	found := 0
	for line := range strings.Lines(pages(t)["../docs/troubleshooting.md"]) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 2 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[0], -1) {
			for part := range strings.SplitSeq(strings.ReplaceAll(m[1]+m[2], ": ", "…"), "…") { // errors in errors
				if part = strings.Trim(part, " :."); len(part) < 12 {
					continue
				}
				found++
				says.True(t, strings.Contains(text, part) || saidInParts(text, part), "nothing says %q", part)
			}
		}
	}
	says.True(t, found >= 15, "only %d messages are quoted", found)
}

// saidInParts reports whether a message is one with a word put in by a format: each half of it is said.
func saidInParts(text, message string) bool {
	words := strings.Fields(message)
	for i := range words {
		before, after := strings.Join(words[:i], " "), strings.Join(words[i+1:], " ")
		if len(before)+len(after) >= len(message)/2 && strings.Contains(text, before) && strings.Contains(text, after) {
			return true
		}
	}
	return false
}
