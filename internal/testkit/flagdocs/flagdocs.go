// Package flagdocs compares what pages say about flags with the flags.
package flagdocs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// stated matches a flag with its default behind it, such as `--push-interval` (60 s).
var stated = regexp.MustCompile("`--([a-z0-9-]+)` \\(([0-9][0-9,.]*)(?: (s|min|h|d|KiB|MiB|GiB))?[,;)]")

// Defaults checks that where the pages of the repository state the default of one of these flags it is that, and that
// at least so many do. Of flags that two programs have, the pages state the other's.
func Defaults(t *testing.T, flags *pflag.FlagSet, repository string, least int, others ...string) {
	t.Helper()
	found := 0
	for _, pattern := range []string{"docs/*.md", "docs/kubernetes/*.md"} {
		for _, path := range must.Get(filepath.Glob(filepath.Join(repository, pattern)))(t) {
			for _, m := range stated.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
				name, number, unit := m[1], strings.ReplaceAll(m[2], ",", ""), strings.Replace(m[3], "min", "m", 1)
				flag := flags.Lookup(name)
				if flag == nil || slices.Contains(others, name) {
					continue // of the other program
				}
				if found++; !same(flag, number+unit) {
					t.Errorf("%s says that --%s is %s %s by default, which is %s", path, name, m[2], m[3], flag.DefValue)
				}
			}
		}
	}
	says.True(t, found >= least, "the defaults of only %d flags are stated", found)
}

// same reports whether a text is the default of a flag.
func same(flag *pflag.Flag, text string) bool {
	switch flag.Value.Type() {
	case "duration":
		var a, b settings.Duration
		return a.Set(flag.DefValue) == nil && b.Set(text) == nil && a == b
	case "bytes":
		var a, b settings.Bytes
		return a.Set(flag.DefValue) == nil && b.Set(text) == nil && a == b
	}
	return flag.DefValue == text
}
