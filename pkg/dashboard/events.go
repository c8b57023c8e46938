package dashboard

import (
	"bytes"
	"cmp"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
)

// Cluster events are what Ray's processes write to logs/events/event_{SOURCE}*.log, a JSON object a line
// (ray/dashboard/modules/event/event_utils.py).

// eventSources are the sources whose files the dashboard reads (ray.rpc.Event.SourceType); export events are not among them.
var eventSources = []string{"COMMON", "CORE_WORKER", "GCS", "RAYLET", "CLUSTER_LIFECYCLE", "AUTOSCALER", "JOBS"}

const (
	maxEventFileBytes = 16 << 20 // read of one file, from its end
	maxEventLine      = 2 << 20  // longer lines are left out, as Ray does
	maxJobEvents      = 10_000   // kept of one job, the last
	globalEvents      = "global" // of events that are of no job
)

// clusterEvents gives the session's cluster events in the order of nodes and files, each once, with keys as they were written.
func (d *Dashboard) clusterEvents(r *Request) ([]*pyjson.Object, error) {
	all, err := d.derived.get(r.Session).events.get(func() ([]*pyjson.Object, error) { return d.readEvents(r) })
	if err != nil || r.At == 0 {
		return all, err
	}
	var until []*pyjson.Object
	for _, event := range all {
		if event.Int("timestamp")*int64(time.Second) <= r.At {
			until = append(until, event)
		}
	}
	return until, nil
}

func (d *Dashboard) readEvents(r *Request) ([]*pyjson.Object, error) {
	var events []*pyjson.Object
	seen := map[string]bool{}
	for _, log := range d.logNames(r.Session).events {
		lines, err := d.eventLines(r, log)
		if err != nil {
			return nil, err
		}
		for _, event := range lines {
			if id := event.String("event_id"); !seen[id] {
				seen[id] = true
				events = append(events, event)
			}
		}
	}
	return events, nil
}

func isEventFile(p string) bool {
	dir, name := path.Split(p)
	return dir == "events/" && strings.HasSuffix(name, ".log") && slices.ContainsFunc(eventSources, func(s string) bool { return strings.Contains(name, s) })
}

// eventLines reads one file's events. Lines that are not JSON are left out, as Ray does.
func (d *Dashboard) eventLines(r *Request, log nodeLog) ([]*pyjson.Object, error) {
	f, err := r.Session.Logs.Open(r.Context(), log.node, log.path)
	if err != nil || f.Size() == 0 {
		return nil, err
	}
	data, err := f.ReadRange(r.Context(), max(0, f.Size()-maxEventFileBytes), f.Size())
	if err != nil {
		return nil, err
	}
	var events []*pyjson.Object
	for line := range bytes.Lines(data) {
		if len(line) > maxEventLine || line[len(line)-1] != '\n' {
			continue
		}
		event, err := pyjson.ParseObject(line)
		if err != nil || event.String("event_id") == "" {
			continue
		}
		if text := event.String("message"); strings.Contains(text, `\`) {
			event.Set("message", strings.NewReplacer(`\n`, "\n", `\r`, "\n").Replace(text))
		}
		events = append(events, event)
	}
	return events, nil
}

// eventsByJob groups events as /events shows them: by job, keys in camelCase, the saved answer first and then what only logs have.
func (d *Dashboard) eventsByJob(r *Request) (*pyjson.Object, error) {
	data, _, err := savedData(r, "/events")
	if err != nil {
		return nil, err
	}
	fromLogs, err := d.clusterEvents(r)
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
		add(cmp.Or(event.Object("custom_fields").String("job_id"), globalEvents), googleStyle(event))
	}
	grouped := &pyjson.Object{}
	for _, job := range jobs {
		events := byJob[job]
		grouped.Set(job, events[max(0, len(events)-maxJobEvents):])
	}
	return grouped, nil
}

// events is /events, all or those of ?job_id= (ray/dashboard/modules/event/event_head.py).
func (d *Dashboard) events(w http.ResponseWriter, r *Request) error {
	grouped, err := d.eventsByJob(r)
	if err != nil {
		return err
	}
	if !r.Query().Has("job_id") {
		return reply(w, "All events fetched.", "events", grouped)
	}
	job := r.Query().Get("job_id")
	zone, err := clusterZone(r)
	if err != nil {
		return err
	}
	events := []any{}
	for _, v := range grouped.List(job) {
		event := v.(*pyjson.Object).Clone()
		event.Set("time", eventTime(event, zone))
		events = append(events, event)
	}
	return reply(w, "Job events fetched.", "jobId", job, "events", events)
}

// eventTime is the time of an event as people in the cluster's zone read it.
func eventTime(event *pyjson.Object, zone *time.Location) string {
	return time.Unix(event.Int("timestamp"), 0).In(zone).Format("2006-01-02 15:04:05")
}

// clusterEventRows gives the rows of the State API's cluster events (_list_cluster_events_impl in ray/dashboard/modules/event/event_head.py).
//
// Ray's C++ processes write a time as a number and its Python ones as a string, and Ray fails to sort the two: such a list is an error
// here too, since a caller who gets one from a live cluster must not get an answer of another kind from a stored one.
func (d *Dashboard) clusterEventRows(r *Request) (rowSet, error) {
	events, err := d.clusterEvents(r)
	if err != nil {
		return rowSet{}, err
	}
	zone, err := clusterZone(r)
	if err != nil {
		return rowSet{}, err
	}
	set := rowSet{partialFailure: "", compare: func(a, b *pyjson.Object) int { return cmp.Compare(a.Int("timestamp"), b.Int("timestamp")) }}
	texts, numbers := 0, 0
	for _, event := range events {
		if _, isText := event.Get("timestamp").(string); isText {
			texts++
		} else {
			numbers++
		}
		row := event.Clone()
		row.Set("time", eventTime(event, zone))
		set.rows = append(set.rows, row)
	}
	if texts > 0 && numbers > 0 {
		return rowSet{}, &apiError{http.StatusInternalServerError, "Ray cannot list these cluster events: some carry their time as text, some as a number. " +
			"/events has them all."}
	}
	return set, nil
}
