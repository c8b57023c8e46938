// Command unraced prints which tests do more without the race detector than with it: those that read race.Enabled, or call a function that
// does. Each line is a package and a regular expression for `go test -run`.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	files := map[string][]*ast.File{} // by folder
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || path == "test" || path == "build" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files[filepath.Dir(path)] = append(files[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		log.Fatal("unraced: ", err)
	}
	for _, dir := range slices.Sorted(maps.Keys(files)) {
		if tests := unraced(files[dir]); len(tests) > 0 {
			fmt.Printf("./%s ^(%s)$\n", dir, strings.Join(tests, "|"))
		}
	}
}

// unraced names the tests of a package, given its test files.
func unraced(files []*ast.File) []string {
	refers := map[string]map[string]bool{} // function → the names in its body
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				names := refers[f.Name.Name] // methods and functions of one name count as one: rather too many tests than too few
				if names == nil {
					names = map[string]bool{}
					refers[f.Name.Name] = names
				}
				ast.Inspect(f.Body, func(n ast.Node) bool {
					if selector, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := selector.X.(*ast.Ident); ok && x.Name == "race" && selector.Sel.Name == "Enabled" {
							names["race.Enabled"] = true
						}
					}
					if ident, ok := n.(*ast.Ident); ok {
						names[ident.Name] = true
					}
					return true
				})
			}
		}
	}
	marked := map[string]bool{"race.Enabled": true}
	for grew := true; grew; {
		grew = false
		for name, names := range refers {
			for used := range names {
				if marked[used] && !marked[name] {
					marked[name], grew = true, true
				}
			}
		}
	}
	var tests []string
	for name := range refers {
		if marked[name] && strings.HasPrefix(name, "Test") && name != "TestMain" {
			tests = append(tests, name)
		}
	}
	slices.Sort(tests)
	return tests
}
