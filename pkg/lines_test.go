package pkg_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const maxColumns, tabColumns = 120, 4

// TestLines: no line of the product is longer than maxColumns, but where a text cannot be broken, such as a regular
// expression, and in comments that are drawn or show code.
func TestLines(t *testing.T) {
	for _, top := range []string{".", "../cmd", "../internal"} {
		must.OK(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text := must.Get(os.ReadFile(path))(t)
			unbreakable := linesWithTexts(path, text)
			for i, line := range strings.Split(string(text), "\n") {
				says.True(t, columns(line) <= maxColumns || unbreakable[i+1] || strings.HasPrefix(line, "//\t"),
					"%s:%d has %d columns, want %d at most", path, i+1, columns(line), maxColumns)
			}
			return nil
		}))
	}
}

func columns(line string) int {
	n := 0
	for _, r := range line {
		n++
		if r == '\t' {
			n += tabColumns - 1 - (n-1)%tabColumns
		}
	}
	return n
}

// linesWithTexts are the numbers of the lines, from 1, that hold at least a part of a string.
func linesWithTexts(path string, text []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile(path, files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := make(map[int]bool)
	for {
		at, tok, literal := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING {
			for line, last := file.Line(at), file.Line(at+token.Pos(len(literal))); line <= last; line++ {
				lines[line] = true
			}
		}
	}
}
