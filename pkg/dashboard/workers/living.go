package workers

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// NoJob is Ray's ID for the job of a process that has none.
const NoJob = "ffff"

// Living returns the core workers that are alive at the requested moment, by their node in hex, each as the summary of a node has
// it (CoreWorkerStats in common.proto), without what it counts.
func Living(r *request.Request) (map[string][]*pyjson.Object, error) {
	actors := map[string]*entities.Actor{} // that are alive, by their worker
	ports := map[string]int32{}
	for i := range r.Session.Actors {
		a := &r.Session.Actors[i]
		if state, existed := moment.ActorAt(a, r.At); existed && state.State == moment.Alive {
			actors[state.Worker.String()], ports[state.Worker.String()] = a, state.Port
		}
	}
	living := map[string][]*pyjson.Object{}
	err := each(r, func(w *moment.Worker, row *pyjson.Object) {
		if !w.Alive {
			return
		}
		stats := pyjson.Obj(
			"workerId", w.ID, "pid", row.Get("pid"), "ipAddress", row.Get("ip"), "language", "PYTHON", "workerType", w.Type,
			"jobId", NoJob, "actorId", rayid.Actor{}.String(),
		)
		if a := actors[w.ID]; a != nil {
			stats.Set("jobId", a.Job.String())
			stats.Set("actorId", a.ID.String())
			stats.Set("port", reply.NumberString(int64(ports[w.ID])))
		} else if job, isDriver := strings.CutSuffix(w.ID, moment.DriverWorker(rayid.Job{})[2*rayid.JobSize:]); isDriver {
			stats.Set("jobId", job)
		}
		living[w.Node] = append(living[w.Node], stats)
	})
	return living, err
}
