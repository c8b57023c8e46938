package dashboard

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"weak"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// derived is what was found out about a session from the names and contents of its logs. Sessions never change, so it is found out once.
type derived struct {
	names       once[*logNames]
	events      once[[]*pyjson.Object]
	submissions once[map[string]*submissionEvidence]
	build       once[rayBuild]
	clusterID   once[string]
	runtimeEnvs once[[]nodeEnvs]
	nodes       once[map[rayid.Node]nodeFacts]
	jobFacts    sync.Map // submission ID → *once[jobFacts]
}

// once is a value that is loaded once; an error is not kept.
type once[T any] struct {
	mu     sync.Mutex
	loaded bool
	value  T
}

func (o *once[T]) get(load func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.loaded {
		return o.value, nil
	}
	value, err := load()
	if err != nil {
		return value, err
	}
	o.value, o.loaded = value, true
	return value, nil
}

// derivations keeps what was derived of sessions for as long as they are in memory.
type derivations struct {
	mu sync.Mutex
	of map[weak.Pointer[session.Session]]*derived
}

func newDerivations() *derivations {
	return &derivations{of: map[weak.Pointer[session.Session]]*derived{}}
}

func (d *derivations) get(s *session.Session) *derived {
	key := weak.Make(s)
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.of[key]
	if found == nil {
		found = &derived{}
		d.of[key] = found
		runtime.AddCleanup(s, d.forget, key)
	}
	return found
}

func (d *derivations) forget(key weak.Pointer[session.Session]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, key)
}

// logNames is what the names of a session's logs tell.
type logNames struct {
	workers     []loggedWorker
	jobs        map[string]rayid.Node // submission → node that has its log
	supervisors map[string]rayid.Node // submission → node that has its supervisor's log
	events      []nodeLog             // files of cluster events
}

// loggedWorker is a worker or driver that left a log.
type loggedWorker struct {
	node rayid.Node
	id   string
	kind string
	pid  int64
}

// nodeLog is one log of one node.
type nodeLog struct {
	node rayid.Node
	path string
}

const (
	jobLogPrefix     = "job-driver-"      // + submission ID + .log is a submission's own log
	supervisorPrefix = "jobs/supervisor-" // + submission ID + .log is its supervisor's
	logSuffix        = ".log"
)

func (d *Dashboard) logNames(s *session.Session) *logNames {
	names, _ := d.derived.get(s).names.get(func() (*logNames, error) {
		n := &logNames{jobs: map[string]rayid.Node{}, supervisors: map[string]rayid.Node{}}
		for _, node := range s.Logs.Nodes() {
			for _, path := range s.Logs.Paths(node) {
				n.add(node, path)
			}
		}
		return n, nil // nothing is read: it cannot fail
	})
	return names
}

func (n *logNames) add(node rayid.Node, path string) {
	if isEventFile(path) {
		n.events = append(n.events, nodeLog{node, path})
		return
	}
	name, isLog := strings.CutSuffix(path, logSuffix)
	if !isLog {
		return
	}
	if id, ok := strings.CutPrefix(name, jobLogPrefix); ok {
		n.jobs[id] = node
	} else if id, ok := strings.CutPrefix(name, supervisorPrefix); ok {
		n.supervisors[id] = node
	} else if m := coreLog.FindStringSubmatch(path); m != nil {
		kind := workerType
		if m[1] == "driver" {
			kind = driverType
		}
		if pid, err := strconv.ParseInt(m[3], 10, 64); err == nil {
			n.workers = append(n.workers, loggedWorker{node: node, id: m[2], kind: kind, pid: pid})
		}
	}
}

// ignoreMissing is nil for what is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// readHead reads the first bytes of a log; a log that is not there is empty.
func readHead(ctx context.Context, logs *session.LogSet, log nodeLog, n int64) ([]byte, error) {
	f, err := logs.Open(ctx, log.node, log.path)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	return f.ReadRange(ctx, 0, n)
}
