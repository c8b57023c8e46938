package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/internal/lines"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// runtimeEnvColumns are the list's columns, in Ray's order (RuntimeEnvState in ray/util/state/common.py).
var runtimeEnvColumns = []column{
	filterable("runtime_env"), filterable("success").ofKind(boolKind), shownOnly("creation_time_ms"),
	filterable("node_id"),
	detailOnly("ref_cnt"), filterableDetail("error"),
}

// runtimeEnvRows returns the rows of the State API's runtime environments (list_runtime_envs in
// ray/dashboard/state_aggregator.py): first those that were not created, then those whose creation took longest.
// Without a snapshot they come from the logs of the agents that created them.
func runtimeEnvRows(r *Request) (rowSet, error) {
	set, found, err := savedRows(r, "/api/v0/runtime_envs", runtimeEnvColumns)
	if err == nil && !found {
		set.rows, err = loggedRuntimeEnvs(r)
	}
	set.compare = func(a, b *pyjson.Object) int {
		switch madeA, madeB := a.Get("creation_time_ms") != nil, b.Get("creation_time_ms") != nil; {
		case madeA && !madeB:
			return 1
		case madeB && !madeA:
			return -1
		}
		return cmp.Compare(b.Int("creation_time_ms"), a.Int("creation_time_ms"))
	}
	return set, err
}

// envChange is a line that a runtime environment agent logged about an environment.
type envChange struct {
	at   int64 // Unix ns
	what string
	env  *loggedEnv // of a line that does not name it, the last one that failed; nil: there is none
	// failure is the traceback that follows a line.
	failure string
}

// loggedEnv is an environment that an agent's log names: however often, it is held once.
type loggedEnv struct{ value *pyjson.Object } // nil: it is no JSON object

// What the lines say (ray/_private/runtime_env/agent/runtime_env_agent.py, 2.55 to 2.60).
const (
	envCreating   = "Creating runtime env: "
	envCreated    = "Successfully created runtime env: "
	envUsedAgain  = "Runtime env already created successfully. Env: "
	envFailed     = "Failed to create runtime env "
	envGaveUp     = "runtime_env creation failed "
	envReleased   = "to decrease reference for runtime env: "
	envRemoved    = "Runtime env "
	envRemovedEnd = " removed from env-level cache."
)

const (
	// maxEnvLogBytes is how much is read of one agent's log, from its start, without longer lines than maxEnvLine.
	maxEnvLogBytes, maxEnvLine = 16 << 20, 1 << 20
	// maxEnvMemory bounds the memory of what the agents' logs of a session tell. An environment takes envBytes beside
	// its value, a change of one changeBytes.
	maxEnvMemory          = 128 << 20
	envBytes, changeBytes = 1 << 10, 64
)

