package kube_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// files reads all files of the repository that match patterns, by path.
func files(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			data := must.Get(os.ReadFile(path))(t)
			found[strings.TrimPrefix(path, repository+"/")] = string(data)
		}
	}
	return found
}

var (
	flagPattern    = regexp.MustCompile(`(?:^|[\s"'\[(])--([a-z][a-z0-9-]+)`)
	spanPattern    = regexp.MustCompile("`([^`]+)`")
	commandPattern = regexp.MustCompile(`^(collector|historyserver)( [a-z][a-z-]+)?\b`)
)

// flags are those of our commands as their help tells, by command, such as "collector inject".
type flags map[string]map[string]bool

// of returns the flags of a command, with those that say where sessions are stored, which have a page of their own.
func (f flags) of(t *testing.T, command string) map[string]bool {
	t.Helper()
	if f[command] == nil {
		words, text := strings.Fields(command), ""
		for _, arguments := range [][]string{append(words[1:], "--help"), {"help", "storage"}} {
			out, err := exec.Command(binary(t, words[0]), arguments...).Output()
			if err != nil {
				t.Fatal(command, err)
			}
			text += string(out)
		}
		if !strings.Contains(text, command+" ") {
			t.Errorf("there is no %s", command)
		}
		f[command] = map[string]bool{}
		for _, m := range flagPattern.FindAllStringSubmatch(text, -1) {
			f[command][m[1]] = true
		}
	}
	return f[command]
}

// commonFlags are those of the commands that manifests and the chart run.
func commonFlags(t *testing.T) flags {
	t.Helper()
	f := flags{}
	for _, command := range []string{"collector", "collector inject", "historyserver serve", "historyserver webhook"} {
		f.of(t, command)
	}
	return f
}

// any reports whether a command has a flag, of those that were asked for.
func (f flags) any(name string) bool {
	for _, of := range f {
		if of[name] {
			return true
		}
	}
	return false
}

// ours are the pieces of a page that tell of our commands: what is quoted in the text, and lines of scripts.
func ours(page string) (pieces []string) {
	var text strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(page, "\\\n", "")) {
		if !strings.HasPrefix(line, "    ") {
			text.WriteString(line)
			continue
		}
		for command := range strings.SplitSeq(line, "|") {
			if command = strings.TrimSpace(command); commandPattern.MatchString(command) {
				pieces = append(pieces, command)
			}
		}
	}
	for _, m := range spanPattern.FindAllStringSubmatch(text.String(), -1) {
		if span := m[1]; strings.HasPrefix(span, "--") || commandPattern.MatchString(span) {
			pieces = append(pieces, span)
		}
	}
	return pieces
}

// Every command, flag and variable of ours that the pages and manifests name is one.
func TestDocsNameFlagsThatExist(t *testing.T) {
	known := commonFlags(t)
	// gcloud's, az', Helm's, Ray's and our test programs'
	theirs := []string{"workload-pool", "enable-oidc-issuer", "enable-workload-identity", "post-renderer", "temp-dir",
		"proxy-server-url", "log-to-driver", "address", "judge", "help"}
	gone := []string{"event-fsync", "event-fsync-interval", "layout"} // docs/upgrade.md says so
	checked := 0
	check := func(where, flag string, exists bool) {
		t.Helper()
		checked++
		if !exists && !slices.Contains(theirs, flag) &&
			!(where == "docs/upgrade.md" && slices.Contains(gone, flag)) {
			t.Errorf("%s names --%s, which is no flag", where, flag)
		}
	}
	pages := files(t, "README.md", "CONTRIBUTING.md", "docs/*.md", "docs/kubernetes/*.md", "config/helm/*.md")
	for where, page := range pages {
		for _, piece := range ours(page) {
			if command := commandPattern.FindString(piece); command != "" {
				if command == "historyserver" {
					command += " serve"
				}
				of := known.of(t, command)
				for _, m := range flagPattern.FindAllStringSubmatch(piece, -1) {
					check(where+" by "+piece, m[1], of[m[1]])
				}
			}
		}
	}
	for where, page := range pages {
		for _, piece := range ours(page) {
			if strings.HasPrefix(piece, "--") {
				for _, m := range flagPattern.FindAllStringSubmatch(piece, -1) {
					check(where, m[1], known.any(m[1]))
				}
			}
		}
	}
	manifests := files(t, "config/*.yaml", "config/*/*.yaml", "config/*/*/*.yaml")
	for where, manifest := range manifests {
		if base := filepath.Base(where); base == "minio.yaml" || base == "azurite.yaml" {
			continue // other programs' arguments
		}
		for line := range strings.Lines(manifest) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for _, m := range flagPattern.FindAllStringSubmatch(line, -1) {
				check(where, m[1], known.any(m[1]))
			}
		}
	}
	variable := regexp.MustCompile(`RAYHISTORY_[A-Z0-9_]+`)
	for where, content := range files(t, "docs/kubernetes/*.md", "docs/operations.md", "config/*.yaml",
		"config/*/*.yaml", "config/*/*/*.yaml") {
		for _, name := range variable.FindAllString(content, -1) {
			flag := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, "RAYHISTORY_"), "_", "-"))
			check(where+" by "+name, flag, known.any(flag))
		}
	}
	if checked < 80 {
		t.Errorf("only %d flags were found", checked)
	}
	t.Logf("%d flags", checked)
}

