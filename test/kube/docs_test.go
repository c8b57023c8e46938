package kube_test

import (
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
	checked := 0
	check := func(where, flag string, exists bool) {
		t.Helper()
		checked++
		if !exists && !slices.Contains(theirs, flag) {
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
	for where, content := range files(t, "README.md", "docs/*.md", "docs/kubernetes/*.md", "config/*.yaml",
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
