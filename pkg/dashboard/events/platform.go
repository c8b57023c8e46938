package events

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// maxPlatformEvents is how many events are shown, the last ones. Ray's dashboard keeps 1,000.
const maxPlatformEvents = 10_000

// Platform is /api/v0/platform_events (ray/dashboard/modules/platform_events/platform_event_head.py). Without such events it answers 404, as Ray
// does unless it was told to watch its platform. Ray's frontend then hides the page of events, which would be empty.
func Platform(w http.ResponseWriter, r *request.Request) error {
	rows, err := PlatformRows(r)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return reply.Text(w, http.StatusNotFound, request.NoSuchRoute)
	}
	return reply.OK(w, "Retrieved platform events", "events", rows)
}

// platformEvent is the last delivery of an event of the platform: a row of the saved answer, or an event of the session.
type platformEvent struct {
	at    int64 // Unix ns, 0: not known
	saved *pyjson.Object
	told  *entities.PlatformEvent
}

// PlatformRows returns the events of the platform as Ray's dashboard shows them, each once, the newest first: from events and the saved answer. If
// both have an event, the later delivery counts; if the deliveries are the same, the saved one counts.
func PlatformRows(r *request.Request) ([]*pyjson.Object, error) {
	saved, err := savedPlatformEvents(r)
	if err != nil {
		return nil, err
	}
	var all []platformEvent
	byID := map[string]int{} // indices in all
	add := func(id string, e platformEvent) {
		i, known := byID[id]
		switch {
		case r.At != 0 && e.at > r.At:
		case !known:
			byID[id] = len(all)
			all = append(all, e)
		case e.at > all[i].at:
			all[i] = e
		}
	}
	for _, row := range saved {
		add(row.String("eventId"), platformEvent{at: PlatformTime(row), saved: row})
	}
	for i := range r.Session.PlatformEvents {
		p := &r.Session.PlatformEvents[i]
		add(p.ID, platformEvent{at: p.Time, told: p})
	}
	slices.SortStableFunc(all, func(a, b platformEvent) int { return cmp.Compare(b.at, a.at) })
	rows := make([]*pyjson.Object, min(len(all), maxPlatformEvents))
	for i := range rows {
		if rows[i] = all[i].saved; rows[i] == nil {
			rows[i] = platformRow(all[i].told)
		}
	}
	return rows, nil
}

// savedPlatformEvents returns the events of the last saved answer that has any.
func savedPlatformEvents(r *request.Request) (rows []*pyjson.Object, err error) {
	for _, url := range r.Session.Snapshots.URLs("/api/v0/platform_events") {
		data, _, err := r.SavedData(r.Context(), url)
		if err != nil {
			return nil, err
		}
		for _, v := range data.List("events") {
			if row, ok := v.(*pyjson.Object); ok {
				rows = append(rows, row)
			}
		}
		if len(rows) > 0 {
			break
		}
	}
	return rows, nil
}

// PlatformTime is when an event of PlatformRows happened last, Unix ns; 0 if that is not known.
func PlatformTime(row *pyjson.Object) int64 {
	t, err := time.Parse(time.RFC3339Nano, row.String("timestamp"))
	if err != nil || t.Year() < 1970 || t.Year() >= 2262 {
		return 0
	}
	return t.UnixNano()
}

// platformRow is an event as the dashboard shows it: Ray's own message, without what the event stream adds to it (session and node).
func platformRow(p *entities.PlatformEvent) *pyjson.Object {
	row := pyjson.Obj("eventId", p.ID, "sourceType", "CLUSTER_LIFECYCLE", "eventType", "PLATFORM_EVENT")
	if p.Time != 0 {
		row.Set("timestamp", protobufTime(p.Time))
	}
	row.Set("severity", p.Severity)
	row.Set("message", p.Message)
	row.Set("platformEvent", pyjson.Obj(
		"source", pyjson.Obj("platform", p.Platform, "component", p.Component, "metadata", styled(p.Metadata)),
		"objectKind", p.ObjectKind, "objectName", p.ObjectName, "message", p.Message, "reason", p.Reason, "customFields", styled(p.CustomFields),
	))
	row.Set("sessionName", "")
	row.Set("nodeId", "")
	return row
}

// styled returns a map as Ray's dashboard answers it, keys in camelCase.
func styled(m map[string]string) any { return reply.GoogleStyleValue(reply.StringMap(m)) }

// protobufTime is a time (Unix ns) in protobuf's JSON: with 0, 3, 6 or 9 digits of a second.
func protobufTime(ns int64) string {
	layout := "2006-01-02T15:04:05"
	switch {
	case ns%1e9 == 0:
	case ns%1e6 == 0:
		layout += ".000"
	case ns%1e3 == 0:
		layout += ".000000"
	default:
		layout += ".000000000"
	}
	return time.Unix(0, ns).UTC().Format(layout + "Z")
}
