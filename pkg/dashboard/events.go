package dashboard

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// eventColumns are the columns of the State API's list, in Ray's order (ClusterEventState in ray/util/state/common.py).
var eventColumns = []column{
	filterable("severity"), shownOnly("time"), filterable("source_type"), shownOnly("message"), filterable("event_id"),
	detailOnly("custom_fields"),
}

const (
	maxJobEvents = 10_000   // kept of one job, the last
	globalEvents = "global" // the group of events without a job
)

// eventsByJob groups the events by the moment as /events shows them: by the job's ID, in hex, or globalEvents, with
// keys in camelCase, those of the saved answer first and then those that only logs have, the last maxJobEvents of each.
// jobs has the order of the groups.
func eventsByJob(r *Request) (jobs []string, byJob map[string][]*pyjson.Object, err error) {
	data, _, err := r.SavedData(r.Context(), "/events")
	if err != nil {
		return nil, nil, err
	}
	fromLogs, err := r.ClusterEvents(r.Context())
	if err != nil {
		return nil, nil, err
	}
	byJob = map[string][]*pyjson.Object{}
	seen := map[string]bool{}
	add := func(job string, event *pyjson.Object) {
		if id := event.String("eventId"); id == "" || !seen[id] {
			seen[id] = true
			if byJob[job] == nil {
				jobs = append(jobs, job)
			}
			byJob[job] = append(byJob[job], event)
		}
	}
	for job, v := range data.Object("events").All() {
		list, _ := v.([]any)
		for _, v := range list {
			if event, ok := v.(*pyjson.Object); ok &&
				(r.At == 0 || moment.TimeIn(event, "timestamp", time.Second) <= r.At) {
				add(job, event)
			}
		}
	}
	for _, event := range fromLogs {
		add(cmp.Or(event.Object("custom_fields").String("job_id"), globalEvents), googleStyle(event))
	}
	for job, events := range byJob {
		byJob[job] = events[max(0, len(events)-maxJobEvents):]
	}
	return jobs, byJob, nil
}

// clusterEvents is /events: all events by job, or those of ?job_id= (ray/dashboard/modules/event/event_head.py). Only
// the latter get their time as text here; in Ray's own answers events have it after its State API has listed them.
func clusterEvents(w http.ResponseWriter, r *Request) error {
	jobs, byJob, err := eventsByJob(r)
	if err != nil {
		return err
	}
	if !r.Query().Has("job_id") {
		all := &pyjson.Object{}
		for _, job := range jobs {
			all.Set(job, byJob[job])
		}
		return writeOK(w, "All events fetched.", "events", all)
	}
	job := r.Query().Get("job_id")
	zone, err := r.Zone(r.Context())
	if err != nil {
		return err
	}
	events := []any{}
	for _, event := range byJob[job] {
		event = event.Clone()
		event.Set("time", eventTime(event, zone))
		events = append(events, event)
	}
	return writeOK(w, "Job events fetched.", "jobId", job, "events", events)
}

func eventTime(event *pyjson.Object, zone *time.Location) string {
	return time.Unix(event.Int("timestamp"), 0).In(zone).Format("2006-01-02 15:04:05")
}

// eventRows returns the rows of the State API's cluster events (_list_cluster_events_impl in
// ray/dashboard/modules/event/event_head.py).
//
// Ray's C++ processes write a time as a number and its Python ones as a string, and a live Ray fails to sort the two: a
// cluster that ran a job has no such list. Here they are sorted by what they mean.
func eventRows(r *Request) (rowSet, error) {
	events, err := r.ClusterEvents(r.Context())
	if err != nil {
		return rowSet{}, err
	}
	zone, err := r.Zone(r.Context())
	if err != nil {
		return rowSet{}, err
	}
	set := rowSet{columns: eventColumns, partialFailure: "",
		compare: func(a, b *pyjson.Object) int { return cmp.Compare(a.Int("timestamp"), b.Int("timestamp")) }}
	for _, event := range events {
		row := event.Clone()
		row.Set("time", eventTime(event, zone))
		set.rows = append(set.rows, row)
	}
	return set, nil
}

// platformEvents is /api/v0/platform_events (ray/dashboard/modules/platform_events/platform_event_head.py). Without
// such events it answers 404, as Ray does unless it was told to watch its platform. Ray's frontend then hides the page
// of events, which would be empty.
func platformEvents(w http.ResponseWriter, r *Request) error {
	events, err := r.PlatformEvents(r.Context())
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return writeText(w, http.StatusNotFound, noSuchRoute)
	}
	rows := make([]*pyjson.Object, len(events))
	for i := range rows {
		if rows[i] = events[i].Saved; rows[i] == nil {
			rows[i] = platformRow(&events[i].PlatformEvent)
		}
	}
	return writeOK(w, "Retrieved platform events", "events", rows)
}

// platformRow is an event as the dashboard shows it: Ray's own message, without what the event stream adds to it
// (session and node).
func platformRow(p *entities.PlatformEvent) *pyjson.Object {
	row := pyjson.Obj("eventId", p.ID, "sourceType", "CLUSTER_LIFECYCLE", "eventType", "PLATFORM_EVENT")
	if p.Time != 0 {
		row.Set("timestamp", protobufTime(p.Time))
	}
	row.Set("severity", p.Severity)
	row.Set("message", p.Message)
	row.Set("platformEvent", pyjson.Obj(
		"source", pyjson.Obj("platform", p.Platform, "component", p.Component, "metadata", camelCaseKeys(p.Metadata)),
		"objectKind", p.ObjectKind, "objectName", p.ObjectName, "message", p.Message, "reason", p.Reason,
		"customFields", camelCaseKeys(p.CustomFields),
	))
	row.Set("sessionName", "")
	row.Set("nodeId", "")
	return row
}

// camelCaseKeys returns a map as Ray's dashboard answers it, keys in camelCase.
func camelCaseKeys(m map[string]string) any { return camelKeys(orEmpty(m)) }

// protobufTime is a time (Unix ns) in protobuf's JSON: with 0, 3, 6 or 9 digits of a second.
func protobufTime(ns int64) string {
	text := time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000")
	for strings.HasSuffix(text, "000") {
		text = strings.TrimSuffix(text, "000")
	}
	return strings.TrimSuffix(text, ".") + "Z"
}
