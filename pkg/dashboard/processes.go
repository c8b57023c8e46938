package dashboard

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// noJob is Ray's ID for the job of a process that has none.
const noJob = "ffff"

// driverSuffix is the end of all drivers' worker IDs in hex, after the ID of their job.
var driverSuffix = moment.DriverWorker(rayid.Job{})[2*rayid.JobSize:]

// livingWorkers returns the core workers that are alive at the requested moment, by their node in hex, each as the
// summary of a node has it (CoreWorkerStats in common.proto), without the figures, which no event has.
func livingWorkers(r *Request) (map[string][]*pyjson.Object, error) {
	actors := map[string]*entities.Actor{} // that are alive, by their worker
	ports := map[string]int32{}
	for i := range r.Session.Actors {
		a := &r.Session.Actors[i]
		if state, existed := moment.ActorAt(a, r.At); existed && state.State == moment.Alive {
			actors[state.Worker.String()], ports[state.Worker.String()] = a, state.Port
		}
	}
	living := map[string][]*pyjson.Object{}
	workers, err := readWorkers(r)
	for i := range workers {
		w := &workers[i]
		if !w.Alive {
			continue
		}
		row := w.row()
		stats := pyjson.Obj(
			"workerId", w.ID, "pid", row.Get("pid"), "ipAddress", row.Get("ip"), "language", "PYTHON", "workerType",
			w.Type,
			"jobId", noJob, "actorId", rayid.Actor{}.String(),
		)
		if a := actors[w.ID]; a != nil {
			stats.SetAll("jobId", a.Job.String(), "actorId", a.ID.String(), "port", numberString(int64(ports[w.ID])))
		} else if job, isDriver := strings.CutSuffix(w.ID, driverSuffix); isDriver {
			stats.Set("jobId", job)
		}
		living[w.Node] = append(living[w.Node], stats)
	}
	return living, err
}

// For a process without a snapshot it is known who it was, when it started, and the title that Ray gives it
// (setproctitle in ray/_raylet.pyx, ray/dashboard/agent.py and ray/_private/runtime_env/agent/main.py). Its usage is
// not recorded: those figures are 0.
const (
	dashboardAgentTitle  = "ray::DashboardAgent"
	runtimeEnvAgentTitle = "ray::RuntimeEnvAgent"
)

// workerProcess makes the row of a worker's process in a node's details. stats is the worker as livingWorkers returns
// it; of an actor and a driver it is known when they started and what they run.
func workerProcess(r *Request, stats *pyjson.Object) *pyjson.Object {
	started, cmdline := 0.0, []any{}
	if id, err := rayid.Parse[rayid.Actor](stats.String("actorId")); err == nil {
		if a := r.Session.Actor(id); a != nil {
			state, _ := moment.ActorAt(a, r.At)
			started, cmdline = moment.Seconds(state.Started), actorCmdline(a.Class)
		}
	}
	if id, err := rayid.Parse[rayid.Job](stats.String("jobId")); err == nil &&
		stats.String("workerType") == moment.TypeDriver {
		if j := r.Session.Job(id); j != nil {
			state, _ := moment.DriverAt(j, r.At)
			started = moment.Seconds(state.Started)
			for _, word := range strings.Fields(j.Entrypoint) {
				cmdline = append(cmdline, word)
			}
		}
	}
	row := processStats(stats.Get("pid"), started, cmdline)
	row.SetAll("coreWorkerStats", []any{stats}, "language", stats.Get("language"), "jobId", stats.Get("jobId"))
	return row
}

// agentProcess is the row of an agent in a node's details: a process without a core worker.
func agentProcess(pid int64, title string) *pyjson.Object {
	row := processStats(pid, unknownStart, []any{title})
	row.SetAll("coreWorkerStats", []any{}, "language", "", "jobId", noJob)
	return row
}

// nodeProcesses returns the rows of a node's processes: those of a saved answer, without the core workers that had
// ended by the requested moment, and core workers that it lacks. Only workers with events are left out or added.
func nodeProcesses(r *Request, node string, saved []any) ([]any, error) {
	living, err := livingWorkers(r)
	if err != nil {
		return nil, err
	}
	unlisted := map[string]bool{} // living workers that no row so far is about
	for _, stats := range living[node] {
		unlisted[stats.String("workerId")] = true
	}
	rows := make([]any, 0, len(saved))
	for _, v := range saved {
		row, _ := v.(*pyjson.Object)
		id := ""
		if stats := row.List("coreWorkerStats"); len(stats) > 0 {
			s, _ := stats[0].(*pyjson.Object)
			id = s.String("workerId")
		}
		if unlisted[id] || id == "" || !inEvents(r, id) { // it is alive, or events say nothing about it
			rows = append(rows, v)
		}
		delete(unlisted, id)
	}
	for _, stats := range living[node] {
		if id := stats.String("workerId"); unlisted[id] && inEvents(r, id) {
			rows = append(rows, workerProcess(r, stats))
		}
	}
	return rows, nil
}

