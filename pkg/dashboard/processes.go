package dashboard

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

// What is known of processes of which no snapshot was taken: who they were, when they started, and the titles that Ray gives them
// (setproctitle in ray/_raylet.pyx, ray/dashboard/agent.py and ray/_private/runtime_env/agent/main.py). What they used nobody recorded:
// those figures are 0.

const (
	dashboardAgentTitle  = "ray::DashboardAgent"
	runtimeEnvAgentTitle = "ray::RuntimeEnvAgent"
	noJob                = "ffff" // Ray's ID for the job of a process that has none
)

// processStats are a process's statistics as the reporter gives them (ray/dashboard/modules/reporter/reporter_agent.py); started is in
// seconds, 0 if not known.
func processStats(pid any, started float64, cmdline []any) *pyjson.Object {
	return pyjson.Obj(
		"pid", pid, "createTime", started, "cpuPercent", 0.0, "cmdline", cmdline,
		"memoryInfo", pyjson.Obj("rss", 0.0, "vms", 0.0), "memoryFullInfo", nil,
	)
}

func title(of string) []any { return []any{of} }

// actorCmdline is the title of an actor's process while it runs none of the actor's methods.
func actorCmdline(class string) []any { return title("ray::" + class) }

// setLivingProcess completes the row of an actor that is alive, but of whose process no snapshot tells.
func setLivingProcess(row *pyjson.Object, s *actorState) {
	if s.state != alive || row.Get("processStats") != nil {
		return
	}
	address := row.Object("address")
	row.Set("ipAddress", address.String("ipAddress"))
	row.Set("port", pyString(int64(s.port)))
	row.Set("workerId", address.String("workerId"))
	row.Set("language", "PYTHON")
	row.Set("workerType", workerType)
	row.Set("processStats", processStats(s.pid, seconds(s.started), actorCmdline(row.String("actorClass"))))
}

// livingWorkers gives the core workers that are alive at the moment asked for, by their node in hex, each as the summary of a node has
// it (CoreWorkerStats in common.proto), without what it counts.
func (d *Dashboard) livingWorkers(r *Request) (map[string][]*pyjson.Object, error) {
	set, err := d.workerRows(r)
	if err != nil {
		return nil, err
	}
	actors := livingActors(r)
	living := map[string][]*pyjson.Object{}
	for _, row := range set.rows {
		if !row.Bool("is_alive") {
			continue
		}
		id, node := row.String("worker_id"), row.String("node_id")
		stats := pyjson.Obj(
			"workerId", id, "pid", row.Get("pid"), "ipAddress", row.Get("ip"), "language", "PYTHON", "workerType", row.Get("worker_type"),
			"jobId", noJob, "actorId", rayid.Actor{}.String(),
		)
		if a := actors[id]; a != nil {
			state, _ := actorAt(a, r.At)
			stats.Set("jobId", a.Job.String())
			stats.Set("actorId", a.ID.String())
			stats.Set("port", pyString(int64(state.port)))
		} else if job, isDriver := strings.CutSuffix(id, driverWorker(rayid.Job{})[2*rayid.JobSize:]); isDriver {
			stats.Set("jobId", job)
		}
		living[node] = append(living[node], stats)
	}
	return living, nil
}

// livingActors are the actors that are alive at the moment asked for, by their worker in hex.
func livingActors(r *Request) map[string]*session.Actor {
	living := map[string]*session.Actor{}
	for i := range r.Session.Actors {
		a := &r.Session.Actors[i]
		if state, existed := actorAt(a, r.At); existed && state.state == alive {
			living[state.worker.String()] = a
		}
	}
	return living
}

// workerProcess makes the row of a worker's process in a node's details.
func workerProcess(r *Request, stats *pyjson.Object) *pyjson.Object {
	started, cmdline := 0.0, []any{}
	if id, err := rayid.Parse[rayid.Actor](stats.String("actorId")); err == nil {
		if a := r.Session.Actor(id); a != nil {
			state, _ := actorAt(a, r.At)
			started, cmdline = seconds(state.started), actorCmdline(a.Class)
		}
	}
	if id, err := rayid.Parse[rayid.Job](stats.String("jobId")); err == nil && stats.String("workerType") == driverType {
		if j := r.Session.Job(id); j != nil {
			state, _ := driverAt(j, r.At)
			started = seconds(state.started)
			for _, word := range strings.Fields(j.Entrypoint) {
				cmdline = append(cmdline, word)
			}
		}
	}
	row := processStats(stats.Get("pid"), started, cmdline)
	row.Set("coreWorkerStats", []any{stats})
	row.Set("language", stats.Get("language"))
	row.Set("jobId", stats.Get("jobId"))
	return row
}

// agentProcess is the row of an agent in a node's details: a process without a core worker.
func agentProcess(pid int64, of string) *pyjson.Object {
	row := processStats(pid, 0, title(of))
	row.Set("coreWorkerStats", []any{})
	row.Set("language", "")
	row.Set("jobId", noJob)
	return row
}

// nodeProcesses are the rows of a node's processes in a snapshot, without the core workers that are gone at the moment asked for and with
// those that have come since it was taken, where events tell of them.
func (d *Dashboard) nodeProcesses(r *Request, node string, saved []any) ([]any, error) {
	living, err := d.livingWorkers(r)
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
		if _, lives := come[id]; lives || id == "" || !toldBySession(r, id) {
			rows = append(rows, v)
		}
		delete(come, id)
	}
	for _, stats := range living[node] {
		if id := stats.String("workerId"); come[id] != nil && toldBySession(r, id) {
			rows = append(rows, workerProcess(r, stats))
		}
	}
	return rows, nil
}

// toldBySession says whether events tell of a worker: what is known by snapshots and names of logs only is no newer than they are.
func toldBySession(r *Request, worker string) bool {
	id, err := rayid.Parse[rayid.Worker](worker)
	return err == nil && r.Session.Worker(id) != nil
}
