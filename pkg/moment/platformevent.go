package moment

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// maxPlatformEvents is how many events of the platform are known, the last ones. Ray's dashboard keeps 1,000.
const maxPlatformEvents = 10_000

// PlatformEvent is the last delivery of an event of the platform. Of a saved one, only what it is about is read: what happened to which object.
type PlatformEvent struct {
	entities.PlatformEvent
	Saved *pyjson.Object // its row in the dashboard's list, if that has the last delivery
}

// PlatformEvents returns the events of the platform, each once, the newest first: from events and the saved answer. If both have an event, the
// later delivery counts; if the deliveries are the same, the saved one counts.
func (m *Moment) PlatformEvents(ctx context.Context) ([]PlatformEvent, error) {
	saved, err := m.savedPlatformEvents(ctx)
	if err != nil {
		return nil, err
	}
	var all []PlatformEvent
	byID := map[string]int{} // indices in all
	add := func(e PlatformEvent) {
		i, known := byID[e.ID]
		switch {
		case !m.existed(e.Time):
		case !known:
			byID[e.ID] = len(all)
			all = append(all, e)
		case e.Time > all[i].Time:
			all[i] = e
		}
	}
	for _, row := range saved {
		of := row.Object("platformEvent")
		add(PlatformEvent{entities.PlatformEvent{
			ID: row.String("eventId"), Time: platformTime(row), Severity: row.String("severity"), ObjectKind: of.String("objectKind"),
			ObjectName: of.String("objectName"), Reason: of.String("reason"), Message: of.String("message"),
		}, row})
	}
	for _, p := range m.Session.PlatformEvents {
		add(PlatformEvent{PlatformEvent: p})
	}
	slices.SortStableFunc(all, func(a, b PlatformEvent) int { return cmp.Compare(b.Time, a.Time) })
	return all[:min(len(all), maxPlatformEvents)], nil
}

// savedPlatformEvents returns the events of the last saved answer that has any.
func (m *Moment) savedPlatformEvents(ctx context.Context) (rows []*pyjson.Object, err error) {
	for _, url := range m.Session.Snapshots.URLs("/api/v0/platform_events") {
		data, _, err := m.SavedData(ctx, url)
		if err != nil {
			return nil, err
		}
		if rows = Objects(data.List("events")); len(rows) > 0 {
			break
		}
	}
	return rows, nil
}

// platformTime is when a saved event happened last, Unix ns; 0 if that is not known.
func platformTime(row *pyjson.Object) int64 {
	t, err := time.Parse(time.RFC3339Nano, row.String("timestamp"))
	if err != nil || t.Year() < 1970 || t.Year() >= 2262 {
		return 0
	}
	return t.UnixNano()
}
