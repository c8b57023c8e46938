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
	"unicode"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const architecture = "../docs/architecture.md"

// rooms are the first column of the document's table of rooms, in its order, and the rows.
func rooms(t *testing.T) (names []string, rows map[string]string) {
	t.Helper()
	text := must.Get(os.ReadFile(architecture))(t)
	_, table, ok := strings.Cut(string(text), "\n| room |")
	must.True(t, ok, "there is no table of rooms")
	table, _, _ = strings.Cut(table, "\n\n")
	rows = make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|.*$").FindAllStringSubmatch(table, -1) {
		names = append(names, row[1])
		rows[row[1]] = row[0]
	}
	return names, rows
}

// TestRooms: the folders of pkg are the document's rooms, and a room imports only those above it. What is internal
// imports no room, except for the demo and the support of tests, which the product does not import.
func TestRooms(t *testing.T) {
	order, _ := rooms(t)
	entries := must.Get(os.ReadDir("."))(t)
	for _, entry := range entries {
		says.True(t, !entry.IsDir() || slices.Contains(order, entry.Name()), "pkg/%s is no room of %s", entry.Name(),
			architecture)
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
	says.True(t, imports >= 100, "only %d imports were read", imports)
}

// TestRoomsNameTheirParts: the row of a room names the folders of Go code in it, except for internal ones.
func TestRoomsNameTheirParts(t *testing.T) {
	order, rows := rooms(t)
	for _, room := range order {
		must.OK(t, filepath.WalkDir(room, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil || !entry.IsDir() || path == room:
				return err
			case entry.Name() == "testdata" || entry.Name() == "internal":
				return fs.SkipDir
			}
			code, err := filepath.Glob(path + "/*.go")
			says.True(t, len(code) == 0 || strings.Contains(rows[room], "`"+entry.Name()+"`"),
				"the row of %s does not name pkg/%s", room, path)
			return err
		}))
	}
}

// named are the files and folders of the repository in a text.
func named(text string) (paths []string) {
	pattern := regexp.MustCompile("`((?:pkg|internal|cmd|config|docs|test|scripts)/[A-Za-z0-9_./{},-]+)`")
	for _, name := range pattern.FindAllStringSubmatch(text, -1) {
		paths = append(paths, choices(name[1])...)
	}
	return paths
}

// choices are the paths of one whose name may have several parts, such as pkg/{blob,ray}/doc.go.
func choices(path string) (paths []string) {
	before, parts, several := strings.Cut(path, "{")
	if !several {
		return []string{path}
	}
	parts, after, _ := strings.Cut(parts, "}")
	for part := range strings.SplitSeq(parts, ",") {
		paths = append(paths, before+part+after)
	}
	return paths
}

// TestArchitectureNamesPlaces: for each change, a file that is named without its folder is in a folder that is named
// with it, and a name in a file is there.
func TestArchitectureNamesPlaces(t *testing.T) {
	_, changes, _ := strings.Cut(string(must.Get(os.ReadFile(architecture))(t)), "\n## Where to change what\n")
	changes, _, _ = strings.Cut(changes, "\n## ")
	place := regexp.MustCompile("(?:`([A-Za-z]+)` in )?`([a-z_]+\\.(?:go|js)|(?:pkg|cmd)/[a-z0-9/]+\\.(?:go|js))`")
	checked := 0
	for change := range strings.SplitSeq(changes, "\n#### ") {
		var folders []string
		for _, path := range named(change) {
			if filepath.Ext(path) != "" {
				path = filepath.Dir(path)
			}
			folders = append(folders, path)
		}
		title, _, _ := strings.Cut(change, "\n")
		for _, found := range place.FindAllStringSubmatch(change, -1) {
			name, file := found[1], found[2]
			checked++
			isThere := func(path string) bool {
				code, err := os.ReadFile("../" + path)
				return err == nil && regexp.MustCompile(`\b`+name+`\b`).Match(code)
			}
			in := func(folder string) bool { return isThere(folder + "/" + file) }
			says.True(t, isThere(file) || slices.ContainsFunc(folders, in), "%s: there is no %s with %q", title, file,
				name)
		}
	}
	says.True(t, checked >= 180, "only %d places were read", checked)
}

// TestArchitectureNamesThings: names of code in the document, such as `newShipper`, are in the code, not only in its
// comments. A name of one plain word, such as `error`, may be anything.
func TestArchitectureNamesThings(t *testing.T) {
	text := string(must.Get(os.ReadFile(architecture))(t))
	known := make(map[string]bool)
	for _, code := range sources(t, "..", func(path string) bool {
		return slices.Contains([]string{".go", ".js", ".tpl", ".yaml"}, filepath.Ext(path))
	}) {
		for line := range strings.Lines(code) {
			line, _, _ = strings.Cut(line, "//")
			for word := range strings.FieldsFuncSeq(line, func(r rune) bool {
				return !unicode.IsLetter(r) && !unicode.IsDigit(r)
			}) {
				known[word] = true
			}
		}
	}
	named := regexp.MustCompile("`([A-Z][a-z]+|[A-Za-z][a-z0-9]+[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(text, -1)
	for _, name := range named {
		says.True(t, known[name[1]], "%s names %s, which is no longer in the code", architecture, name[1])
	}
	says.True(t, len(named) >= 200, "only %d names were read", len(named))
}
