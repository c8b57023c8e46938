package dashboard

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// noExit is the exitDetail of an actor that did not exit.
const noExit = "-"

// actorTable makes rows of actors as /logical/actors shows them (ray/dashboard/modules/node/node_head.py,
// _actor_table_data_to_dict, and datacenter.py, _get_actor_info).
type actorTable struct {
	all   []moment.Actor
	nodes nodeSummaries
	// inTime says that saved rows have no figures of a time after the requested moment.
	inTime bool
}

// readActors reads the actors and what their rows need.
func readActors(r *Request) (t actorTable, err error) {
	if t.all, err = r.Actors(r.Context()); err != nil {
		return t, err
	}
	if t.nodes, err = readSummaries(r); err != nil {
		return t, err
	}
	_, taken, err := r.SavedData(r.Context(), "/logical/actors")
	t.inTime = r.InTime(taken)
	return t, err
}

// row returns an actor's row: the saved one, with the state of events where these are newer.
func (t *actorTable) row(a *moment.Actor) *pyjson.Object {
	row := a.Saved
	switch {
	case row == nil:
		row = t.newRow(a)
	case a.Newer:
		row = row.Clone()
		t.setState(row, &a.ByEvents)
	}
	if !t.inTime {
		row = t.withoutLaterUsage(row)
	}
	return row
}

// memoryOf returns the memory of a node, by its ID in hex, as an actor's row has it; an empty list if it is not known.
func (t *actorTable) memoryOf(node string) []any {
	if mem := t.nodes.rows[node].List("mem"); mem != nil {
		return mem
	}
	return []any{}
}

// processFields are the fields that Ray adds to an actor's row from its living process (the fields of CoreWorkerStats
// in common.proto): first those that stay the same for as long as the process lives, then its usage and its counters.
var (
	processFields = []string{"ipAddress", "port", "workerId", "language", "workerType", "actorTitle"}
	usageFields   = []string{
		"usedResources", "numExecutedTasks", "numPendingTasks", "numObjectRefsInScope", "numInPlasma",
		"numLocalObjects", "usedObjectStoreMemory", "taskQueueLength", "objectRefs", "objectsTotal",
		"numOwnedObjects", "numOwnedActors", "numRunningTasks", "numInFlightArgPinningRequests",
		"numOfFailedArgPinningRequests",
		"webuiDisplay", "currentTaskName", "currentTaskFuncDesc",
	}
)

// withoutLaterUsage returns a copy of an actor's row without what its process used. It is for rows of a snapshot that
// was taken after the requested moment.
func (t *actorTable) withoutLaterUsage(row *pyjson.Object) *pyjson.Object {
	row = row.Clone()
	if stats := row.Object("processStats"); stats != nil {
		row.Set("processStats", withoutUsage(stats))
	}
	row.Delete(usageFields...)
	row.Set("gpus", []any{})
	row.Set("mem", t.memoryOf(row.Object("address").String("nodeId")))
	return row
}

// newRow makes the row of an actor that no saved answer has, from its events.
func (t *actorTable) newRow(actor *moment.Actor) *pyjson.Object {
	a := actor.Events
	row := pyjson.Obj(
		"actorId", a.ID.String(), "jobId", a.Job.String(), "address", nil, "name", a.Name, "className", a.Class,
		"state", nil,
		"numRestarts", nil, "timestamp", nil, "pid", nil, "startTime", nil, "endTime", nil, "reprName", nil,
		"labelSelector", orEmpty(a.LabelSelector), "actorClass", a.Class, "exitDetail", noExit,
		"requiredResources", originalResources(a.Resources), "gpus", []any{}, "processStats", nil,
	)
	if !a.PlacementGroup.Nil() {
		row.Set("placementGroupId", a.PlacementGroup.String())
	}
	if a.CallSite != "" {
		row.Set("callSite", a.CallSite)
	}
	t.setState(row, &actor.ByEvents)
	node, _ := actor.ByEvents.Address()
	row.Set("mem", t.memoryOf(node))
	row.Set("tpus", []any{})
	return row
}

// setState sets all fields of a row that depend on the actor's state, in place. Figures of its process are removed if
// they are of another process or it has ended.
func (t *actorTable) setState(row *pyjson.Object, s *moment.ActorState) {
	if s.Worker.String() != row.Object("address").String("workerId") || s.State != moment.Alive {
		row.Delete(processFields...)
		row.Delete(usageFields...)
		row.Set("processStats", nil)
		row.Set("gpus", []any{})
	}
	port := s.Port
	if !s.Placed {
		port = 0
	}
	node, worker := s.Address()
	ip := t.nodes.IP(node)
	row.SetAll(
		"address", pyjson.Obj("nodeId", node, "ipAddress", ip, "port", port, "workerId", worker), "state", s.State,
		"numRestarts", numberString(s.Restarts), "timestamp", float64(moment.Milliseconds(s.Changed)), "pid", s.PID,
		"startTime", moment.Milliseconds(s.Started), "endTime", moment.Milliseconds(s.Ended), "reprName", s.Repr,
		"exitDetail", exitDetail(s.Cause()),
	)
	if s.State == moment.Alive && row.Get("processStats") == nil { // its process is in no snapshot
		row.SetAll(
			"ipAddress", ip, "port", numberString(int64(s.Port)), "workerId", worker, "language", "PYTHON",
			"workerType", moment.TypeWorker,
			"processStats", processStats(s.PID, moment.Seconds(s.Started), actorCmdline(row.String("actorClass"))),
		)
	}
}

