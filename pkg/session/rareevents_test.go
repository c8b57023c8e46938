package session

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// loadLines loads a session of some events of rayevents.
func loadLines(t testing.TB, events []string) *Session {
	t.Helper()
	b := newBucket()
	b.objects[rayevents.Key()] = []byte(strings.Join(events, "\n") + "\n")
	return must.Get(Load(t.Context(), b, layout.DefaultRoot, rayevents.Session, Options{}))(t)
}

// TestPlatformEvents: every field of an event of the platform is read, and each delivery is a row.
func TestPlatformEvents(t *testing.T) {
	s := loadLines(t, rayevents.Lines())
	says.True(t, len(s.Warnings) == 0, s.Warnings)
	says.Equal(t, len(s.PlatformEvents), len(rayevents.Of("PLATFORM")), "deliveries")
	want := entities.PlatformEvent{
		ID: "dWlkLXNob3J0LWE=", Time: rayevents.At("10:03:00"), Severity: "WARNING", Platform: "KUBERNETES",
		Component: "default-scheduler",
		Metadata:  map[string]string{"namespace": "ml", "ray_cluster_name": "lab"}, ObjectKind: "Pod",
		ObjectName: "lab-worker-a",
		Reason:     "FailedScheduling", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		CustomFields: map[string]string{"count": "5"},
	}
	n := slices.IndexFunc(s.PlatformEvents, func(p entities.PlatformEvent) bool {
		return p.ID == want.ID && p.Time == want.Time
	})
	says.True(t, n >= 0 && fmt.Sprintf("%+v", s.PlatformEvents[n]) == fmt.Sprintf("%+v", want), "got  %+v\nwant %+v",
		s.PlatformEvents, want)
	says.Equal(t, s.Start, rayevents.At("10:00:01"), "the session begins at %d, with what the platform did before it",
		s.Start)
}

// TestRareEventsInAnyOrder: events of the platform, placement groups and submissions give the same tables in any order,
// and repeated.
func TestRareEventsInAnyOrder(t *testing.T) {
	events := rayevents.Lines()
	for _, e := range rayevents.Of("PLATFORM")[:3] { // others of the same time
		events = append(events, strings.ReplaceAll(e, `"objectKind": "`, `"objectKind": "Other`))
	}
	want := dump(loadLines(t, events))
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		again := append(slices.Clone(events), events[random.IntN(len(events)):]...)
		random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		got := dump(loadLines(t, again))
		must.True(t, got == want, "got  %s\nwant %s", got, want)
	}
}

