package settings

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
)

// maxFile bounds a file of ReadFile, in bytes.
const maxFile = 1 << 20

// ReadFile reads a small file of settings, rules or secrets, without the byte order mark that editors on Windows write.
// More than maxFile bytes are an error.
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), err
}

// Patterns are of names, as in path.Match; none match every name.
type Patterns []string

// Check checks the patterns' form.
func (p Patterns) Check() error {
	for _, pattern := range p {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("%q: want a name; * stands for any text", pattern)
		}
	}
	return nil
}

// Match says whether a name is meant.
func (p Patterns) Match(name string) bool {
	return len(p) == 0 || slices.ContainsFunc(p, func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	})
}