// actorCmdline is the title of an actor's process while it runs none of the actor's methods.
func actorCmdline(class string) []any { return []any{"ray::" + class} }

// exitDetail is the sentence of a cause of death.
func exitDetail(c moment.Cause) string {
	switch c.Context {
	case "actorDiedErrorContext", "runtimeEnvFailedContext", "actorUnschedulableContext", "creationTaskFailureContext":
		return c.Text
	}
	return noExit
}

var (
	// CPU_group_0_1234 is a resource of bundle 0 of group 1234, CPU_group_1234 one of the whole group.
	bundleResource = regexp.MustCompile(`^(.+)_group_(\d+)_([0-9a-zA-Z]+)`)
	groupResource  = regexp.MustCompile(`^(.+)_group_([0-9a-zA-Z]+)`)
)

// originalResources gives resources that a placement group reserved, such as CPU_group_0_1234, their original names
// again (parse_pg_formatted_resources_to_original in ray/_private/utils.py). The resource bundle_group_1234, by which
// Ray marks a node with bundles of the group, is left out.
func originalResources(resources map[string]float64) map[string]float64 {
	original := make(map[string]float64, len(resources))
	for name, amount := range resources {
		m := bundleResource.FindStringSubmatch(name)
		if m == nil {
			m = groupResource.FindStringSubmatch(name)
		}
		if m == nil {
			original[name] = amount
		} else if resource := m[1]; resource != "bundle" {
			original[resource] = amount
		}
	}
	return original
}

// allActors is /logical/actors: all actors by ID, or those of ?ids=a,b, of which unknown ones are null.
func allActors(w http.ResponseWriter, r *Request) error {
	actors, err := readActors(r)
	if err != nil {
		return err
	}
	all := &pyjson.Object{}
	for i := range actors.all {
		all.Set(actors.all[i].ID, actors.row(&actors.all[i]))
	}
	if r.Query().Has("ids") {
		requested := &pyjson.Object{}
		for id := range strings.SplitSeq(r.Query().Get("ids"), ",") {
			requested.Set(id, all.Get(id))
		}
		all = requested
	}
	return writeOK(w, "All actors fetched.", "actors", all)
}

