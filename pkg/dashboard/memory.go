package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/session"
)

// Answers about all actors, nodes and so on of a session are built in memory, from snapshots and tables, before anything is sent. Their
// memory is reserved first. Small answers are not counted.

const (
	// rowBytes is about the memory of one row while it is built; textTimes is how many times its text a parsed snapshot takes.
	rowBytes  = 2 << 10
	textTimes = 3
	// littleBytes is the size up to which an answer is small.
	littleBytes = 1 << 20
)

// weight estimates an answer's memory in bytes.
type weight func(*session.Session) int64

// weights are the estimates of the answers that may be large, by the beginning of the route's path.
var weights = []struct {
	path   string
	weight weight
}{
	{"/logical/actors", rows(func(s *session.Session) int { return len(s.Actors) }, "/logical/actors")},
	{"/api/v0/actors", rows(func(s *session.Session) int { return len(s.Actors) }, "/logical/actors", "/api/v0/actors")},
	{"/nodes", rows(func(s *session.Session) int { return len(s.Nodes) + len(s.Workers) }, "/nodes")},
	{"/api/v0/nodes", rows(func(s *session.Session) int { return len(s.Nodes) }, "/nodes", "/api/v0/nodes")},
	{"/api/jobs", rows(func(s *session.Session) int { return len(s.Jobs) + len(s.Submissions) }, "/api/jobs")},
	{"/api/v0/jobs", rows(func(s *session.Session) int { return len(s.Jobs) + len(s.Submissions) }, "/api/jobs", "/api/v0/jobs")},
	{"/api/v0/workers", rows(workersAndLogs, "/api/v0/workers")},
	{"/api/v0/placement_groups", rows(groupsAndBundles, "/api/v0/placement_groups")},
	{"/api/v0/platform_events", platformEvents},
	{"/api/v0/objects", rows(func(*session.Session) int { return 0 }, "/api/v0/objects")},
	{"/api/v0/runtime_envs", rows(func(s *session.Session) int { return len(s.Nodes) }, "/api/v0/runtime_envs")},
	{"/events", rows(func(*session.Session) int { return 0 }, "/events")},
}

// rows is the weight of an answer of count rows that also reads the snapshots of some URLs.
func rows(count func(*session.Session) int, saved ...string) weight {
	return func(s *session.Session) int64 {
		bytes := int64(count(s)) * rowBytes
		for _, path := range saved {
			bytes += s.Snapshots.LargestOf(path) * textTimes
		}
		return bytes
	}
}

// platformEvents is the weight of their answer, which has each message twice.
func platformEvents(s *session.Session) int64 {
	bytes := s.Snapshots.LargestOf("/api/v0/platform_events") * textTimes
	for i := range s.PlatformEvents {
		bytes += rowBytes + 2*s.PlatformEvents[i].MemoryBytes()
	}
	return bytes
}

// logsOfWorker is how many logs each worker leaves: its own, and those of what it prints.
const logsOfWorker = 3

// workersAndLogs counts the workers that events or only the names of logs tell of.
func workersAndLogs(s *session.Session) int {
	logs := 0
	for _, node := range s.Logs.Nodes() {
		logs += len(s.Logs.Paths(node))
	}
	return len(s.Workers) + logs/logsOfWorker
}

func groupsAndBundles(s *session.Session) int {
	n := len(s.PlacementGroups)
	for i := range s.PlacementGroups {
		n += len(s.PlacementGroups[i].Bundles)
	}
	return n
}

// weighed reserves memory for an answer before the handler builds it.
func (d *Dashboard) weighed(path string, h request.Handler) request.Handler {
	for _, known := range weights {
		if path != known.path && !strings.HasPrefix(path, known.path+"/") || strings.Contains(path, "/logs") {
			continue
		}
		return func(w http.ResponseWriter, r *request.Request) error {
			if bytes := known.weight(r.Session); bytes > littleBytes {
				release, err := r.Memory.Reserve(r.Context(), budget.Work, bytes)
				if err != nil {
					return fmt.Errorf("answer from %s: %w", r.Session.Ref, err)
				}
				defer release()
			}
			return h(w, r)
		}
	}
	return h
}
