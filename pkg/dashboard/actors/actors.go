// Package actors answers requests about actors: /logical/actors (ray/dashboard/modules/node) and the State API's list.
package actors

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// noExit is the exitDetail of an actor that did not exit.
const noExit = "-"

// table makes rows of actors as /logical/actors shows them (ray/dashboard/modules/node/node_head.py, _actor_table_data_to_dict, and
// datacenter.py, _get_actor_info).
type table struct {
	r        *request.Request
	nodes    summary.Nodes
	snapshot *pyjson.Object // the saved rows, by ID
	believed bool           // a saved row that shows an end is trusted
}

func read(r *request.Request) (*table, error) {
	data, taken, err := r.SavedData(r.Context(), "/logical/actors")
	if err != nil {
		return nil, err
	}
	nodes, err := summary.Read(r)
	return &table{r: r, nodes: nodes, snapshot: data.Object("actors"), believed: r.Believes(taken)}, err
}

// Logical returns the rows of all actors: in the order of their start, then those without events.
func Logical(r *request.Request) ([]*pyjson.Object, error) {
	t, err := read(r)
	if err != nil {
		return nil, err
	}
	var rows []*pyjson.Object
	add := func(row *pyjson.Object) {
		if row != nil {
			rows = append(rows, row)
		}
	}
	for _, a := range byStart(r.Session.Actors) {
		add(t.fromEvents(a))
	}
	for id := range t.snapshot.All() {
		if find(r.Session, id) == nil {
			add(t.fromSnapshot(id))
		}
	}
	return rows, nil
}

// Row returns the row of one actor, nil if there is none at the requested moment.
func Row(r *request.Request, id string) (*pyjson.Object, error) {
	t, err := read(r)
	if err != nil {
		return nil, err
	}
	switch a := find(r.Session, id); {
	case a == nil:
		return t.fromSnapshot(id), nil
	case a.ID.String() == id: // only lower case
		return t.fromEvents(a), nil
	}
	return nil, nil
}

// find finds an actor by its ID in hex; nil if it has no events.
func find(s *session.Session, id string) *entities.Actor {
	parsed, err := rayid.Parse[rayid.Actor](id)
	if err != nil {
		return nil
	}
	return s.Actor(parsed)
}

// fromEvents makes the row of an actor that has events; nil if the actor did not exist yet at the requested moment.
func (t *table) fromEvents(a *entities.Actor) *pyjson.Object {
	state, existed := moment.ActorAt(a, t.r.At)
	if !existed {
		return nil
	}
	row := withOwnID(t.snapshot.Object(a.ID.String()), a.ID.String())
	switch {
	case row == nil:
		row = newLogical(a, &state, t.nodes)
	case sameActorState(row.String("state"), row.Int("numRestarts"), &state), row.String("state") == moment.Dead && t.believed:
	default:
		row = row.Clone()
		setLogicalState(row, &state, t.nodes)
	}
	return t.asOfThen(row)
}

// fromSnapshot makes the row of an actor without events.
func (t *table) fromSnapshot(id string) *pyjson.Object {
	row := t.snapshot.Object(id)
	if row == nil || t.r.At != 0 && row.Int("startTime") > moment.Milliseconds(t.r.At) {
		return nil
	}
	return t.asOfThen(withOwnID(row, id))
}

// asOfThen removes from a row the figures of a snapshot that is later than the requested moment.
func (t *table) asOfThen(row *pyjson.Object) *pyjson.Object {
	if t.believed {
		return row
	}
	return withoutLaterUsage(row, t.nodes)
}

// withOwnID sets the ID of a saved row to the ID under which it is saved. Until an actor's process has reported its actor to Ray, the fields that
// the dashboard adds from the process (ray/dashboard/modules/node/node_head.py) have nil IDs for a moment.
func withOwnID(row *pyjson.Object, id string) *pyjson.Object {
	if row == nil || row.String("actorId") == id {
		return row
	}
	row = row.Clone()
	row.Set("actorId", id)
	if parsed, err := rayid.Parse[rayid.Actor](id); err == nil {
		row.Set("jobId", parsed.Job().String())
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

func sameActorState(state string, restarts int64, s *moment.ActorState) bool {
	return state == s.State && restarts == int64(s.Restarts)
}

// byStart orders actors by the time of their first event.
func byStart(actors []entities.Actor) []*entities.Actor {
	sorted := make([]*entities.Actor, len(actors))
	for i := range actors {
		sorted[i] = &actors[i]
	}
	first := func(a *entities.Actor) int64 {
		if len(a.Transitions) == 0 {
			return 0
		}
		return a.Transitions[0].Time
	}
	slices.SortStableFunc(sorted, func(a, b *entities.Actor) int { return cmp.Compare(first(a), first(b)) })
	return sorted
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
	rows, err := Logical(r)
	if err != nil {
		return err
	}
	all := &pyjson.Object{}
	for _, row := range rows {
		all.Set(row.String("actorId"), row)
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
	row, err := Row(r, r.Params["actor_id"])
	if err != nil {
		return err
	}
	if row == nil {
		return reply.OK(w, "Actor details fetched.", "detail", nil)
	}
	row = reply.GoogleStyle(row)
	if r.At != 0 {
		return reply.OK(w, "Actor details fetched.", "detail", row)
	}
	node, _, err := r.SavedData(r.Context(), "/nodes/"+row.Object("address").String("nodeId"))
	if err != nil {
		return err
	}
	return reply.OK(w, "Actor details fetched.", "detail", Fuller(row, node.Object("detail").Object("actors").Object(row.String("actorId"))))
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
