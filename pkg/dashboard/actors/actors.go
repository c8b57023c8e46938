// Package actors answers requests about actors: /logical/actors (ray/dashboard/modules/node) and the State API's list.
package actors

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// noExit is the exitDetail of an actor that did not exit.
const noExit = "-"

// table makes rows of actors as /logical/actors shows them (ray/dashboard/modules/node/node_head.py, _actor_table_data_to_dict, and
// datacenter.py, _get_actor_info).
type table struct {
	nodes summary.Nodes
	// believed says that saved rows have no figures of a time after the requested moment.
	believed bool
}

// Read returns the actors, and what makes their rows.
func Read(r *request.Request) (actors []moment.Actor, row func(moment.Actor) *pyjson.Object, err error) {
	var t table
	if actors, err = r.Actors(r.Context()); err != nil {
		return nil, nil, err
	}
	if t.nodes, err = summary.Read(r); err != nil {
		return nil, nil, err
	}
	_, taken, err := r.SavedData(r.Context(), "/logical/actors")
	t.believed = r.Believes(taken)
	return actors, t.row, err
}

func (t *table) row(a moment.Actor) *pyjson.Object {
	row := a.Saved
	switch {
	case row == nil:
		row = newLogical(a.Events, &a.Told, t.nodes)
	case a.Newer:
		row = row.Clone()
		setLogicalState(row, &a.Told, t.nodes)
	}
	if !t.believed {
		row = withoutLaterUsage(row, t.nodes)
	}
	return row
}

// staticActorFields are those of liveActorFields that stay the same for as long as the process lives.
var staticActorFields = []string{"ipAddress", "port", "workerId", "language", "workerType", "actorTitle"}

// withoutLaterUsage removes the usage and the counters of the process from an actor's row if the snapshot was taken after the moment asked
// for.
func withoutLaterUsage(row *pyjson.Object, nodes summary.Nodes) *pyjson.Object {
	row = row.Clone()
	if stats := row.Object("processStats"); stats != nil {
		row.Set("processStats", summary.WithoutUsage(stats))
	}
	for _, f := range liveActorFields {
		if !slices.Contains(staticActorFields, f) {
			row.Delete(f)
		}
	}
	row.Set("gpus", []any{})
	mem := nodes.Row(row.Object("address").String("nodeId")).List("mem")
	if mem == nil {
		mem = []any{}
	}
	row.Set("mem", mem)
	return row
}

// newLogical makes the row of an actor without a snapshot.
func newLogical(a *entities.Actor, s *moment.ActorState, nodes summary.Nodes) *pyjson.Object {
	row := pyjson.Obj(
		"actorId", a.ID.String(), "jobId", a.Job.String(), "address", nil, "name", a.Name, "className", a.Class, "state", nil,
		"numRestarts", nil, "timestamp", nil, "pid", nil, "startTime", nil, "endTime", nil, "reprName", nil,
		"labelSelector", reply.StringMap(a.LabelSelector), "actorClass", a.Class, "exitDetail", noExit,
		"requiredResources", originalResources(a.Resources), "gpus", []any{}, "processStats", nil,
	)
	if !a.PlacementGroup.Nil() {
		row.Set("placementGroupId", a.PlacementGroup.String())
	}
	if a.CallSite != "" {
		row.Set("callSite", a.CallSite)
	}
	setLogicalState(row, s, nodes)
	mem := nodes.Row(s.AddressNode()).List("mem")
	if mem == nil {
		mem = []any{}
	}
	row.Set("mem", mem)
	row.Set("tpus", []any{})
	return row
}

// liveActorFields are the fields that Ray adds to an actor's row from its living process (the fields of CoreWorkerStats in common.proto).
var liveActorFields = []string{
	"ipAddress", "port", "usedResources", "numExecutedTasks", "workerId", "numPendingTasks", "numObjectRefsInScope", "numInPlasma",
	"numLocalObjects", "usedObjectStoreMemory", "taskQueueLength", "objectRefs", "language", "workerType", "objectsTotal",
	"numOwnedObjects", "numOwnedActors", "numRunningTasks", "numInFlightArgPinningRequests", "numOfFailedArgPinningRequests",
	"actorTitle", "webuiDisplay", "currentTaskName", "currentTaskFuncDesc",
}