// TestDamagedPlatformEvents: whatever fields hold, an event with an ID is a row, and one without is counted.
func TestDamagedPlatformEvents(t *testing.T) {
	event := func(head, body string) string {
		return `{"eventType": "PLATFORM_EVENT", ` + head + `, "platformEvent": {` + body + `}}`
	}
	long := strings.Repeat("x", 1<<20)
	const badTime = "with an invalid time"
	for name, tt := range map[string]struct {
		event   string
		row     *entities.PlatformEvent
		warning string
	}{
		"snake case": {
			`{"event_id": "YQ==", "timestamp": "2026-11-22T10:00:00Z", "severity": "INFO", "platform_event": {"object_kind": "Pod", ` +
				`"object_name": "p", "custom_fields": {"count": "2"}}}`,
			&entities.PlatformEvent{
				ID: "YQ==", Time: rayevents.At("10:00:00"), Severity: "INFO", ObjectKind: "Pod", ObjectName: "p",
				CustomFields: map[string]string{"count": "2"},
			}, "",
		},
		"wrong types": {
			event(`"eventId": "YQ==", "timestamp": -5, "severity": 99`,
				`"source": [1], "objectKind": {"a": 1}, "objectName": 7, `+
					`"message": null, "customFields": {"a": 1, "b": null}, "reason": []`),
			&entities.PlatformEvent{ID: "YQ==", Severity: "99", CustomFields: map[string]string{"a": "", "b": ""}},
			badTime,
		},
		"unknown fields and values": {
			event(`"eventId": "YQ==", "novel": {"x": [1]}, "severity": "NOVEL"`,
				`"source": {"platform": "MOON", "novel": 1}, "novel": {"a": {}}`),
			&entities.PlatformEvent{ID: "YQ==", Severity: "NOVEL", Platform: "MOON"}, "",
		},
		"long": {event(`"eventId": "YQ=="`, `"message": "`+long+`"`),
			&entities.PlatformEvent{ID: "YQ==", Message: long}, ""},
		"long ago": {event(`"eventId": "YQ==", "timestamp": "1821-01-01T00:00:00Z"`, ``),
			&entities.PlatformEvent{ID: "YQ=="}, badTime},
		"no ID":          {event(`"severity": "INFO"`, `"message": "m"`), nil, "without the ID"},
		"an ID is a 7":   {event(`"eventId": 7`, `"message": "m"`), nil, "without the ID"},
		"it is a list":   {`{"eventId": "YQ==", "platformEvent": [1]}`, nil, "unknown type"},
		"it is not JSON": {`{"eventId": "YQ==", "platformEvent": {"message": }}`, nil, "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			s := loadLines(t, []string{tt.event})
			var want []entities.PlatformEvent
			if tt.row != nil {
				want = append(want, *tt.row)
			}
			says.Equal(t, fmt.Sprintf("%+v", s.PlatformEvents), fmt.Sprintf("%+v", want))
			warnings := strings.Join(s.Warnings, ", ")
			says.True(t, (tt.warning == "") == (warnings == "") && strings.Contains(warnings, tt.warning),
				"warnings %q, want one about %q", warnings, tt.warning)
		})
	}
}

// TestDamagedGroupEvents: wrong types and absurd numbers in events of placement groups read as absent, bundles and
// transitions stay.
func TestDamagedGroupEvents(t *testing.T) {
	const id = `"placementGroupId": "010101010101010101010101010101000000"`
	s := loadLines(t, []string{
		`{"timestamp": "2026-11-22T10:00:00Z", "placementGroupDefinitionEvent": {` + id +
			`, "name": 5, "strategy": 99, "isDetached": "x", ` +
			`"creationRequestReceivedNs": "-7", "bundles": [{"bundleIndex": "x", "unitResources": [1]}, null, 3], "novel": {}}}`,
		`{"placementGroupLifecycleEvent": {` + id +
			`, "stateTransitions": [{"state": "NOVEL", "timestamp": 12, "schedulingAttempt": -1, ` +
			`"highestRetryDelayMs": "x", "bundlePlacements": [{"bundleIndex": 1e99, "nodeId": "short"}, 4]}, {"state": 7, "timestamp": "2026-11-22T10:00:00Z"}]}}`,
		`{"placementGroupLifecycleEvent": {"stateTransitions": []}}`,
	})
	must.True(t, len(s.PlacementGroups) == 1, "%+v", s.PlacementGroups)
	g := s.PlacementGroups[0]
	if g.Name != "" || g.Strategy != "99" || g.Detached || g.Created != 0 || len(g.Bundles) != 3 ||
		len(g.Transitions) != 2 {
		t.Errorf("%+v", g)
	}
	first, last := g.Transitions[0], g.Transitions[1]
	says.True(t, first.State == "NOVEL" && first.Time == 0 && first.RetryDelayMs == 0 && last.State == "7", "%+v",
		g.Transitions)
}