// inEvents says whether a worker has events. Workers that are known only from snapshots and names of logs are not newer
// than these.
func inEvents(r *Request, worker string) bool {
	id, err := rayid.Parse[rayid.Worker](worker)
	return err == nil && r.Session.Worker(id) != nil
}

// facts is what the logs of a node's own processes say about their start, by the names of factLines.
type facts map[string]int64

// runtimeEnvAgent is the fact that is not a field of the raylet in a node's summary: the agent's process ID.
const runtimeEnvAgent = "runtimeEnvAgent"

// factLines are the lines that contain a number, by the log they are in, and the number's name.
var factLines = []struct {
	path string
	line *regexp.Regexp
	name string
}{
	{"raylet.out", regexp.MustCompile(`NodeManager server started, listening on port (\d+)`), "nodeManagerPort"},
	{"raylet.out", regexp.MustCompile(`ObjectManager server started, listening on port (\d+)`), "objectManagerPort"},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent grpc address: \S+:(\d+)`), "metricsAgentPort"},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent http address: \S+:(\d+)`), "dashboardAgentListenPort"},
	{moment.RuntimeEnvAgent, regexp.MustCompile(`Starting runtime env agent at pid (\d+)`), runtimeEnvAgent},
	{"runtime_env_agent.out", regexp.MustCompile(`Running on http://\S+:(\d+)`), "runtimeEnvAgentPort"},
}

// factsCache keeps the facts.
type factsCache struct {
	nodes shared.Value[map[rayid.Node]facts]
}

// factsOf returns, for every node that has logs, the numbers that its logs tell: see factLines.
func factsOf(r *Request) (map[rayid.Node]facts, error) {
	paths := make([]string, len(factLines))
	for i, fact := range factLines {
		paths[i] = fact.path
	}
	version := moment.HeadVersions(r.Session, moment.HeadBytes, paths...)
	cached := &moment.Cached[factsCache](&r.Moment).nodes
	return cached.GetFor(r.Context(), version, func(ctx context.Context) (map[rayid.Node]facts, error) {
		nodes := r.Session.Logs.Nodes()
		read, err := moment.ReadEach(ctx, "the logs of node ", nodes,
			func(ctx context.Context, _ int, node rayid.Node) (facts, error) {
				return readFacts(ctx, r.Session.Logs, node)
			})
		byNode := make(map[rayid.Node]facts, len(nodes))
		for i, node := range nodes {
			byNode[node] = read[i]
		}
		return byNode, err
	})
}

// readFacts reads the facts of a node from the first lines of its logs: factLines says which lines of which logs.
func readFacts(ctx context.Context, logs *sessionlogs.Set, node rayid.Node) (facts, error) {
	found, heads := facts{}, map[string][]byte{}
	for _, fact := range factLines {
		head, ok := heads[fact.path]
		if !ok {
			var err error
			if head, err = moment.ReadHead(ctx, logs, moment.LogFile{Node: node, Path: fact.path},
				moment.HeadBytes); err != nil {
				return nil, err
			}
			heads[fact.path] = head
		}
		if m := fact.line.FindSubmatch(head); m != nil {
			if n, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil {
				found[fact.name] = n
			}
		}
	}
	return found, nil
}

// withProcesses returns the row of a node that no saved answer has, with what its logs, f, and the list of living
// workers say about its processes.
func withProcesses(row *pyjson.Object, f facts, workers []*pyjson.Object) *pyjson.Object {
	row, raylet := row.Clone(), row.Object("raylet").Clone()
	for name, n := range f {
		if name != runtimeEnvAgent {
			raylet.Set(name, n)
		}
	}
	raylet.Set("numWorkers", len(workers))
	stats := make([]any, len(workers))
	for i, w := range workers {
		stats[i] = w
	}
	raylet.Set("coreWorkersStats", stats)
	row.Set("raylet", raylet)
	if raylet.String("state") == moment.Alive {
		row.Set("agent", processStats(nil, unknownStart, []any{dashboardAgentTitle}))
	}
	return row
}
