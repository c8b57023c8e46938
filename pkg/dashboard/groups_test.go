package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/rayevents"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

const (
	placedGroup  = "010101010101010101010101010101000000"
	pendingGroup = "020202020202020202020202020201000000"
)

// groups gives state, scheduling state and the first bundle's node of all placement groups.
func groups(a *asker) (text string) {
	o, _ := a.body("/api/v0/placement_groups?detail=1").(*pyjson.Object)
	for _, v := range o.Object("data").Object("result").List("result") {
		row := v.(*pyjson.Object)
		bundle, _ := row.List("bundles")[0].(*pyjson.Object)
		text += fmt.Sprintf("%s %s %s on %.2s; ", row.String("name"), row.String("state"),
			row.Object("stats").String("scheduling_state"), bundle.String("node_id"))
	}
	return text
}

// TestPlacementGroupsFromEvents: events tell what a live dashboard would have answered, at each moment.
func TestPlacementGroupsFromEvents(t *testing.T) {
	a := told(t, nil)
	bundle := func(group string, index int, gpu, node string) string {
		return fmt.Sprintf(`{"bundle_id": {"placement_group_id": %q, "bundle_index": %d}, "unit_resources": {"CPU": 1.5, "GPU": %s}, "node_id": %q, "label_selector": {"zone": "a"}}`,
			group, index, gpu, node)
	}
	want := `{"placement_group_id": "` + placedGroup +
		`", "name": "placed", "creator_job_id": "01000000", "state": "REMOVED", "bundles": [` +
		bundle(placedGroup, 0, "0.0", strings.Repeat("01", 28)) + ", " +
		bundle(placedGroup, 1, "0.0", strings.Repeat("02", 28)) + `], "is_detached": false, ` +
		`"stats": {"creation_request_received_ns": "1795341900000000017", "scheduling_started_time_ns": "1795341901000000000", "scheduling_latency_us": "1000000", ` +
		`"end_to_end_creation_latency_us": "1999999", "scheduling_attempt": 1, "highest_retry_delay_ms": 0.0, "scheduling_state": "REMOVED"}, ` +
		`"topology_strategy": {}, "topology_assignments": {}}, ` +
		`{"placement_group_id": "` + pendingGroup +
		`", "name": "too-large", "creator_job_id": "01000000", "state": "PENDING", "bundles": [` +
		bundle(pendingGroup, 0, "1.0", "") + ", " + bundle(pendingGroup, 1, "1.0", "") + `], "is_detached": true, ` +
		`"stats": {"creation_request_received_ns": "1795341900000000017", "scheduling_started_time_ns": "0", "scheduling_latency_us": "0", ` +
		`"end_to_end_creation_latency_us": "0", "scheduling_attempt": 3, "highest_retry_delay_ms": 1000.5, "scheduling_state": "INFEASIBLE"}, ` +
		`"topology_strategy": {}, "topology_assignments": {}}`
	got := a.get("/api/v0/placement_groups?detail=1").Body.String()
	says.True(t, strings.Contains(got, want), "got  %s\nwant %s", got, want)
	for clock, want := range map[string]string{
		"10:04:59": "",
		"10:05:00": "placed PENDING QUEUED on ; too-large PENDING QUEUED on ; ",
		"10:05:01": "placed PREPARED SCHEDULING_STARTED on 01; too-large PENDING QUEUED on ; ",
		"10:14:59": "placed CREATED FINISHED on 01; too-large PENDING INFEASIBLE on ; ",
	} {
		if a.at = rayevents.At(clock); a.at == rayevents.At("10:05:00") {
			a.at += 17 // ns, as the definition says
		}
		says.Equal(t, groups(a), want, "at %s", clock)
	}
}

// TestPlacementGroupsOverSnapshot: events win on the state, unless a snapshot shows the end that they do not know of;
// what either lacks is taken from the other.
func TestPlacementGroupsOverSnapshot(t *testing.T) {
	const url = "/api/v0/placement_groups?detail=1&limit=10000"
	saved := func(rows string) map[string]string {
		return map[string]string{url: `{"result": true, "msg": "", "data": {"result": {"total": 2, "result": [` + rows +
			`]}}}`}
	}
	row := func(group, name, state, rest string) string {
		return `{"placement_group_id": "` + group + `", "name": "` + name +
			`", "creator_job_id": "01000000", "state": "` + state + `"` + rest + `}`
	}
	const stats = `, "is_detached": false, "bundles": [{"bundle_id": {"bundle_index": 7}, "node_id": "77"}], "stats": {"creation_request_received_ns": "5", ` +
		`"scheduling_state": "SAVED", "end_to_end_creation_latency_us": "12"}`
	for name, tt := range map[string]struct{ saved, events, want string }{
		"the same state": {row(placedGroup, "a", "REMOVED", stats), "PLACEMENT",
			"a REMOVED SAVED on 77; too-large PENDING INFEASIBLE on ; "},
		"an older state": {row(placedGroup, "a", "CREATED", stats), "PLACEMENT",
			"a REMOVED REMOVED on 01; too-large PENDING INFEASIBLE on ; "},
		"an end": {row(pendingGroup, "b", "REMOVED", stats), "PLACEMENT",
			"placed REMOVED REMOVED on 01; b REMOVED SAVED on 77; "},
		"without detail": {row(pendingGroup, "b", "PENDING", ""), "PLACEMENT",
			"placed REMOVED REMOVED on 01; b PENDING INFEASIBLE on ; "},
		"without events": {row(pendingGroup, "b", "PENDING", `, "bundles": [{"node_id": "77"}]`), "NODE",
			"b PENDING  on 77; "},
		"without a definition": {row(placedGroup, "a", "PENDING", stats), "PLACEMENT_GROUP_LIFECYCLE",
			"a REMOVED REMOVED on 77; "},
	} {
		t.Run(name, func(t *testing.T) {
			events := rayevents.Of(tt.events)
			if tt.events == "PLACEMENT_GROUP_LIFECYCLE" {
				events = events[:4] // of the group that was placed
			}
			a := toldBy(t, events, saved(tt.saved))
			says.Equal(t, groups(a), tt.want)
		})
	}
	for taken, want := range map[string]string{"10:05:02": "b PENDING INFEASIBLE on ; ",
		"11:00:00": "b PENDING SAVED on 77; "} {
		a := savedSession(t, savedAt{url, taken, saved(row(pendingGroup, "b", "PENDING", stats))[url]})
		got := groups(a)
		says.True(t, strings.Contains(got, want), "the same state, saved at %s: %q, want %q", taken, got, want)
	}
	o, _ := toldBy(t, rayevents.Of("PLACEMENT"), saved(row(placedGroup, "a", "CREATED", stats))).body(
		"/api/v0/placement_groups?detail=1").(*pyjson.Object)
	first, _ := o.Object("data").Object("result").List("result")[0].(*pyjson.Object)
	says.Equal(t, first.Object("stats").String("creation_request_received_ns"), "5", "asked for at")
}
