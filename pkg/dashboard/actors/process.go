package actors

import (
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
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
