package pkg_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestNewestRay: the newest Ray of which there is a recording is the one that the Makefile and the images have, that is
// documented, and that samples and tests start.
func TestNewestRay(t *testing.T) {
	recordings := must.Get(filepath.Glob("../test/testdata/ray-[0-9]*[0-9]"))(t)
	newest := slices.MaxFunc(recordings, func(a, b string) int {
		_, a, _ = strings.Cut(a, "/ray-")
		_, b, _ = strings.Cut(b, "/ray-")
		return semver.Compare("v"+a, "v"+b)
	})
	_, newest, _ = strings.Cut(newest, "/ray-") // such as 2.60
	makefile := string(must.Get(os.ReadFile("../Makefile"))(t))
	found := regexp.MustCompile(`(?m)^RAY_VERSION \?= (` + regexp.QuoteMeta(newest) + `\.\d+)$`).FindStringSubmatch(makefile)
	must.True(t, found != nil, "there is a recording of Ray %s, and RAY_VERSION in the Makefile is another one", newest)
	version := found[1]
	for file, want := range map[string]string{
		"Makefile": "RAY_VERSIONS ?= " + version, "Dockerfile.historyserver": `ARG RAY_VERSIONS="` + version,
		"scripts/ray-wheels.txt": "ray==" + version + " ", "docs/compatibility.md": version, "docs/metrics.md": version,
		"docs/operations.md": version, "pkg/dashboard/fidelity_test.go": newest, "test/kube/head.py": version,
	} {
		says.True(t, strings.Contains(string(must.Get(os.ReadFile("../"+file))(t)), want),
			"%s does not have %q: there is a recording of Ray %s", file, want, newest)
	}
	used := regexp.MustCompile(`(?:rayproject/ray:|rayVersion"?: ?"|"--ray", default="|ray\[default\]==|--ray-version=)(\d+\.\d+\.\d+)`)
	count := 0
	for _, top := range []string{"../config", "../docs", "../test/e2e", "../test/kube"} {
		must.OK(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".md", ".py", ".go"}, filepath.Ext(path)) {
				return err
			}
			for _, m := range used.FindAllStringSubmatch(string(must.Get(os.ReadFile(path))(t)), -1) {
				if count++; m[1] != version {
					t.Errorf("%s uses Ray %s, and there is a recording of Ray %s", path, m[1], newest)
				}
			}
			return nil
		}))
	}
	says.True(t, count >= 30, "only %d uses were found", count)
}
