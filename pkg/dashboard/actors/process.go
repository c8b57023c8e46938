package actors

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Cmdline is the title of an actor's process while it runs none of the actor's methods.
func Cmdline(class string) []any { return summary.Title("ray::" + class) }

// setLivingProcess completes the row of a living actor whose process is in no snapshot.
func setLivingProcess(row *pyjson.Object, s *moment.ActorState) {
	if s.State != moment.Alive || row.Get("processStats") != nil {
		return
	}
	address := row.Object("address")
	row.Set("ipAddress", address.String("ipAddress"))
	row.Set("port", reply.NumberString(int64(s.Port)))
	row.Set("workerId", address.String("workerId"))
	row.Set("language", "PYTHON")
	row.Set("workerType", moment.TypeWorker)
	row.Set("processStats", summary.ProcessStats(s.PID, moment.Seconds(s.Started), Cmdline(row.String("actorClass"))))
}

// Living returns the actors that are alive at the requested moment, by their worker in hex.
func Living(r *request.Request) map[string]*entities.Actor {
	living := map[string]*entities.Actor{}
	for i := range r.Session.Actors {
		a := &r.Session.Actors[i]
		if state, existed := moment.ActorAt(a, r.At); existed && state.State == moment.Alive {
			living[state.Worker.String()] = a
		}
	}
	return living
}