// TestDamagedSubmissionEvents likewise, of submissions.
func TestDamagedSubmissionEvents(t *testing.T) {
	s := loadLines(t, []string{
		`{"timestamp": "2026-11-22T10:00:00Z", "submissionJobDefinitionEvent": {"submissionId": "a", "entrypoint": [1], "config": "x", ` +
			`"entrypointResources": {"numCpus": "x", "memory": 1e400, "customResources": {"r": null}}, "novel": {}}}`,
		`{"submissionJobLifecycleEvent": {"submissionId": "a", "stateTransitions": [{"state": "NOVEL", "timestamp": "-1", "driverExitCode": "x", ` +
			`"driverNodeId": "!"}, null, {"state": 4, "timestamp": "2026-11-22T10:00:00Z", "driverExitCode": null}]}}`,
		`{"submissionJobLifecycleEvent": {"submissionId": 5, "stateTransitions": []}}`,
	})
	must.True(t, len(s.Submissions) == 1, "%+v", s.Submissions)
	if sub := s.Submissions[0]; sub.Entrypoint != "" || sub.Metadata != nil || sub.NumCPUs != 0 ||
		len(sub.Transitions) != 3 || sub.Transitions[2].HasExitCode {
		t.Errorf("%+v", sub)
	}
}

// TestNumbersOfRowsAreFinite: rows are written to an index as JSON, which has no infinity and no NaN.
func TestNumbersOfRowsAreFinite(t *testing.T) {
	const resources = `{"CPU": "Infinity", "GPU": "-Infinity", "memory": 1e400, "r": "NaN", "s": 2.5}`
	s := loadLines(t, []string{
		`{"actorDefinitionEvent": {"actorId": "AQEBAQEBAQEBAQEBAQAAAA==", "requiredResources": ` + resources + `}}`,
		`{"taskDefinitionEvent": {"taskId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAAAA", "requiredResources": ` + resources + `}}`,
		`{"nodeDefinitionEvent": {"nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ=="}}`,
		`{"nodeLifecycleEvent": {"nodeId": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", "stateTransitions": [{"state": "ALIVE", "resources": ` + resources + `}]}}`,
		`{"submissionJobDefinitionEvent": {"submissionId": "a", "entrypointResources": {"numCpus": "Infinity", "numGpus": "NaN", "customResources": ` + resources + `}}}`,
		`{"placementGroupDefinitionEvent": {"placementGroupId": "AQEBAQEBAQEBAQEBAQEBAQAA", "bundles": [{"unitResources": ` + resources + `}]}}`,
		`{"placementGroupLifecycleEvent": {"placementGroupId": "AQEBAQEBAQEBAQEBAQEBAQAA", "stateTransitions": [{"state": "PENDING", "highestRetryDelayMs": "Infinity"}]}}`,
	})
	must.True(t, len(s.Actors) == 1 && len(s.Nodes) == 1 && len(s.Submissions) == 1 && len(s.PlacementGroups) == 1,
		"%d actors, %d nodes, %d submissions, %d groups: %v", len(s.Actors), len(s.Nodes), len(s.Submissions),
		len(s.PlacementGroups), s.Warnings)
	rows := must.Get(json.Marshal([]any{s.Actors, s.Nodes, s.Submissions, s.PlacementGroups}))(t)
	n := strings.Count(string(rows), `"s":2.5`)
	says.True(t, n == 4, "the numbers of %d rows are read, want 4: %s", n, rows)
	task := s.Tasks.Row(0, 0).Resources()
	says.True(t, strings.Contains(string(task), `"s": 2.5`), "the task's resources are %q", task)
}

// TestPlatformEventsTakeMemory: they are charged to what a session may hold.
func TestPlatformEventsTakeMemory(t *testing.T) {
	b := entities.NewBuilder()
	for i := range int64(1000) {
		event := entities.PlatformEvent{ID: "a", Time: i, Message: strings.Repeat("x", 1000)}
		b.MergeEntity(&entities.Update{Kind: entities.KindPlatformEvent, Time: i, Hash: 1, Platform: event})
	}
	set, _ := b.Set()
	if n := b.MemoryBytes(); n < 1_000_000 || n != set.MemoryBytes() {
		t.Errorf("%d bytes while they are read, %d after", n, set.MemoryBytes())
	}
}