// Every target of make, test and benchmark that the pages name is there: they are how a figure is measured again.
func TestDocsNameTestsThatExist(t *testing.T) {
	targets := files(t, "Makefile")["Makefile"]
	tests := ""
	must.OK(t, filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.Name() == "node_modules":
			return fs.SkipDir
		case err == nil && strings.HasSuffix(path, "_test.go"):
			tests += string(must.Get(os.ReadFile(path))(t))
		}
		return err
	}))
	target := regexp.MustCompile("`make ([a-z0-9-]+)(?:`| [A-Z])")
	test := regexp.MustCompile(`\b(?:Test|Benchmark)[A-Z]\w+\b`)
	found := 0
	for where, page := range files(t, "*.md", "docs/*.md", "docs/*/*.md") {
		for _, m := range target.FindAllStringSubmatch(page, -1) {
			if found++; !strings.Contains(targets, "\n"+m[1]+":") {
				t.Errorf("%s names make %s", where, m[1])
			}
		}
		for _, name := range test.FindAllString(page, -1) {
			if found++; !strings.Contains(tests, "func "+name) {
				t.Errorf("%s names %s", where, name)
			}
		}
	}
	if found < 80 {
		t.Errorf("only %d are named", found)
	}
}

// Every file and page that the pages send people to is there.
func TestDocsNameFilesThatExist(t *testing.T) {
	path := regexp.MustCompile(`\b(?:config|docs|test|scripts)/[A-Za-z0-9_./-]*[A-Za-z0-9_]|\]\(([^)#:]+)\)`)
	for where, page := range files(t, "docs/kubernetes/*.md") {
		for _, m := range path.FindAllStringSubmatch(page, -1) {
			file := m[0]
			if m[1] != "" {
				file = filepath.Join(filepath.Dir(where), m[1])
			}
			// In a script the end of a name may be a variable.
			if found, err := filepath.Glob(filepath.Join(repository, file) + "*"); err != nil || len(found) == 0 {
				t.Errorf("%s names %s, which is not there", where, file)
			}
		}
	}
}

// literals are the words in quotes of each Go file that is no test.
func literals(t *testing.T) (sources map[string][]string, all string) {
	t.Helper()
	word := regexp.MustCompile(`"([a-z_]+)"`)
	sources = map[string][]string{}
	var text strings.Builder
	for _, dir := range []string{"pkg", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range word.FindAllStringSubmatch(string(data), -1) {
				sources[path] = append(sources[path], m[1])
			}
			text.Write(data)
			return err
		})
		must.OK(t, err)
	}
	return sources, text.String()
}

// Alerts, panels and pages name metrics that are there. A name is one word of a source file, or a prefix and the rest
// of it.
func TestMonitoringNamesMetricsThatExist(t *testing.T) {
	sources, _ := literals(t)
	exists := func(name string) bool {
		for _, words := range sources {
			for _, word := range words {
				if rest, ok := strings.CutPrefix(name, word); ok &&
					(rest == "" || strings.HasSuffix(word, "_") && slices.Contains(words, rest)) {
					return true
				}
			}
		}
		return false
	}
	metric := regexp.MustCompile(`\b(?:rayhistory|historyserver)_[a-z_]+`)
	names := map[string]bool{}
	for where, content := range files(t, "config/helm/files/*", "docs/kubernetes/*.md", "docs/operations.md") {
		for _, name := range metric.FindAllString(content, -1) {
			names[name] = true
			histogram := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			if !exists(name) && !exists(histogram) {
				t.Errorf("%s names %s, which is no metric", where, name)
			}
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d metrics are named", len(names))
	}
	t.Logf("%d metrics", len(names))
}

// Troubleshooting quotes what people see: messages of ours, with … for what differs.
func TestTroubleshootingQuotesMessages(t *testing.T) {
	_, text := literals(t)
	for _, dir := range []string{"pkg/web/templates/*", "pkg/server/access/*.html"} {
		for _, content := range files(t, dir) {
			text += content
		}
	}
	text = strings.NewReplacer(`\"`, `"`, "&#39;", "'", "’", "'").Replace(text)
	quoted := regexp.MustCompile("`([^`]{25,})`|\\*([^*|]{20,})\\*")
	found := 0
	for line := range strings.Lines(files(t,
		"docs/kubernetes/troubleshooting.md")["docs/kubernetes/troubleshooting.md"]) {
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
				if !strings.Contains(text, part) && !saidInParts(text, part) {
					t.Errorf("nothing says %q", part)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("only %d messages are quoted", found)
	}
	t.Logf("%d quotes", found)
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
