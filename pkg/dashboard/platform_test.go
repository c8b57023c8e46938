package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// platformAnswer is what Ray 2.60 answers about one event of Kubernetes: of the message that its provider makes of the
// event, by message_to_dict and rest_response of ray/dashboard.
const platformAnswer = `{"result": true, "msg": "Retrieved platform events", "data": {"events": [{"eventId": "N2E3ZDFjMGEtdWlk", "sourceType": "CLUSTER_LIFECYCLE", ` +
	`"eventType": "PLATFORM_EVENT", "timestamp": "2026-11-22T10:00:00.500Z", "severity": "WARNING", "message": "Back-off pulling image", "platformEvent": {"source": ` +
	`{"platform": "KUBERNETES", "component": "kubelet", "metadata": {"namespace": "ml", "rayClusterName": "lab"}}, "objectKind": "Pod", "objectName": "lab-head", ` +
	`"message": "Back-off pulling image", "reason": "BackOff", "customFields": {"someCount": "3"}}, "sessionName": "", "nodeId": ""}]}}`

// TestPlatformEvents: what a dashboard that watched its platform answered is given back; one that had seen nothing has
// no such page.
func TestPlatformEvents(t *testing.T) {
	for answer, status := range map[string]int{
		platformAnswer: http.StatusOK,
		`{"result": true, "msg": "Retrieved platform events", "data": {"events": []}}`: http.StatusNotFound,
	} {
		dir := t.TempDir()
		ref := layout.Session{Version: layout.V16, Namespace: "default", Cluster: "lab",
			Name: "session_2026-11-20_23-19-45_581717_22125"}
		path := filepath.Join(dir, filepath.FromSlash(layout.SnapshotKey(layout.DefaultRoot, ref,
			"/api/v0/platform_events?detail=1&limit=10000")))
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

// told loads the session of rayevents, with saved answers by their URLs.
func told(t *testing.T, saved map[string]string) *asker { return toldBy(t, rayevents.Lines(), saved) }

// toldBy is told with some of the events.
func toldBy(t *testing.T, events []string, saved map[string]string) *asker {
	t.Helper()
	dir := t.TempDir()
	put := func(key, body string) {
		path := filepath.Join(dir, filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(rayevents.Key(), strings.Join(events, "\n")+"\n")
	for url, answer := range saved {
		put(layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, url), answer)
	}
	return newAsker(t, load(t, dir, rayevents.Session), Options{})
}

// platformList is "time reason count" of all that is answered about the platform.
func platformList(a *asker) (list []string) {
	o, _ := a.body("/api/v0/platform_events").(*pyjson.Object)
	for _, v := range o.Object("data").List("events") {
		row := v.(*pyjson.Object)
		e := row.Object("platformEvent")
		list = append(list, strings.TrimSpace(row.String("timestamp")+" "+e.String("reason")+" "+
			e.Object("customFields").String("count")))
	}
	return list
}

// TestPlatformEventsFromEvents: without a saved answer, events tell what a live dashboard would have answered, also
// before they were over.
func TestPlatformEventsFromEvents(t *testing.T) {
	a := told(t, nil)
	want := []string{
		"2026-11-22T10:20:00Z Evicted", "2026-11-22T10:04:00Z BackOff 9", "2026-11-22T10:03:00Z FailedScheduling 5",
		"2026-11-22T10:02:00Z Failed",
		"2026-11-22T10:00:00.500001Z Started", "2026-11-22T10:00:00.250Z FailedScheduling",
		"2026-11-22T09:59:50Z CreatedHeadPod", "CreatedRayCluster",
	}
	if got := platformList(a); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	const pull = `{"eventId": "dWlkLWJhY2stb2ZmLWM=", "sourceType": "CLUSTER_LIFECYCLE", "eventType": "PLATFORM_EVENT", "timestamp": "2026-11-22T10:04:00Z", ` +
		`"severity": "WARNING", "message": "Back-off pulling image \"ray:none\"", "platformEvent": {"source": {"platform": "KUBERNETES", "component": "kubelet", ` +
		`"metadata": {"namespace": "ml", "rayClusterName": "lab"}}, "objectKind": "Pod", "objectName": "lab-worker-c", "message": "Back-off pulling image \"ray:none\"", ` +
		`"reason": "BackOff", "customFields": {"count": "9"}}, "sessionName": "", "nodeId": ""}`
	if got := a.get("/api/v0/platform_events").Body.String(); !strings.Contains(got, pull) {
		t.Errorf("got %s\nwant %s", got, pull)
	}
	a.at = rayevents.At("10:02:30")
	want = []string{
		"2026-11-22T10:02:00Z Failed", "2026-11-22T10:01:00Z FailedScheduling", "2026-11-22T10:00:00.500001Z Started",
		"2026-11-22T10:00:00.250Z FailedScheduling", "2026-11-22T09:59:50Z CreatedHeadPod", "CreatedRayCluster",
	}
	if got := platformList(a); !slices.Equal(got, want) {
		t.Errorf("at 10:02:30 got  %q\nwant %q", got, want)
	}
}

// TestPlatformEventsOverSnapshot: of an event that is told twice the later delivery counts; what only the saved answer
// has is shown too.
func TestPlatformEventsOverSnapshot(t *testing.T) {
	row := func(id, at, count string) string {
		return `{"eventId": "` + id + `", "timestamp": "` + at +
			`", "platformEvent": {"reason": "saved", "customFields": {"count": "` + count + `"}}}`
	}
	a := told(t, map[string]string{
		"/api/v0/platform_events?detail=1&limit=10000": `{"result": true, "msg": "", "data": {"events": [` +
			strings.Join([]string{
				row("dWlkLXNob3J0LWE=", "2026-11-22T10:01:00Z", "2"),      // older than the events tell
				row("dWlkLWJhY2stb2ZmLWM=", "2026-11-22T10:09:00Z", "12"), // newer
				row("b25seQ==", "2026-11-22T10:10:00Z", "1"),              // of which no event tells
				`null, 3, {"eventId": 7, "timestamp": "x"}`,
			}, ", ") + `]}}`})
	got := platformList(a)
	for _, want := range []string{"2026-11-22T10:10:00Z saved 1", "2026-11-22T10:09:00Z saved 12",
		"2026-11-22T10:03:00Z FailedScheduling 5"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d events: %q", len(got), got)
	}
	a.at = rayevents.At("10:08:00")
	if got := platformList(a); !slices.Contains(got, "2026-11-22T10:04:00Z BackOff 9") ||
		slices.Contains(got, "2026-11-22T10:10:00Z saved 1") {
		t.Errorf("at 10:08: %q", got)
	}
}
