package nodes

import (
	"context"
	"regexp"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// facts is what the logs of a node's own processes say about their start; 0 means not known.
type facts struct {
	nodeManagerPort, objectManagerPort   int64
	agentPort, agentHTTPPort             int64
	runtimeEnvAgentPort, runtimeEnvAgent int64 // the second one is a process ID
}

// factLines are the lines that contain a number, by the log they are in.
var factLines = []struct {
	path string
	line *regexp.Regexp
	fact func(*facts) *int64
}{
	{"raylet.out", regexp.MustCompile(`NodeManager server started, listening on port (\d+)`), func(f *facts) *int64 { return &f.nodeManagerPort }},
	{"raylet.out", regexp.MustCompile(`ObjectManager server started, listening on port (\d+)`), func(f *facts) *int64 { return &f.objectManagerPort }},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent grpc address: \S+:(\d+)`), func(f *facts) *int64 { return &f.agentPort }},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent http address: \S+:(\d+)`), func(f *facts) *int64 { return &f.agentHTTPPort }},
	{moment.RuntimeEnvAgent, regexp.MustCompile(`Starting runtime env agent at pid (\d+)`), func(f *facts) *int64 { return &f.runtimeEnvAgent }},
	{"runtime_env_agent.out", regexp.MustCompile(`Running on http://\S+:(\d+)`), func(f *facts) *int64 { return &f.runtimeEnvAgentPort }},
}

// cache keeps the facts.
type cache struct {
	nodes shared.Value[map[rayid.Node]facts]
}

// factsOf returns the facts of every node that has logs.
func factsOf(r *request.Request) (map[rayid.Node]facts, error) {
	paths := make([]string, len(factLines))
	for i, known := range factLines {
		paths[i] = known.path
	}
	return moment.Kept[cache](&r.Moment).nodes.GetFor(r.Context(), moment.HeadVersions(r.Session, moment.HeadBytes, paths...), func(ctx context.Context) (map[rayid.Node]facts, error) {
		nodes := r.Session.Logs.Nodes()
		read := make([]facts, len(nodes))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(moment.Readers)
		for i, node := range nodes {
			g.Go(func() error {
				return guard.Do("the logs of node "+node.String(), func() error { return read[i].read(ctx, r.Session.Logs, node) })
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		facts := make(map[rayid.Node]facts, len(nodes))
		for i, node := range nodes {
			facts[node] = read[i]
		}
		return facts, nil
	})
}

// read looks for the lines at the heads of the node's logs.
func (f *facts) read(ctx context.Context, logs *sessionlogs.Set, node rayid.Node) error {
	heads := map[string][]byte{}
	for _, known := range factLines {
		head, ok := heads[known.path]
		if !ok {
			var err error
			if head, err = moment.ReadHead(ctx, logs, moment.LogFile{Node: node, Path: known.path}, moment.HeadBytes); err != nil {
				return err
			}
			heads[known.path] = head
		}
		if m := known.line.FindSubmatch(head); m != nil {
			if n, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil {
				*known.fact(f) = n
			}
		}
	}
	return nil
}

// complete adds to the summary of a node without a snapshot what logs and the list of workers say about its processes.
func complete(row *pyjson.Object, f facts, workers []*pyjson.Object) *pyjson.Object {
	row, raylet := row.Clone(), row.Object("raylet").Clone()
	raylet.Set("nodeManagerPort", f.nodeManagerPort)
	raylet.Set("objectManagerPort", f.objectManagerPort)
	raylet.Set("metricsAgentPort", f.agentPort)
	raylet.Set("dashboardAgentListenPort", f.agentHTTPPort)
	raylet.Set("runtimeEnvAgentPort", f.runtimeEnvAgentPort)
	raylet.Set("numWorkers", len(workers))
	stats := make([]any, len(workers))
	for i, w := range workers {
		stats[i] = w
	}
	raylet.Set("coreWorkersStats", stats)
	row.Set("raylet", raylet)
	if raylet.String("state") == moment.Alive {
		row.Set("agent", summary.ProcessStats(nil, 0, summary.Title(dashboardAgentTitle)))
	}
	return row
}
