package scripts_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestModulesUseSameVersions: the test modules require the versions of the product's module. Otherwise tests run other
// code than users do, and Go and staticcheck compile everything above such a dependency once for each version.
func TestModulesUseSameVersions(t *testing.T) {
	product := versions(t, "go.mod")
	for _, path := range []string{"test/go.mod", "test/kube/go.mod", "test/release/go.mod"} {
		for module, version := range versions(t, path) {
			if of, shared := product[module]; shared && of != version {
				t.Errorf("%s requires %s %s, but go.mod %s: use the newer one in both", path, module, version, of)
			}
		}
	}
}

// versions returns what a go.mod requires: module → version.
func versions(t *testing.T, path string) map[string]string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("..", path)))(t)
	file := must.Get(modfile.Parse(path, data, nil))(t)
	required := make(map[string]string, len(file.Require))
	for _, r := range file.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	return required
}