// oneActor is /logical/actors/{actor_id}; the detail of an unknown actor is null.
func oneActor(w http.ResponseWriter, r *Request) error {
	actors, err := readActors(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(actors.all, func(a moment.Actor) bool { return a.ID == r.PathValue("actor_id") })
	if i < 0 {
		return writeOK(w, "Actor details fetched.", "detail", nil)
	}
	row := googleStyle(actors.row(&actors.all[i]))
	if r.At == moment.AtEnd { // what is saved of the node is of the end
		node, _, err := r.SavedData(r.Context(), "/nodes/"+row.Object("address").String("nodeId"))
		if err != nil {
			return err
		}
		row = fullerRow(row, node.Object("detail").Object("actors").Object(actors.all[i].ID))
	}
	return writeOK(w, "Actor details fetched.", "detail", row)
}

// fullerRow returns row, which is an actor's, or inNode, the actor's row in its node's snapshot, if row lacks the
// fields of the living process and both rows are of the same one: Ray learns about a process some seconds after its
// actor.
func fullerRow(row, inNode *pyjson.Object) *pyjson.Object {
	if row.String("state") != moment.Alive || inNode.String("state") != moment.Alive ||
		inNode.String("numRestarts") != row.String("numRestarts") {
		return row
	}
	if _, known := row.Lookup("workerId"); known {
		return row
	}
	return inNode
}

// actorFields are the State API's columns, in Ray's order (ActorState in ray/util/state/common.py).
var actorFields = []field[moment.Actor]{
	{filterable("actor_id"), func(a *moment.Actor) any { return a.ID }, keepsSaved},
	{filterable("class_name"), func(a *moment.Actor) any { return a.Events.Class }, keepsSaved},
	{filterable("state"), func(a *moment.Actor) any { return a.State }, followsEvents},
	{filterable("job_id"), func(a *moment.Actor) any { return a.Events.Job.String() }, keepsSaved},
	{filterable("name"), func(a *moment.Actor) any { return a.Events.Name }, keepsSaved},
	{filterable("node_id"), func(a *moment.Actor) any { return orNone(rayid.Hex(a.Node)) }, followsEvents},
	{filterable("pid"), func(a *moment.Actor) any { return a.PID }, followsEvents},
	{filterable("ray_namespace"), func(a *moment.Actor) any { return a.Events.Namespace }, keepsSaved},
	{detailOnly("serialized_runtime_env"), func(a *moment.Actor) any { return a.Events.RuntimeEnv }, keepsSaved},
	{detailOnly("required_resources"), func(a *moment.Actor) any { return orEmpty(a.Events.Resources) }, keepsSaved},
	{detailOnly("death_cause"), func(a *moment.Actor) any { return deathCause(a.Death) }, followsEvents},
	{detailOnly("is_detached"), func(a *moment.Actor) any { return a.Events.Detached }, keepsSaved},
	{filterableDetail("placement_group_id"),
		func(a *moment.Actor) any { return orNone(rayid.Hex(a.Events.PlacementGroup)) }, keepsSaved},
	{filterableDetail("repr_name"), func(a *moment.Actor) any { return a.Repr }, followsEvents},
	{detailOnly("num_restarts"), func(a *moment.Actor) any { return numberString(a.Restarts) }, followsEvents},
	{detailOnly("num_restarts_due_to_lineage_reconstruction"),
		func(a *moment.Actor) any { return numberString(a.Reconstructed) }, followsEvents},
	{detailOnly("num_restarts_due_to_node_preemption"),
		func(a *moment.Actor) any { return numberString(a.Preempted) },
		followsEvents},
	{detailOnly("call_site"), func(a *moment.Actor) any { return orNone(a.Events.CallSite) }, keepsSaved},
	{detailOnly("label_selector"), func(a *moment.Actor) any { return orEmpty(a.Events.LabelSelector) }, keepsSaved},
	{detailOnly("fallback_strategy"), nil, keepsSaved},
}

// deathCause writes a cause of death as the State API does: names in snake_case, IDs in hex.
func deathCause(death []byte) any {
	cause, err := pyjson.ParseObject(death)
	if err != nil || cause.Len() == 0 {
		return nil
	}
	return snakeStyle(cause)
}

// actorChecks are what Ray's actor table refuses (get_all_actor_info in ray/util/state/state_manager.py).
var actorChecks = map[string]func(string) error{
	"state":    oneOf("actor", moment.Unready, "PENDING_CREATION", moment.Alive, moment.Restarting, moment.Dead),
	"actor_id": hexID(rayid.ActorSize), "job_id": hexID(rayid.JobSize),
}

// actorRows returns the rows of the State API's actors (list_actors in ray/dashboard/state_aggregator.py): those of the
// actors that existed at the moment, then those that only the saved list has. An actor without events has its row of
// the saved list or, if it is not in that, what /logical/actors shows.
func actorRows(r *Request) (rowSet, error) {
	set := rowSet{columns: columnsOf(actorFields), saved: "/api/v0/actors", partialFailure: "", checks: actorChecks}
	list, taken, err := r.SavedList(r.Context(), set.saved)
	if err != nil {
		return set, err
	}
	left := moment.RowsByKey(list.List("result"), "actor_id")
	actors, err := readActors(r)
	if err != nil {
		return set, err
	}
	for i := range actors.all {
		a, row := &actors.all[i], left[actors.all[i].ID]
		switch {
		case a.Events != nil, a.Newer && row != nil: // without events Newer says that the row is of a later time
			same := row.String("state") == a.State && row.Int("num_restarts") == int64(a.Restarts)
			row = rowOf(actorFields, a, row, r.Overrides(taken, same, row.String("state") == moment.Dead))
		case row == nil:
			row = rowOfLogical(actors.row(a))
		}
		set.rows = append(set.rows, row)
		delete(left, a.ID)
	}
	set.addOthers(r, list, left)
	return set, nil
}

// rowOfLogical makes a row of the State API's list from that of /logical/actors, for an actor without events that no
// saved list has.
func rowOfLogical(logical *pyjson.Object) *pyjson.Object {
	// in any order: answers are written in the order of actorFields
	row := pyjson.Obj("node_id", orNone(logical.Object("address").String("nodeId")))
	for column, key := range map[string]string{
		"actor_id": "actorId", "class_name": "className", "state": "state", "job_id": "jobId", "name": "name", "pid": "pid",
		"required_resources": "requiredResources", "placement_group_id": "placementGroupId", "repr_name": "reprName",
		"num_restarts": "numRestarts", "call_site": "callSite", "label_selector": "labelSelector",
	} {
		row.Set(column, logical.Get(key))
	}
	return row
}

// countActors counts actors by class and state (ActorSummaries in ray/util/state/common.py).
func countActors(rows []*pyjson.Object) *pyjson.Object {
	summary := &pyjson.Object{}
	for _, row := range rows {
		class := row.String("class_name")
		if summary.Object(class) == nil {
			summary.Set(class, pyjson.Obj("class_name", class, "state_counts", pyjson.Obj()))
		}
		countIn(summary.Object(class).Object("state_counts"), row.String("state"))
	}
	return pyjson.Obj("summary", summary, "total_actors", len(rows), "summary_by", "class")
}
