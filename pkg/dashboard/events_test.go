package dashboard

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
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
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, lab, "/api/v0/platform_events?detail=1&limit=10000"), answer)
		w := newAsker(t, load(t, dir, lab), Options{}).get("/api/v0/platform_events")
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
	put(t, dir, rayevents.Key(), strings.Join(events, "\n")+"\n")
	for url, answer := range saved {
		put(t, dir, layout.SnapshotKey(layout.DefaultRoot, rayevents.Session, url), answer)
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
	says.EqualSlices(t, platformList(a), want)
	const pull = `{"eventId": "dWlkLWJhY2stb2ZmLWM=", "sourceType": "CLUSTER_LIFECYCLE", "eventType": "PLATFORM_EVENT", "timestamp": "2026-11-22T10:04:00Z", ` +
		`"severity": "WARNING", "message": "Back-off pulling image \"ray:none\"", "platformEvent": {"source": {"platform": "KUBERNETES", "component": "kubelet", ` +
		`"metadata": {"namespace": "ml", "rayClusterName": "lab"}}, "objectKind": "Pod", "objectName": "lab-worker-c", "message": "Back-off pulling image \"ray:none\"", ` +
		`"reason": "BackOff", "customFields": {"count": "9"}}, "sessionName": "", "nodeId": ""}`
	got := a.get("/api/v0/platform_events").Body.String()
	says.True(t, strings.Contains(got, pull), "got %s\nwant %s", got, pull)
	a.at = rayevents.At("10:02:30")
	want = []string{
		"2026-11-22T10:02:00Z Failed", "2026-11-22T10:01:00Z FailedScheduling", "2026-11-22T10:00:00.500001Z Started",
		"2026-11-22T10:00:00.250Z FailedScheduling", "2026-11-22T09:59:50Z CreatedHeadPod", "CreatedRayCluster",
	}
	says.EqualSlices(t, platformList(a), want, "at 10:02:30")
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
			}, ", ") + `]}}`,
		"/api/v0/platform_events": `{"result": true, "msg": "", "data": {"events": [` + // earlier in the alphabet
			row("b25seQ==", "2026-11-22T10:06:00Z", "0") + `]}}`})
	got := platformList(a)
	for _, want := range []string{"2026-11-22T10:10:00Z saved 1", "2026-11-22T10:09:00Z saved 12",
		"2026-11-22T10:03:00Z FailedScheduling 5"} {
		says.True(t, slices.Contains(got, want), "%q is not in %q", want, got)
	}
	says.Equal(t, len(got), 10, "%d events: %q", len(got), got)
	a.at = rayevents.At("10:08:00")
	if got := platformList(a); !slices.Contains(got, "2026-11-22T10:04:00Z BackOff 9") ||
		slices.Contains(got, "2026-11-22T10:10:00Z saved 1") {
		t.Errorf("at 10:08: %q", got)
	}
}

// TestClusterEventsOfBothKinds: events whose time is a text and those whose time is a number are one list, in order of
// time.
func TestClusterEventsOfBothKinds(t *testing.T) {
	a, _ := withLogs(t, map[string]string{
		"events/event_JOBS.log":   `{"event_id": "b", "source_type": "JOBS", "message": "", "timestamp": "1795217000", "custom_fields": {}}` + "\n",
		"events/event_GCS.log":    `{"event_id": "c", "source_type": "GCS", "message": "", "timestamp": 1795217001, "custom_fields": {}}` + "\n",
		"events/event_RAYLET.log": `{"event_id": "a", "source_type": "RAYLET", "message": "", "timestamp": 1795216999, "custom_fields": {}}` + "\n",
	})
	ids := ""
	for _, v := range a.data("/api/v0/cluster_events").Object("result").List("result") {
		ids += v.(interface{ String(string) string }).String("event_id")
	}
	says.Equal(t, ids, "abc", "the order")
}

// TestLogOfAJobWithoutDriver: a browser is told where the log of a submission is whose runtime environment failed;
// tools get what Ray says.
func TestLogOfAJobWithoutDriver(t *testing.T) {
	a, node := withLogs(t, map[string]string{
		"job-driver-bad-env.log": "2026-11-20 23:20:00,000\tINFO job_manager.py:1 -- Runtime env is setting up.\n"})
	a.session.Submissions = []entities.Submission{{ID: "bad-env",
		Transitions: []entities.SubmissionTransition{{State: "PENDING", Time: 1}, {State: "FAILED", Time: 2}}}}
	for header, want := range map[string]string{"Referer": `"driver_node_id": "` + node + `"`,
		"X-Tool": `"driver_node_id": null`} {
		for _, url := range []string{"/api/jobs/", "/api/jobs/bad-env"} {
			got := a.with(header, "http://localhost/", url)
			says.True(t, strings.Contains(got, want), "%s with %s: no %s in %s", url, header, want, got)
		}
	}
}

// TestEventsWithoutIDs: events that have no ID are no copies of one another.
func TestEventsWithoutIDs(t *testing.T) {
	a := savedSession(t,
		savedAt{"/events", "10:04:00", `{"data": {"events": {"global": [{"message": "a"}, {"message": "b"}, ` +
			`{"eventId": "c", "message": "c"}, {"eventId": "c", "message": "c"}]}}}`},
		savedAt{"/api/v0/platform_events", "10:04:00", `{"data": {"events": [` +
			`{"timestamp": "2026-11-22T11:00:00Z", "platformEvent": {"reason": "a"}}, ` +
			`{"timestamp": "2026-11-22T11:00:01Z", "platformEvent": {"reason": "b"}}]}}`})
	says.Equal(t, len(a.data("/events").Object("events").List("global")), 3, "events")
	without := newAsker(t, a.session, Options{})
	without.session.PlatformEvents = nil
	says.EqualSlices(t, platformList(without), []string{"2026-11-22T11:00:01Z b", "2026-11-22T11:00:00Z a"})
}
