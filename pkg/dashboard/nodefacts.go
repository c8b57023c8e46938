package dashboard

import (
	"context"
	"regexp"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// nodeFacts is what the logs of a node's own processes tell of their start; 0 where they do not.
type nodeFacts struct {
	nodeManagerPort, objectManagerPort   int64
	agentPort, agentHTTPPort             int64
	runtimeEnvAgentPort, runtimeEnvAgent int64 // the latter is a process ID
}

// factLines are the lines that tell a number, by the log they are in.
var factLines = []struct {
	path string
	line *regexp.Regexp
	fact func(*nodeFacts) *int64
}{
	{"raylet.out", regexp.MustCompile(`NodeManager server started, listening on port (\d+)`), func(f *nodeFacts) *int64 { return &f.nodeManagerPort }},
	{"raylet.out", regexp.MustCompile(`ObjectManager server started, listening on port (\d+)`), func(f *nodeFacts) *int64 { return &f.objectManagerPort }},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent grpc address: \S+:(\d+)`), func(f *nodeFacts) *int64 { return &f.agentPort }},
	{"dashboard_agent.log", regexp.MustCompile(`Dashboard agent http address: \S+:(\d+)`), func(f *nodeFacts) *int64 { return &f.agentHTTPPort }},
	{runtimeEnvAgentLog, regexp.MustCompile(`Starting runtime env agent at pid (\d+)`), func(f *nodeFacts) *int64 { return &f.runtimeEnvAgent }},
	{"runtime_env_agent.out", regexp.MustCompile(`Running on http://\S+:(\d+)`), func(f *nodeFacts) *int64 { return &f.runtimeEnvAgentPort }},
}

// nodeFacts gives the facts of every node that has logs.
func (d *Dashboard) nodeFacts(r *Request) (map[rayid.Node]nodeFacts, error) {
	return d.derived.get(r.Session).nodes.get(func() (map[rayid.Node]nodeFacts, error) {
		nodes := r.Session.Logs.Nodes()
		read := make([]nodeFacts, len(nodes))
		g, ctx := errgroup.WithContext(r.Context())
		g.SetLimit(agentLogReaders)
		for i, node := range nodes {
			g.Go(func() error { return read[i].read(ctx, r.Session.Logs, node) })
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		facts := make(map[rayid.Node]nodeFacts, len(nodes))
		for i, node := range nodes {
			facts[node] = read[i]
		}
		return facts, nil
	})
}

// read looks for the lines at the heads of the node's logs.
func (f *nodeFacts) read(ctx context.Context, logs *session.LogSet, node rayid.Node) error {
	heads := map[string][]byte{}
	for _, known := range factLines {
		head, ok := heads[known.path]
		if !ok {
			var err error
			if head, err = readHead(ctx, logs, nodeLog{node, known.path}, buildHeadBytes); err != nil {
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

// completeNode gives the summary of a node of which there is no snapshot what logs and the list of workers tell of its processes.
func completeNode(row *pyjson.Object, facts nodeFacts, workers []*pyjson.Object) *pyjson.Object {
	row, raylet := row.Clone(), row.Object("raylet").Clone()
	raylet.Set("nodeManagerPort", facts.nodeManagerPort)
	raylet.Set("objectManagerPort", facts.objectManagerPort)
	raylet.Set("metricsAgentPort", facts.agentPort)
	raylet.Set("dashboardAgentListenPort", facts.agentHTTPPort)
	raylet.Set("runtimeEnvAgentPort", facts.runtimeEnvAgentPort)
	raylet.Set("numWorkers", len(workers))
	stats := make([]any, len(workers))
	for i, w := range workers {
		stats[i] = w
	}
	raylet.Set("coreWorkersStats", stats)
	row.Set("raylet", raylet)
	if raylet.String("state") == alive {
		row.Set("agent", processStats(nil, 0, title(dashboardAgentTitle)))
	}
	return row
}
