package nodes

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/actors"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/dashboard/workers"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// For a process without a snapshot it is known who it was, when it started, and the title that Ray gives it (setproctitle in ray/_raylet.pyx,
// ray/dashboard/agent.py and ray/_private/runtime_env/agent/main.py). Its usage is not recorded: those figures are 0.
const (
	dashboardAgentTitle  = "ray::DashboardAgent"
	runtimeEnvAgentTitle = "ray::RuntimeEnvAgent"
)

// workerProcess makes the row of a worker's process in a node's details.
func workerProcess(r *request.Request, stats *pyjson.Object) *pyjson.Object {
	started, cmdline := 0.0, []any{}
	if id, err := rayid.Parse[rayid.Actor](stats.String("actorId")); err == nil {
		if a := r.Session.Actor(id); a != nil {
			state, _ := moment.ActorAt(a, r.At)
			started, cmdline = moment.Seconds(state.Started), actors.Cmdline(a.Class)
		}
	}
	if id, err := rayid.Parse[rayid.Job](stats.String("jobId")); err == nil && stats.String("workerType") == moment.TypeDriver {
		if j := r.Session.Job(id); j != nil {
			state, _ := moment.DriverAt(j, r.At)
			started = moment.Seconds(state.Started)
			for _, word := range strings.Fields(j.Entrypoint) {
				cmdline = append(cmdline, word)
			}
		}
	}
	row := summary.ProcessStats(stats.Get("pid"), started, cmdline)
	row.Set("coreWorkerStats", []any{stats})
	row.Set("language", stats.Get("language"))
	row.Set("jobId", stats.Get("jobId"))
	return row
}

// agentProcess is the row of an agent in a node's details: a process without a core worker.
func agentProcess(pid int64, of string) *pyjson.Object {
	row := summary.ProcessStats(pid, 0, summary.Title(of))
	row.Set("coreWorkerStats", []any{})
	row.Set("language", "")
	row.Set("jobId", workers.NoJob)
	return row
}

// nodeProcesses returns the rows of a node's processes in a snapshot, without the core workers that had ended at the requested moment, and with
// those that have started since the snapshot, if there are events about them.
func nodeProcesses(r *request.Request, node string, saved []any) ([]any, error) {
	living, err := workers.Living(r)
	if err != nil {
		return nil, err
	}
	come := map[string]*pyjson.Object{}
	for _, stats := range living[node] {
		come[stats.String("workerId")] = stats
	}
	rows := make([]any, 0, len(saved))
	for _, v := range saved {
		row, _ := v.(*pyjson.Object)
		id := ""
		if stats := row.List("coreWorkerStats"); len(stats) > 0 {
			s, _ := stats[0].(*pyjson.Object)
			id = s.String("workerId")
		}
		if _, lives := come[id]; lives || id == "" || !inEvents(r, id) {
			rows = append(rows, v)
		}
		delete(come, id)
	}
	for _, stats := range living[node] {
		if id := stats.String("workerId"); come[id] != nil && inEvents(r, id) {
			rows = append(rows, workerProcess(r, stats))
		}
	}
	return rows, nil
}

// inEvents says whether a worker has events. Workers that are known only from snapshots and names of logs are not newer than these.
func inEvents(r *request.Request, worker string) bool {
	id, err := rayid.Parse[rayid.Worker](worker)
	return err == nil && r.Session.Worker(id) != nil
}
