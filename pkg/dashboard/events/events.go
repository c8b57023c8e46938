// Package events answers requests about cluster events: the JSON objects, one per line, that Ray's processes write to
// logs/events/event_{SOURCE}*.log (ray/dashboard/modules/event).
package events

import (
	"cmp"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/state"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Columns are the columns of the State API's list, in Ray's order (ClusterEventState in ray/util/state/common.py).
var Columns = []state.Column{
	state.Filterable("severity"), state.Shown("time"), state.Filterable("source_type"), state.Shown("message"), state.Filterable("event_id"), state.Detail("custom_fields"),
}

const (
	maxJobEvents = 10_000   // kept of one job, the last
	globalEvents = "global" // the group of events without a job
)

// eventsByJob groups events as /events shows them: by job, keys in camelCase, the saved answer first and then what only logs have.
func eventsByJob(r *request.Request) (*pyjson.Object, error) {
	data, _, err := r.SavedData(r.Context(), "/events")
	if err != nil {
		return nil, err
	}
	fromLogs, err := r.ClusterEvents(r.Context())
	if err != nil {
		return nil, err
	}
	byJob := map[string][]any{}
	var jobs []string
	seen := map[string]bool{}
	add := func(job string, event *pyjson.Object) {
		if id := event.String("eventId"); !seen[id] {
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
			if event, ok := v.(*pyjson.Object); ok && (r.At == 0 || event.Int("timestamp")*int64(time.Second) <= r.At) {
				add(job, event)
			}
		}
	}
	for _, event := range fromLogs {
		add(cmp.Or(event.Object("custom_fields").String("job_id"), globalEvents), reply.GoogleStyle(event))
	}
	grouped := &pyjson.Object{}
	for _, job := range jobs {
		events := byJob[job]
		grouped.Set(job, events[max(0, len(events)-maxJobEvents):])
	}
	return grouped, nil
}

// All is /events, all or those of ?job_id= (ray/dashboard/modules/event/event_head.py).
func All(w http.ResponseWriter, r *request.Request) error {
	grouped, err := eventsByJob(r)
	if err != nil {
		return err
	}
	if !r.Query().Has("job_id") {
		return reply.OK(w, "All events fetched.", "events", grouped)
	}
	job := r.Query().Get("job_id")
	zone, err := r.Zone(r.Context())
	if err != nil {
		return err
	}
	events := []any{}
	for _, v := range grouped.List(job) {
		event := v.(*pyjson.Object).Clone()
		event.Set("time", eventTime(event, zone))
		events = append(events, event)
	}
	return reply.OK(w, "Job events fetched.", "jobId", job, "events", events)
}

// eventTime returns the time of an event in the time zone of the cluster.
func eventTime(event *pyjson.Object, zone *time.Location) string {
	return time.Unix(event.Int("timestamp"), 0).In(zone).Format("2006-01-02 15:04:05")
}

// Rows returns the rows of the State API's cluster events (_list_cluster_events_impl in ray/dashboard/modules/event/event_head.py).
//
// Ray's C++ processes write a time as a number and its Python ones as a string, and a live Ray fails to sort the two: a cluster that ran a job
// has no such list. Here they are sorted by what they mean.
func Rows(r *request.Request) (state.RowSet, error) {
	events, err := r.ClusterEvents(r.Context())
	if err != nil {
		return state.RowSet{}, err
	}
	zone, err := r.Zone(r.Context())
	if err != nil {
		return state.RowSet{}, err
	}
	set := state.RowSet{PartialFailure: "", Compare: func(a, b *pyjson.Object) int { return cmp.Compare(a.Int("timestamp"), b.Int("timestamp")) }}
	for _, event := range events {
		row := event.Clone()
		row.Set("time", eventTime(event, zone))
		set.Rows = append(set.Rows, row)
	}
	return set, nil
}
