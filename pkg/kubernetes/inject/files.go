package inject

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/rayhistory/historyserver/internal/atomicfile"
	"github.com/rayhistory/historyserver/internal/settings"
)

// manifest is a file with objects.
type manifest struct {
	path string // "-": standard input
	data []byte
}

// readManifests reads standard input ("-"), a file, or the YAML and JSON files of a folder and those below it, in the
// order of their paths.
func readManifests(stdin io.Reader, path string) (files []manifest, err error) {
	switch path {
	case "":
		return nil, settings.UsageError(errors.New("-f is not set: name a manifest or a folder, or - for standard input"))
	case "-":
		data, err := io.ReadAll(stdin)
		return []manifest{{path, data}}, err
	}
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if file != path && !isNamed(file) {
			return nil
		}
		data, err := os.ReadFile(file)
		files = append(files, manifest{file, data})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there are no .yaml, .yml or .json files in %s", path)
	}
	return files, err
}

// isNamed says whether a file has the name of a manifest.
func isNamed(file string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file))
}

// writeManifests writes the changed files: in place if output is the input, those of a folder below output if that has
// no manifest's name, or else all of them, one after the other, to the file output; "-" is stdout.
func writeManifests(stdout io.Writer, input, output string, files []manifest) error {
	from, err := os.Stat(input)
	isFolder := err == nil && from.IsDir() && output != "-" && !isNamed(output)
	if isFolder || filepath.Clean(output) == filepath.Clean(input) && input != "-" {
		for _, m := range files {
			below, err := filepath.Rel(input, m.path)
			to := filepath.Join(output, below)
			if err == nil {
				err = os.MkdirAll(filepath.Dir(to), 0o755)
			}
			if err == nil {
				err = replace(to, m.data)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if info, err := os.Stat(output); err == nil && info.IsDir() {
		return fmt.Errorf("-o %s is a folder, and -f is none: name a file", output)
	}
	var all bytes.Buffer
	for _, m := range files {
		if all.Len() > 0 {
			if !bytes.HasSuffix(all.Bytes(), []byte("\n")) {
				all.WriteByte('\n')
			}
			if !isDocumentStart(m.data) {
				all.WriteString("---\n")
			}
		}
		all.Write(m.data)
	}
	if output == "-" {
		_, err := stdout.Write(all.Bytes())
		return err
	}
	return replace(output, all.Bytes())
}

// replace writes a file completely or not at all, with the mode of the one that it replaces.
func replace(file string, data []byte) error {
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	return atomicfile.WriteMode(file, data, mode)
}

// writeDiff writes a unified diff of two states of the same files.
func writeDiff(w io.Writer, before, after []manifest) error {
	for i := range before {
		if bytes.Equal(before[i].data, after[i].data) {
			continue
		}
		if err := difflib.WriteUnifiedDiff(w, difflib.UnifiedDiff{
			A: lines(before[i].data), FromFile: before[i].path,
			B: lines(after[i].data), ToFile: after[i].path, Context: 3,
		}); err != nil {
			return err
		}
	}
	return nil
}

// lines cuts a text for a diff, which marks a last line that does not end.
func lines(data []byte) []string {
	all := slices.Collect(strings.Lines(string(data)))
	if last := len(all) - 1; last >= 0 && !strings.HasSuffix(all[last], "\n") {
		all[last] += "\n\\ No newline at end of file\n"
	}
	return all
}
