package scripts_test

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestModulesUseSameVersions: the test modules require the versions of the product's module. Otherwise tests run other
// code than users do, and Go and staticcheck compile everything above such a dependency once for each version.
func TestModulesUseSameVersions(t *testing.T) {
	product := versions(t, "go.mod")
	for _, path := range []string{"test/go.mod", "test/kube/go.mod", "test/release/go.mod"} {
		for module, of := range versions(t, path) {
			if want, shared := product[module]; shared && of != want {
				t.Errorf("%s requires %s %s, but go.mod %s: use the newer one in both", path, module, of, want)
			}
		}
	}
}

// TestOneGo: images are built by the version of Go that the workflows test and release with, which every module allows.
func TestOneGo(t *testing.T) {
	images := slices.Compact(find(t, `golang:([\d.]+)`, "Dockerfile.*"))
	setUp := find(t, `go-version-file: (\S+)`, ".github/workflows/*.yml")
	if len(images) != 1 || len(setUp) != 2 {
		t.Fatalf("Go in the Dockerfiles: %v; from where in workflows: %v", images, setUp)
	}
	for _, path := range append(setUp, "go.mod", "test/go.mod", "test/tools/go.mod") {
		switch used := module(t, path).Go.Version; {
		case slices.Contains(setUp, path) && used != images[0]:
			t.Errorf("workflows use Go %s of %s, images Go %s", used, path, images[0])
		case version.Compare("go"+used, "go"+images[0]) > 0:
			t.Errorf("%s needs Go %s, images are built by %s", path, used, images[0])
		}
	}
}

// TestBuildsAgree: what stands in the Makefile and elsewhere too is the same there.
func TestBuildsAgree(t *testing.T) {
	for what, places := range map[string]map[string]string{ // files → pattern
		"the tags of builds": {"Makefile": `GO_TAGS +:= (\S+)`, "Dockerfile.collector": `ARG GO_TAGS=(\S+)`,
			"Dockerfile.historyserver": `ARG GO_TAGS=(\S+)`},
		"the Ray versions of images": {"Makefile": `RAY_VERSIONS \?= (.+)`,
			"Dockerfile.historyserver": `ARG RAY_VERSIONS="(.+)"`},
		"the version": {"Makefile": `IMAGE_TAG +\?= (\S+)`, "config/helm/Chart.yaml": `(?m)^(?:appV|v)ersion: (\S+)`,
			"pkg/kubernetes/inject/options.go": `defaultImage = "collector:(.+)"`},
	} {
		values := map[string][]string{} // value → files
		for file, pattern := range places {
			found := find(t, pattern, file)
			if len(found) == 0 {
				t.Errorf("%s does not say %s", file, what)
			}
			for _, value := range found {
				value = strings.TrimPrefix(value, "v")
				values[value] = append(values[value], file)
			}
		}
		if len(values) != 1 {
			t.Errorf("%s differ: %v", what, values)
		}
	}
}

// find returns what the first group of a pattern matches in files, by their paths in the repository.
func find(t *testing.T, pattern, files string) (found []string) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(filepath.Join("..", files)))(t) {
		for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(must.Get(os.ReadFile(path))(t), -1) {
			found = append(found, string(match[1]))
		}
	}
	return found
}

// versions returns what a go.mod requires: module → version.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	file := module(t, path)
	required := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	return required
}

func module(t *testing.T, path string) *modfile.File {
	t.Helper()
	return must.Get(modfile.Parse(path, must.Get(os.ReadFile(filepath.Join("..", path)))(t), nil))(t)
}
