package dashboard

import (
	"fmt"
	"net/http"

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

// weighed reserves memory for an answer of so many rows that also reads the snapshots of some URLs, before its handler builds it.
func weighed(h request.Handler, rows func(*session.Session) int, saved ...string) request.Handler {
	return func(w http.ResponseWriter, r *request.Request) error {
		bytes := int64(rows(r.Session)) * rowBytes
		for _, path := range saved {
			bytes += r.Session.Snapshots.LargestOf(path) * textTimes
		}
		if bytes > littleBytes {
			release, err := r.Memory.Reserve(r.Context(), budget.Work, bytes)
			if err != nil {
				return fmt.Errorf("answer from %s: %w", r.Session.Ref, err)
			}
			defer release()
		}
		return h(w, r)
	}
}

func noRows(*session.Session) int            { return 0 }
func actorCount(s *session.Session) int      { return len(s.Actors) }
func nodeCount(s *session.Session) int       { return len(s.Nodes) }
func jobCount(s *session.Session) int        { return len(s.Jobs) + len(s.Submissions) }
func nodesAndWorkers(s *session.Session) int { return len(s.Nodes) + len(s.Workers) }

// platformWeight counts each event's message twice: the answer has it twice.
func platformWeight(s *session.Session) int {
	var bytes int64
	for i := range s.PlatformEvents {
		bytes += rowBytes + 2*s.PlatformEvents[i].MemoryBytes()
	}
	return int(bytes / rowBytes)
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
