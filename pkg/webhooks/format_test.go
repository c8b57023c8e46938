package webhooks

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestSlack(t *testing.T) {
	e := catalog.Entry{Ref: layout.Session{Namespace: "prod", Cluster: "lab", Name: "session_1"}}
	report := must.Get(look(context.Background(), e))(t)
	report.Findings[0].Title = "<!channel> & <https://evil.example|Findings>\x1b[31m\u202e"
	all := events(e, report, failedJobs(report), false, "https://history.example.com/ray/")
	body := must.Get(encode(&Receiver{Format: Slack}, all[0]))(t)
	var got map[string]string
	must.OK(t, json.Unmarshal(body, &got))
	want := "Job a failed in prod/lab\n&lt;!channel&gt; &amp; &lt;https:\u200b//evil\u200b.example|Findings&gt;[31m\n" +
		"<https://history.example.com/ray/namespaces/prod/clusters/lab/sessions/session_1/findings|Findings>"
	says.True(t, len(got) == 1 && got["text"] == want, "%q, want %q", got["text"], want)
}

// TestUnlinked: no text of a cluster's becomes a link or a mention, and what people read stays as it is.
func TestUnlinked(t *testing.T) {
	link := regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*:[^\s\x{200b}]|[\pL\pN_-]+[.。．｡]\pL|\pL+[.。．｡][\pL\pN]|@\w`)
	for _, text := range []string{
		"http://evil.example/x?y=1", "HTTPS://EVIL.EXAMPLE", "see www.evil.example", "evil.example",
		"evil.example/login", "xn--evil-abc.example", "10.0.0.1.evil.com", "mailto:a@evil.example",
		"http://10.0.0.1/x", "http://[::1]/", "slack://open", "ftp:evil", "@channel", "@here hello", "evil。example",
		"http://user:password@evil.example", "a.http://b", "javascript:alert(1)",
		"bücher.example", "例え.テスト", "tel:+123", "file:///etc/passwd", "evil.c0m",
	} {
		got := withoutLinks(text)
		says.True(t, !link.MatchString(got), "%q is still a link: %q", text, got)
		says.Equal(t, strings.ReplaceAll(got, "\u200b", ""), text, "%q reads as %q", text, got)
	}
	for _, text := range []string{"ValueError: bad value 3.5 at 12:30:01, 80.5 GiB of memory...",
		"Job a failed in prod/lab", "exit code 1. Then nothing"} {
		says.Equal(t, withoutLinks(text), text, "becomes")
	}
}

// TestTeamsAndPagerDuty: a card has the lines as text without links, and an alert is the same if it is sent again.
func TestTeamsAndPagerDuty(t *testing.T) {
	e := &Event{ID: "x", Type: JobFailed, Namespace: "ml", Cluster: "c", Outcome: "failed", URL: "https://h/findings",
		Cause: "[click](https://evil.example)", Job: &JobOf{SubmissionID: "train"}}
	card := string(must.Get(encode(&Receiver{Format: Teams}, e))(t))
	for _, want := range []string{`"Job train failed in ml/c"`, `"url":"https://h/findings"`, `"type":"TextRun"`,
		"application/vnd.microsoft.card.adaptive"} {
		says.True(t, strings.Contains(card, want) && !strings.Contains(card, "https://evil") &&
			!strings.Contains(card, `"TextBlock"`), "the card lacks %s: %s", want, card)
	}
	r := &Receiver{Format: PagerDuty, secret: []byte("key")}
	for event, want := range map[*Event]string{
		e: "error",
		{Type: SessionEnded, Outcome: "succeeded"}:                "info",
		{Type: SessionEnded, Outcome: "failed"}:                   "error",
		{Type: RunSlower, Regression: &Regression{}}:              "warning",
		{Type: Finding, Finding: &FindingOf{Severity: "warning"}}: "warning",
	} {
		var alert struct {
			Key     string `json:"routing_key"`
			Dedup   string `json:"dedup_key"`
			Action  string `json:"event_action"`
			Payload struct{ Summary, Severity, Source string }
		}
		must.OK(t, json.Unmarshal(must.Get(encode(r, event))(t), &alert))
		if alert.Key != "key" || alert.Dedup != event.ID || alert.Action != "trigger" ||
			alert.Payload.Severity != want || alert.Payload.Summary == "" || alert.Payload.Source == "" {
			t.Errorf("%+v", alert)
		}
		says.True(t, event != e || alert.Payload.Summary == "Job train failed in ml/c: "+e.Cause,
			"an alert about a failed job: %q", alert.Payload.Summary)
	}
}

func TestPagerDutyNeedsItsKey(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	must.OK(t, os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600))
	c, err := Parse([]byte("receivers: [{name: pd, format: pagerduty, secret_file: "+key+"}]"), os.Getenv)
	says.True(t, err == nil && c.Receivers[0].address == "https://events.pagerduty.com/v2/enqueue", "%v", err)
	for _, wrong := range []string{"format: pagerduty", "format: teams, url: https://x, secret_file: " + key, "format: json"} {
		says.True(t, says.Err(Parse([]byte("receivers: [{name: pd, "+wrong+"}]"), os.Getenv)) != nil, "%s is taken",
			wrong)
	}
}

// docs gives the first example of docs/webhooks.md in a language.
func docs(t *testing.T, language string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../../docs/webhooks.md"))(t)
	_, after, found := strings.Cut(string(text), "```"+language+"\n")
	example, _, closed := strings.Cut(after, "```")
	must.True(t, found && closed, "no example in %s", language)
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
	c, err := Parse([]byte(example), os.Getenv)
	says.True(t, err == nil && len(c.Receivers) == 3, err)
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
