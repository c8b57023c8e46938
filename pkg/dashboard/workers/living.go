package workers

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/actors"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// NoJob is Ray's ID for the job of a process that has none.
const NoJob = "ffff"

// Living returns the core workers that are alive at the requested moment, by their node in hex, each as the summary of a node has
// it (CoreWorkerStats in common.proto), without what it counts.
func Living(r *request.Request) (map[string][]*pyjson.Object, error) {
	set, err := Rows(r)
	if err != nil {
		return nil, err
	}
	byWorker := actors.Living(r)
	living := map[string][]*pyjson.Object{}
	for _, row := range set.Rows {
		if !row.Bool("is_alive") {
			continue
		}
		id, node := row.String("worker_id"), row.String("node_id")
		stats := pyjson.Obj(
			"workerId", id, "pid", row.Get("pid"), "ipAddress", row.Get("ip"), "language", "PYTHON", "workerType", row.Get("worker_type"),
			"jobId", NoJob, "actorId", rayid.Actor{}.String(),
		)
		if a := byWorker[id]; a != nil {
			state, _ := moment.ActorAt(a, r.At)
			stats.Set("jobId", a.Job.String())
			stats.Set("actorId", a.ID.String())
			stats.Set("port", reply.NumberString(int64(state.Port)))
		} else if job, isDriver := strings.CutSuffix(id, driverID(rayid.Job{})[2*rayid.JobSize:]); isDriver {
			stats.Set("jobId", job)
		}
		living[node] = append(living[node], stats)
	}
	return living, nil
}