// setLogicalState sets all fields of a row that depend on the actor's state.
func setLogicalState(row *pyjson.Object, s *moment.ActorState, nodes summary.Nodes) {
	if s.Worker.String() != row.Object("address").String("workerId") || s.State != moment.Alive {
		for _, f := range liveActorFields {
			row.Delete(f)
		}
		row.Set("processStats", nil)
		row.Set("gpus", []any{})
	}
	port := s.Port
	if !s.Placed {
		port = 0
	}
	row.Set("address", pyjson.Obj("nodeId", s.AddressNode(), "ipAddress", nodes.IP(s.AddressNode()), "port", port, "workerId", s.AddressWorker()))
	row.Set("state", s.State)
	row.Set("numRestarts", reply.NumberString(s.Restarts))
	row.Set("timestamp", float64(moment.Milliseconds(s.Changed)))
	row.Set("pid", s.PID)
	row.Set("startTime", moment.Milliseconds(s.Started))
	row.Set("endTime", moment.Milliseconds(s.Ended))
	row.Set("reprName", s.Repr)
	row.Set("exitDetail", exitDetail(s.Death))
	setLivingProcess(row, s)
}

// exitDetail is the sentence of a cause of death (ray.rpc.ActorDeathCause as JSON).
func exitDetail(death []byte) string {
	if len(death) == 0 {
		return noExit
	}
	cause, err := pyjson.ParseObject(death)
	if err != nil {
		return noExit
	}
	for context, field := range map[string]string{
		"actorDiedErrorContext": "errorMessage", "runtimeEnvFailedContext": "errorMessage",
		"actorUnschedulableContext": "errorMessage", "creationTaskFailureContext": "formattedExceptionString",
	} {
		if c := cause.Object(context); c != nil {
			return c.String(field)
		}
	}
	return noExit
}

var (
	bundleResource = regexp.MustCompile(`^(.+)_group_(\d+)_([0-9a-zA-Z]+)`)
	groupResource  = regexp.MustCompile(`^(.+)_group_([0-9a-zA-Z]+)`)
)

// originalResources gives resources that a placement group reserved their original names again (parse_pg_formatted_resources_to_original in
// ray/_private/utils.py).
func originalResources(resources map[string]float64) map[string]float64 {
	original := make(map[string]float64, len(resources))
	for name, amount := range resources {
		m := bundleResource.FindStringSubmatch(name)
		if m == nil {
			m = groupResource.FindStringSubmatch(name)
		}
		switch {
		case m == nil:
			original[name] = amount
		case m[1] != "bundle":
			original[m[1]] = amount
		}
	}
	return original
}

// All is /logical/actors, all or those of ?ids=a,b.
func All(w http.ResponseWriter, r *request.Request) error {
	actors, row, err := Read(r)
	if err != nil {
		return err
	}
	all := &pyjson.Object{}
	for _, a := range actors {
		all.Set(a.ID, row(a))
	}
	if r.Query().Has("ids") {
		asked := &pyjson.Object{}
		for id := range strings.SplitSeq(r.Query().Get("ids"), ",") {
			asked.Set(id, all.Get(id))
		}
		all = asked
	}
	return reply.OK(w, "All actors fetched.", "actors", all)
}

// One is /logical/actors/{actor_id}; the detail of an unknown actor is null.
func One(w http.ResponseWriter, r *request.Request) error {
	actors, rowOf, err := Read(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(actors, func(a moment.Actor) bool { return a.ID == r.Params["actor_id"] })
	if i < 0 {
		return reply.OK(w, "Actor details fetched.", "detail", nil)
	}
	row := reply.GoogleStyle(rowOf(actors[i]))
	if r.At != 0 {
		return reply.OK(w, "Actor details fetched.", "detail", row)
	}
	node, _, err := r.SavedData(r.Context(), "/nodes/"+row.Object("address").String("nodeId"))
	if err != nil {
		return err
	}
	return reply.OK(w, "Actor details fetched.", "detail", Fuller(row, node.Object("detail").Object("actors").Object(actors[i].ID)))
}

// Fuller returns an actor's row, or the row in its node's snapshot if that has the same state and more fields of the living process: Ray learns
// about a process some seconds after its actor.
func Fuller(row, inNode *pyjson.Object) *pyjson.Object {
	if row.String("state") != moment.Alive || inNode.String("state") != moment.Alive || inNode.String("numRestarts") != row.String("numRestarts") {
		return row
	}
	if _, known := row.Lookup("workerId"); known {
		return row
	}
	return inNode
}
