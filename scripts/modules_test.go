package scripts_test

import (
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	find := func(pattern, files string) (found []string) {
		for _, path := range must.Get(filepath.Glob(filepath.Join("..", files)))(t) {
			for _, match := range regexp.MustCompile(pattern).FindAllSubmatch(must.Get(os.ReadFile(path))(t), -1) {
				found = append(found, string(match[1]))
			}
		}
		return found
	}
	images := slices.Compact(find(`golang:([\d.]+)`, "Dockerfile.*"))
	setUp := find(`go-version-file: (\S+)`, ".github/workflows/*.yml")
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