// agentLine is the head of a line of a Python process of Ray: its time, level and place.
var agentLine = lazyregexp.New(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\t\w+ [\w.]+:\d+ -- `)

// envCache keeps what the logs tell.
type envCache struct{ envs shared.Value[[]nodeEnvs] }

// nodeEnvs are the changes that one node's agent logged, in order.
type nodeEnvs struct {
	node    rayid.Node
	changes []envChange
}

// loggedRuntimeEnvs returns the runtime environments that the nodes' agents had at the requested moment, by their logs,
// as rows of the State API.
func loggedRuntimeEnvs(r *Request) ([]*pyjson.Object, error) {
	version := moment.HeadVersions(r.Session, maxEnvLogBytes, moment.RuntimeEnvAgent)
	nodes, err := moment.Cached[envCache](&r.Moment).envs.GetFor(r.Context(), version,
		func(ctx context.Context) ([]nodeEnvs, error) {
			return readRuntimeEnvs(ctx, &r.Moment)
		})
	if err != nil {
		return nil, err
	}
	var rows []*pyjson.Object
	for _, n := range nodes {
		rows = append(rows, n.rowsAt(r.At)...)
	}
	return rows, nil
}

// readRuntimeEnvs reads what each node's runtime environment agent logged about environments. Its times are in the
// cluster's time zone. What takes more than maxEnvMemory is left out, with a warning in the server's log.
func readRuntimeEnvs(ctx context.Context, m *moment.Moment) ([]nodeEnvs, error) {
	zone, err := m.Zone(ctx)
	if err != nil {
		return nil, err
	}
	var left atomic.Int64 // bytes of memory
	left.Store(maxEnvMemory)
	readNode := func(ctx context.Context, _ int, node rayid.Node) (nodeEnvs, error) {
		log := envLog{zone: zone, left: &left, envs: map[string]*loggedEnv{}}
		text := lines.Writer{Max: maxEnvLine, Line: log.addLine}
		file := moment.LogFile{Node: node, Path: moment.RuntimeEnvAgent}
		err := moment.WriteHead(ctx, &text, m.Session.Logs, file, maxEnvLogBytes)
		if errors.Is(err, pyjson.ErrTooLarge) {
			m.Log.WithField("session", m.Session.Ref.String()).Warn(
				"runtime environments in logs that take too much memory are left out")
			err = nil
		}
		return nodeEnvs{node: node, changes: log.changes}, err
	}
	return moment.ReadEach(ctx, "the log of runtime environments of node ", m.Session.Logs.Nodes(), readNode)
}

// envLog reads what an agent's log says about environments, in the log's order. Its times have no zone; zone is the one
// they are in. Lines without a time belong to the line before: after a failure they are its traceback.
type envLog struct {
	zone    *time.Location
	left    *atomic.Int64 // bytes of memory that the logs of all agents may take
	changes []envChange
	envs    map[string]*loggedEnv // those that were read, by their JSON: most lines are about the same few

	failed      *loggedEnv // the one that was last said to have failed
	traceback   strings.Builder
	inTraceback bool
}

// addLine reads the next line. The error is pyjson.ErrTooLarge if there is no memory left for what it says.
func (l *envLog) addLine(line []byte, _ int64) error {
	m := agentLine().FindSubmatch(line)
	if m == nil {
		if !l.inTraceback {
			return nil
		}
		l.traceback.Write(line)
		return l.take(len(line))
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05.000", string(m[1])+"."+string(m[2]), l.zone)
	if err != nil {
		return nil
	}
	what, env := envSaid(string(bytes.TrimRight(line[len(m[0]):], "\r\n")))
	c := envChange{at: at.UnixNano(), what: what}
	l.inTraceback = false
	switch what {
	case "":
		return nil
	case envGaveUp:
		c.env, c.failure = l.failed, l.traceback.String()
	default:
		if c.env, err = l.envOf(env); err != nil {
			return err
		}
	}
	if what == envFailed {
		l.failed, l.inTraceback = c.env, true
		l.traceback.Reset()
		return nil
	}
	l.changes = append(l.changes, c)
	return l.take(changeBytes)
}

// envOf returns the environment with a JSON text.
func (l *envLog) envOf(text string) (*loggedEnv, error) {
	env := l.envs[text]
	if env == nil {
		value, bytes, err := pyjson.ParseWithin([]byte(text), l.left.Load())
		if errors.Is(err, pyjson.ErrTooLarge) {
			return nil, err
		}
		env = &loggedEnv{}
		env.value, _ = value.(*pyjson.Object)
		l.envs[text] = env
		if err := l.take(envBytes + int(bytes)); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// take counts memory; the error is pyjson.ErrTooLarge if there is not enough.
func (l *envLog) take(bytes int) error {
	if l.left.Add(-int64(bytes)) < 0 {
		return pyjson.ErrTooLarge
	}
	return nil
}

// envSaid returns which of the known sentences, such as envCreated, a line of an agent's log has, and the environment
// that it is about, as JSON. what is "" for any other line. That an agent gave up says nothing of the environment.
func envSaid(said string) (what, env string) {
	if strings.HasPrefix(said, envGaveUp) {
		return envGaveUp, ""
	}
	for _, what := range []string{envCreating, envCreated, envUsedAgain, envFailed, envReleased, envRemoved} {
		_, rest, found := strings.Cut(said, what)
		if !found || what == envRemoved && !strings.HasSuffix(said, envRemovedEnd) {
			continue
		}
		var value json.RawMessage
		if json.NewDecoder(strings.NewReader(rest)).Decode(&value) == nil {
			return what, string(value)
		}
	}
	return "", ""
}

// envState is an environment as its agent holds it.
type envState struct {
	env        *loggedEnv
	number     int   // of its first change
	begun      int64 // when its creation began, Unix ns; 0: that was not logged
	made       int64 // when its creation ended, well or not, Unix ns; 0: not yet
	ok         bool
	references int
	failure    string
}

// rowsAt returns the environments that an agent had at a moment (Unix nanoseconds; 0: the session's end), in the order
// of their first change, as rows of the State API. It applies the changes up to the moment one after the other.
func (n nodeEnvs) rowsAt(at int64) []*pyjson.Object {
	states := map[*loggedEnv]*envState{}
	for i, c := range n.changes {
		if at != 0 && c.at > at {
			break
		}
		if c.env == nil {
			continue
		}
		s := states[c.env]
		if s == nil {
			s = &envState{env: c.env, number: i}
			states[c.env] = s
		}
		switch c.what {
		case envCreating:
			s.begun = c.at
		case envCreated:
			s.made, s.ok, s.references = c.at, true, s.references+1
		case envUsedAgain:
			s.references++
		case envReleased:
			s.references--
		case envGaveUp:
			s.made, s.failure = c.at, c.failure
		case envRemoved:
			delete(states, c.env)
		}
	}
	var rows []*pyjson.Object
	for _, s := range slices.SortedFunc(maps.Values(states),
		func(a, b *envState) int { return cmp.Compare(a.number, b.number) }) {
		if row := s.row(n.node); row != nil {
			rows = append(rows, row)
		}
	}
	return rows
}

// row returns the environment as a row of the State API; nil if it is still being made, or if it was not logged when
// that began.
func (s *envState) row(node rayid.Node) *pyjson.Object {
	if s.begun == 0 || s.made == 0 || s.env.value == nil {
		return nil
	}
	return pyjson.Obj(
		"runtime_env", s.env.value, "success", s.ok, "creation_time_ms", numberString(moment.Milliseconds(s.made-s.begun)),
		"node_id", node.String(),
		"ref_cnt", numberString(max(s.references, 0)), "error", orNone(s.failure),
	)
}
