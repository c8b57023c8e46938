package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// platformAnswer is what Ray 2.60 answers about one event of Kubernetes: of the message that its provider makes of the event, by message_to_dict and
// rest_response of ray/dashboard.
const platformAnswer = `{"result": true, "msg": "Retrieved platform events", "data": {"events": [{"eventId": "N2E3ZDFjMGEtdWlk", "sourceType": "CLUSTER_LIFECYCLE", ` +
	`"eventType": "PLATFORM_EVENT", "timestamp": "2026-11-22T10:00:00.500Z", "severity": "WARNING", "message": "Back-off pulling image", "platformEvent": {"source": ` +
	`{"platform": "KUBERNETES", "component": "kubelet", "metadata": {"namespace": "ml", "rayClusterName": "lab"}}, "objectKind": "Pod", "objectName": "lab-head", ` +
	`"message": "Back-off pulling image", "reason": "BackOff", "customFields": {"someCount": "3"}}, "sessionName": "", "nodeId": ""}]}}`

// TestPlatformEvents: what a dashboard that watched its platform answered is given back; one that had seen nothing has no such page.
func TestPlatformEvents(t *testing.T) {
	for answer, status := range map[string]int{
		platformAnswer: http.StatusOK,
		`{"result": true, "msg": "Retrieved platform events", "data": {"events": []}}`: http.StatusNotFound,
	} {
		dir := t.TempDir()
		ref := layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
		path := filepath.Join(dir, filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, ref, "/api/v0/platform_events?detail=1&limit=10000")))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(answer), 0o644); err != nil {
			t.Fatal(err)
		}
		w := newAsker(t, load(t, dir, ref), Options{}).get("/api/v0/platform_events")
		if got := w.Body.String(); w.Code != status || status == http.StatusOK && got != answer {
			t.Errorf("%d %s, want %d %s", w.Code, got, status, answer)
		}
	}
}
