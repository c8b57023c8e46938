package dashboard

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestBrokenExtraData: extra data that is no JSON, or was none when it was stored, spoils neither the list of tasks nor
// the timeline.
func TestBrokenExtraData(t *testing.T) {
	const task = `"taskId": "AAAAAAAAAAAAAAAAAAAAAAAAAAACAAAA", "taskAttempt": 0, "attemptNumber": 0, "jobId": "AgAAAA=="`
	event := func(kind, body string) string {
		return fmt.Sprintf(`{"eventType": %q, "timestamp": "2026-11-22T10:06:06Z", "sessionName": %q, %s}`, kind,
			rayevents.Session.Name, body)
	}
	for _, extra := range []string{`{\"a\": 1}`, `{\"a\": NaN}`, `{\"a\": 1e}`, `{\"a\": tru}`, `{\"a\": -}`, `{\"a\"}`,
		`[1]`} {
		a := toldBy(t, []string{
			event("TASK_DEFINITION_EVENT", `"taskDefinitionEvent": {`+task+
				`, "taskType": "NORMAL_TASK", "taskName": "f"}`),
			event("TASK_PROFILE_EVENT", `"taskProfileEvents": {`+task+
				`, "profileEvents": {"componentType": "worker", "componentId": "AQ==", `+
				`"nodeIpAddress": "10.0.0.1", "events": [{"startTime": "5000", "endTime": "9000", "extraData": "`+extra+
				`", "eventName": "task:execute"}]}}`),
		}, nil)
		for _, url := range []string{"/api/v0/tasks?detail=1", "/api/v0/tasks/timeline"} {
			w := a.get(url)
			if _, err := pyjson.Parse(w.Body.Bytes()); err != nil || w.Code != http.StatusOK {
				t.Errorf("%s with %s: %d %v: %s", url, extra, w.Code, err, w.Body)
			}
		}
	}
}
