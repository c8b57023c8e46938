package webhooks

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// docs gives the first example of docs/webhooks.md in a language.
func docs(t *testing.T, language string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/webhooks.md"))(t)
	_, after, found := strings.Cut(string(text), "```"+language+"\n")
	example, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatalf("no example in %s", language)
	}
	return example
}

// TestDocumentedConfig: the example is one but for the files it names.
func TestDocumentedConfig(t *testing.T) {
	example := docs(t, "yaml")
	for _, name := range []string{"platform-key", "slack-url", "mail-password"} {
		path := t.TempDir() + "/" + name
		must.OK(t, os.WriteFile(path, []byte("https://hooks.slack.com/services/x"), 0o600))
		example = strings.ReplaceAll(example, "/etc/webhooks/"+name, path)
	}
	if c, err := Parse([]byte(example), os.Getenv); err != nil || len(c.Receivers) != 3 {
		t.Error(err)
	}
}

// TestDocumentedCheck runs the example in Python over a signature of ours.
func TestDocumentedCheck(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	body, key := []byte(`{"cause":"ä"}`), []byte(secret)
	now := time.Now()
	for _, tc := range []struct {
		what, header, body string
		want               string
	}{
		{"as sent", sign(key, body, now), string(body), "True"},
		{"another body", sign(key, body, now), string(body) + " ", "False"},
		{"another secret", sign([]byte("another secret, as long"), body, now), string(body), "False"},
		{"an hour old", sign(key, body, now.Add(-time.Hour)), string(body), "False"},
		{"no signature", "", string(body), "False"},
	} {
		c := exec.CommandContext(t.Context(), python, "-c",
			docs(t, "python")+"\nimport sys\nprint(signed(sys.argv[1], sys.argv[2].encode(), sys.argv[3].encode()))",
			tc.header, tc.body, secret)
		if out, err := c.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.what, out, err, tc.want)
		}
	}
}
