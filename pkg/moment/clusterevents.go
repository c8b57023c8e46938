package moment

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// Cluster events are the JSON objects, one per line, that Ray's processes write to logs/events/event_{SOURCE}*.log
// (ray/dashboard/modules/event).
const (
	maxEventFileBytes = 16 << 20  // read of one file, from its end
	maxEventLine      = 2 << 20   // longer lines are left out, as Ray does
	maxEventMemory    = 128 << 20 // of all events of a session, which are kept
)

// keptEvents keeps the events of the logs.
type keptEvents struct {
	events shared.Value[[]*pyjson.Object]
}

// ClusterEvents returns the session's cluster events in the order of nodes and files, each once, with keys as they were written.
func (m *Moment) ClusterEvents(ctx context.Context) ([]*pyjson.Object, error) {
	var version strings.Builder
	for _, log := range m.LogNames().Events {
		version.WriteString(m.Session.Logs.Version(log.Node, log.Path, 0) + ",")
	}
	all, err := Kept[keptEvents](m).events.GetFor(ctx, version.String(), func(ctx context.Context) ([]*pyjson.Object, error) {
		return m.readEvents(ctx, maxEventMemory)
	})
	if err != nil || m.At == 0 {
		return all, err
	}
	var until []*pyjson.Object
	for _, event := range all {
		if event.Int("timestamp")*int64(time.Second) <= m.At {
			until = append(until, event)
		}
	}
	return until, nil
}

// readEvents reads the events of all files, as many as take so many bytes of memory.
func (m *Moment) readEvents(ctx context.Context, most int64) ([]*pyjson.Object, error) {
	all := eventReader{left: most, seen: map[string]bool{}}
	for _, log := range m.LogNames().Events {
		f, err := m.Session.Logs.Open(ctx, log.Node, log.Path)
		if err != nil {
			return nil, err
		}
		data, err := f.ReadRange(ctx, max(0, f.Size()-maxEventFileBytes), f.Size())
		if err != nil {
			return nil, err
		}
		if !all.addLines(data) {
			m.Log.WithField("session", m.Session.Ref.String()).Warn("cluster events that take too much memory are left out")
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

// addLines adds the events of a file; false means that no more are added. Lines that are not JSON are left out, as Ray does.
func (e *eventReader) addLines(data []byte) bool {
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
