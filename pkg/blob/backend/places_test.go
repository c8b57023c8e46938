package backend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

const repository = "../../../"

// TestBackendsAreEverywhere: each backend can be chosen in the chart and by inject, has rights and examples to copy, is
// documented, and is tested over a server.
func TestBackendsAreEverywhere(t *testing.T) {
	var schema struct {
		Properties struct {
			Storage struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	read := func(path string) string { return string(must.Get(os.ReadFile(repository + path))(t)) }
	must.OK(t, json.Unmarshal([]byte(read("config/helm/values.schema.json")), &schema))
	inChart := schema.Properties.Storage.Properties
	for _, name := range Names() {
		if name == "localtest" { // KubeRay's name of local
			continue
		}
		places := map[string]string{
			"docs/backends.md":        `| ` + "`" + name + "`",
			"config/helm/values.yaml": name,
		}
		if name != "local" {
			places["config/helm/values.yaml"] = "\n  " + name + ":\n"
			places["config/helm/templates/_helpers.tpl"] = `eq $s.backend "` + name + `"`
			short := strings.TrimSuffix(name, "blob") // as its policies and its tests are called
			for _, pattern := range []string{"config/policies/" + short + "-collector*",
				"config/policies/" + short + "-historyserver*",
				"test/backends/" + strings.TrimPrefix(short, "aliyun") + "_test.go"} {
				says.True(t, len(must.Get(filepath.Glob(repository+pattern))(t)) != 0, "backend %s: there is no %s",
					name, pattern)
			}
			if !slices.ContainsFunc(guides(t), func(guide string) bool { return strings.Contains(guide, name) }) {
				t.Errorf("backend %s: no guide in docs/kubernetes is about it", name)
			}
		}
		places["config/helm/examples/"+name+".yaml"] = "backend: " + name
		for path, want := range places {
			says.True(t, strings.Contains(read(path), want), "backend %s: %s does not have %q", name, path, want)
		}
		says.True(t, slices.Contains(inChart["backend"].Enum, name),
			"backend %s: config/helm/values.schema.json does not allow it", name)
	}
}

// guides are the texts of the guides for providers of Kubernetes.
func guides(t *testing.T) (texts []string) {
	t.Helper()
	for _, path := range must.Get(filepath.Glob(repository + "docs/kubernetes/??[ske].md"))(t) { // ack, aks, eks, gke
		texts = append(texts, string(must.Get(os.ReadFile(path))(t)))
	}
	return texts
}

// TestSecretFlagsAreHidden: the values of all flags that are secrets are hidden in logs and errors.
func TestSecretFlagsAreHidden(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(fs)
	found := 0
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Annotations["rayhistory/secret"] == nil {
			return
		}
		found++
		part := "hidden-" + f.Name // the secret in a URL is its signature
		whole := "https://h.example.com/?sig=" + part
		must.OK(t, fs.Set(f.Name, whole))
		says.True(t, slices.Contains(c.secrets(), whole) || slices.Contains(c.secrets(), part),
			"--%s is a secret: Config.secrets in backend.go does not have it", f.Name)
	})
	says.True(t, found >= 5, "only %d flags are secrets", found)
}
