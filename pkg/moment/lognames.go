package moment

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// HeadBytes is the number of bytes at the beginning of a log that describe its process's start.
const HeadBytes = 64 << 10

// keptNames keeps the names.
type keptNames struct{ names shared.Value[*LogNames] }

// LogNames is what the names of a session's logs show.
type LogNames struct {
	Workers     []LogWorker
	Jobs        map[string]rayid.Node // submission → node that has its log
	Supervisors map[string]rayid.Node // submission → node that has its supervisor's log
	Events      []LogFile             // files of cluster events
}

// LogWorker is a worker or driver that left a log.
type LogWorker struct {
	Node rayid.Node
	ID   string
	Kind string
	PID  int64
}

const (
	SubmissionPrefix = "job-driver-"      // + submission ID + .log is a submission's own log
	SupervisorPrefix = "jobs/supervisor-" // + submission ID + .log is its supervisor's
	Suffix           = ".log"
)

// LogNames returns what the names of the session's logs show.
func (m *Moment) LogNames() *LogNames {
	s := m.Session
	// Nothing is read: it cannot fail.
	names, _ := Kept[keptNames](m).names.GetFor(context.Background(), strconv.FormatUint(s.Contents(), 16), func(context.Context) (*LogNames, error) {
		n := &LogNames{Jobs: map[string]rayid.Node{}, Supervisors: map[string]rayid.Node{}}
		for _, node := range s.Logs.Nodes() {
			for _, path := range s.Logs.Paths(node) {
				n.add(node, path)
			}
		}
		return n, nil
	})
	return names
}

func (n *LogNames) add(node rayid.Node, path string) {
	if isEventFile(path) {
		n.Events = append(n.Events, LogFile{node, path})
		return
	}
	name, isLog := strings.CutSuffix(path, Suffix)
	if !isLog {
		return
	}
	if id, ok := strings.CutPrefix(name, SubmissionPrefix); ok {
		n.Jobs[id] = node
	} else if id, ok := strings.CutPrefix(name, SupervisorPrefix); ok {
		n.Supervisors[id] = node
	} else if m := coreLog().FindStringSubmatch(path); m != nil {
		kind := TypeWorker
		if m[1] == "driver" {
			kind = TypeDriver
		}
		if pid, err := strconv.ParseInt(m[3], 10, 64); err == nil {
			n.Workers = append(n.Workers, LogWorker{Node: node, ID: m[2], Kind: kind, PID: pid})
		}
	}
}

// eventSources are the sources whose files the dashboard reads (ray.rpc.Event.SourceType); export events are not among them.
var eventSources = []string{"COMMON", "CORE_WORKER", "GCS", "RAYLET", "CLUSTER_LIFECYCLE", "AUTOSCALER", "JOBS"}

// isEventFile reports whether a log holds cluster events.
func isEventFile(p string) bool {
	dir, name := path.Split(p)
	return dir == "events/" && strings.HasSuffix(name, ".log") && slices.ContainsFunc(eventSources, func(s string) bool { return strings.Contains(name, s) })
}

// RuntimeEnvAgent is the log of a node's agent that makes runtime environments.
const RuntimeEnvAgent = "runtime_env_agent.log"

// Readers is how many logs are read at a time.
const Readers = 16

// coreLog is the name of a core worker's log, which every worker and driver has.
var coreLog = lazyregexp.New(`^(?:python|java|cpp)-core-(worker|driver)-([0-9a-f]{56})_(\d+)\.log$`)
