// Package pkg_test compares the rooms of pkg with docs/architecture.md.
package pkg_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

const architecture = "../docs/architecture.md"

// rooms are the first column of the document's table of rooms, in its order.
func rooms(t *testing.T) (names []string) {
	t.Helper()
	text := must.Get(os.ReadFile(architecture))(t)
	_, table, ok := strings.Cut(string(text), "\n| room |")
	if !ok {
		t.Fatal("there is no table of rooms")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
	}
	return names
}

// TestRooms: the folders of pkg are the document's rooms, and a room imports only those above it. What is internal
// imports no room, except for the demo and the support of tests, which the product does not import.
func TestRooms(t *testing.T) {
	order := rooms(t)
	entries := must.Get(os.ReadDir("."))(t)
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(order, entry.Name()) {
			t.Errorf("pkg/%s is no room of %s", entry.Name(), architecture)
		}
	}
	const module = "github.com/rayhistory/historyserver/"
	imports := 0
	for _, top := range []string{"../pkg", "../internal"} {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			from := strings.Split(filepath.ToSlash(path), "/")[1:] // pkg, room, … or internal, …
			support := from[0] == "internal" && (from[1] == "testkit" || from[1] == "demo")
			for _, spec := range file.Imports {
				imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
				if !ours {
					continue
				}
				imports++
				to := strings.Split(imported, "/")
				switch {
				case support:
				case strings.HasPrefix(imported, "internal/testkit/"):
					t.Errorf("%s imports %s: the product imports no support of tests", path, imported)
				case from[0] == "internal" && to[0] == "pkg":
					t.Errorf("%s imports %s: what is internal imports no room", path, imported)
				case from[0] == "pkg" && to[0] == "pkg" && slices.Index(order, to[1]) > slices.Index(order, from[1]):
					t.Errorf("%s imports %s, which is below it in %s", path, imported, architecture)
				}
			}
			return nil
		})
		must.OK(t, err)
	}
	if imports < 100 {
		t.Errorf("only %d imports were read", imports)
	}
}

// TestArchitectureNamesFiles: the files and folders that the document names exist.
func TestArchitectureNamesFiles(t *testing.T) {
	text := must.Get(os.ReadFile(architecture))(t)
	named := regexp.MustCompile("`((?:pkg|internal|cmd|config|docs|test|scripts)/[A-Za-z0-9_./{},-]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 50 {
		t.Fatalf("it names only %d", len(named))
	}
	for _, name := range named {
		before, choices, several := strings.Cut(name[1], "{")
		paths := []string{name[1]}
		if several {
			choices, after, _ := strings.Cut(choices, "}")
			paths = nil
			for choice := range strings.SplitSeq(choices, ",") {
				paths = append(paths, before+choice+after)
			}
		}
		for _, path := range paths {
			if _, err := os.Stat("../" + path); err != nil {
				t.Errorf("%s does not exist", path)
			}
		}
	}
}
