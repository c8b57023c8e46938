package webhooks

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

func TestSlack(t *testing.T) {
	e := catalog.Entry{Ref: layout.Session{Namespace: "prod", Cluster: "lab", Name: "session_1"}}
	k, err := look(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	k.Report.Findings[0].Title = "<!channel> & <https://evil.example|Findings>\x1b[31m\u202e"
	all := events(e, k, "https://history.example.com/ray/")
	body, err := encode(&Receiver{Format: Slack}, all[0])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := "Job a failed in prod/lab\n&lt;!channel&gt; &amp; &lt;https://evil.example|Findings&gt;[31m\n" +
		"<https://history.example.com/ray/namespaces/prod/clusters/lab/sessions/session_1/findings|Findings>"
	if len(got) != 1 || got["text"] != want {
		t.Errorf("%q, want %q", got["text"], want)
	}
}
