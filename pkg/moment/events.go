package moment

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// Cluster events are the JSON objects, one per line, that Ray's processes write to logs/events/event_{SOURCE}*.log
// (ray/dashboard/modules/event).
const (
	maxEventFileBytes = 16 << 20  // read of one file, from its end
	maxEventLine      = 2 << 20   // longer lines are left out, as Ray does
	maxEventMemory    = 128 << 20 // of all events of a session, which are kept
	textShare         = 8         // so many bytes that are read count as one of memory: there may be very many files
)

// eventCache caches the events of the logs.
type eventCache struct {
	events shared.Value[[]*pyjson.Object]
}

// ClusterEvents returns the cluster events that Ray wrote to logs by the moment, each once, in the order of nodes and
// files. They have the keys that Ray wrote.
func (m *Moment) ClusterEvents(ctx context.Context) ([]*pyjson.Object, error) {
	var version strings.Builder
	for _, log := range m.LogNames().Events {
		version.WriteString(m.Session.Logs.Version(log.Node, log.Path, sessionlogs.Whole) + ",")
	}
	all, err := Cached[eventCache](m).events.GetFor(ctx, version.String(),
		func(ctx context.Context) ([]*pyjson.Object, error) {
			return m.readEvents(ctx, maxEventMemory)
		})
	if err != nil || m.At == 0 {
		return all, err
	}
	var until []*pyjson.Object
	for _, event := range all {
		if TimeIn(event, "timestamp", time.Second) <= m.At {
			until = append(until, event)
		}
	}
	return until, nil
}

// readEvents reads the cluster events of all files, whatever their times. Events beyond maxBytes of memory are left
// out, with a warning in the server's log.
func (m *Moment) readEvents(ctx context.Context, maxBytes int64) ([]*pyjson.Object, error) {
	all := eventReader{left: maxBytes, seen: map[string]bool{}}
	for _, log := range m.LogNames().Events {
		f, err := m.Session.Logs.Open(ctx, log.Node, log.Path)
		if err != nil {
			return nil, err
		}
		data, err := f.ReadRange(ctx, max(0, f.Size()-maxEventFileBytes), f.Size())
		if ignoreMissing(err) != nil {
			return nil, err
		}
		if !all.addLines(data) {
			m.Log.WithField("session", m.Session.Ref.String()).Warn(
				"cluster events that take too much memory are left out")
			break
		}
	}
	return all.events, nil
}

// eventReader collects events, each once.
type eventReader struct {
	events []*pyjson.Object
	seen   map[string]bool
	left   int64 // bytes of memory that further events may take
}

// addLines adds the events of a file, one on each line, and reports whether there is memory for more. Lines that are
// not JSON are left out, as Ray does, and so are events that were added before.
func (e *eventReader) addLines(data []byte) bool {
	if e.left -= int64(len(data)) / textShare; e.left < 0 {
		return false
	}
	for line := range bytes.Lines(data) {
		if len(line) > maxEventLine || line[len(line)-1] != '\n' {
			continue
		}
		value, taken, err := pyjson.ParseWithin(line, e.left)
		if errors.Is(err, pyjson.ErrTooLarge) {
			return false
		}
		event, _ := value.(*pyjson.Object)
		id := event.String("event_id")
		if id == "" || e.seen[id] {
			continue
		}
		if text := event.String("message"); strings.Contains(text, `\`) {
			event.Set("message", strings.NewReplacer(`\n`, "\n", `\r`, "\n").Replace(text))
		}
		e.left -= taken
		e.seen[id] = true
		e.events = append(e.events, event)
	}
	return true
}

// maxPlatformEvents is how many events of the platform are known, the last ones. Ray's dashboard keeps 1,000.
const maxPlatformEvents = 10_000

// PlatformEvent is the last delivery of an event of the platform. Of a saved one, only what it is about is read: what
// happened to which object.
type PlatformEvent struct {
	entities.PlatformEvent
	Saved *pyjson.Object // its row in the dashboard's list, if that has the last delivery
}

// PlatformEvents returns the events of the platform, such as those of Kubernetes, by the moment, each once and the
// newest first. They are from the session's events and the saved answer. Of an event that both have, the later delivery
// counts; of equal deliveries, the saved one.
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
		case !m.isPast(e.Time):
		case !known || e.ID == "":
			byID[e.ID] = len(all)
			all = append(all, e)
		case e.Time > all[i].Time:
			all[i] = e
		}
	}
	for _, row := range saved {
		details := row.Object("platformEvent")
		add(PlatformEvent{entities.PlatformEvent{
			ID: row.String("eventId"), Time: platformTime(row), Severity: row.String("severity"),
			ObjectKind: details.String("objectKind"),
			ObjectName: details.String("objectName"), Reason: details.String("reason"),
			Message: details.String("message"),
		}, row})
	}
	for _, p := range m.Session.PlatformEvents {
		add(PlatformEvent{PlatformEvent: p})
	}
	slices.SortStableFunc(all, func(a, b PlatformEvent) int { return cmp.Compare(b.Time, a.Time) })
	return all[:min(len(all), maxPlatformEvents)], nil
}

// savedPlatformEvents returns the rows of the dashboard's saved list.
func (m *Moment) savedPlatformEvents(ctx context.Context) ([]*pyjson.Object, error) {
	url, err := m.savedListURL("/api/v0/platform_events")
	if url == "" || err != nil {
		return nil, err
	}
	data, _, err := m.SavedData(ctx, url)
	return Objects(data.List("events")), err
}

// platformTime returns when the event of a saved row happened last, Unix ns; 0 if that is not known.
func platformTime(row *pyjson.Object) int64 {
	t, err := time.Parse(time.RFC3339Nano, row.String("timestamp"))
	if err != nil || t.Year() < 1970 || t.Year() >= 2262 {
		return 0
	}
	return t.UnixNano()
}
