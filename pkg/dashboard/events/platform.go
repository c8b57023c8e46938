package events

import (
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Platform is /api/v0/platform_events (ray/dashboard/modules/platform_events/platform_event_head.py). Without such events it answers 404, as Ray
// does unless it was told to watch its platform. Ray's frontend then hides the page of events, which would be empty.
func Platform(w http.ResponseWriter, r *request.Request) error {
	rows, err := platformRows(r)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return reply.Text(w, http.StatusNotFound, request.NoSuchRoute)
	}
	return reply.OK(w, "Retrieved platform events", "events", rows)
}

// platformRows returns the events of the platform as Ray's dashboard shows them.
func platformRows(r *request.Request) ([]*pyjson.Object, error) {
	events, err := r.PlatformEvents(r.Context())
	rows := make([]*pyjson.Object, len(events))
	for i := range rows {
		if rows[i] = events[i].Saved; rows[i] == nil {
			rows[i] = platformRow(&events[i].PlatformEvent)
		}
	}
	return rows, err
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
