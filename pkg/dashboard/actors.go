package dashboard

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
)

const (
	alive       = "ALIVE"
	dead        = "DEAD"
	restarting  = "RESTARTING"
	unready     = "DEPENDENCIES_UNREADY"
	noExit      = "-" // exitDetail of an actor that did not exit
	msPerSecond = int64(time.Second / time.Millisecond)
)

// actorState is what events tell of an actor at one moment.
type actorState struct {
	state                              string
	node                               rayid.Node   // of the last process
	worker                             rayid.Worker // of the last process
	placed                             bool         // there is a process, or was until it died
	pid                                uint32
	port                               int32
	repr                               string
	restarts, reconstructed, preempted int
	changed, started, ended            int64 // Unix ns, 0: not yet
	death                              []byte
	formerProcesses                    []actorProcess // oldest first, the last process not among them
}

// actorProcess is one process an actor ran in.
type actorProcess struct {
	node   rayid.Node
	worker rayid.Worker
}

// actorAt gives an actor's state at a moment (0: the end) and whether it was there at all. Restarts are counted, and times kept, as
// GcsActorManager does: the start is the first time the actor was alive, the process stays known after death but not while restarting.
func actorAt(a *session.Actor, at int64) (s actorState, existed bool) {
	s.state = unready
	for i, t := range a.Transitions {
		if at != 0 && t.Time > at {
			return s, i > 0
		}
		if t.State == dead && s.state == dead {
			continue // Ray reports some deaths twice
		}
		s.state, s.changed = t.State, t.Time
		if t.ReprName != "" {
			s.repr = t.ReprName
		}
		switch t.State {
		case alive:
			s.place(t)
		case restarting:
			s.restart(t.RestartReason)
		case dead:
			s.ended, s.death = t.Time, t.DeathCause
		}
	}
	return s, true
}

func (s *actorState) place(t session.ActorTransition) {
	if !t.Worker.Nil() {
		if !s.worker.Nil() && s.worker != t.Worker {
			s.formerProcesses = append(s.formerProcesses, actorProcess{s.node, s.worker})
		}
		s.node, s.worker, s.pid, s.port = t.Node, t.Worker, t.PID, t.Port
	}
	s.placed = true
	s.ended, s.death = 0, nil
	if s.started == 0 {
		s.started = t.Time
	}
}

func (s *actorState) restart(reason string) {
	s.restarts++
	switch reason {
	case "LINEAGE_RECONSTRUCTION":
		s.reconstructed++
	case "NODE_PREEMPTION":
		s.preempted++
	}
	s.placed, s.ended, s.death = false, 0, nil
}

// addressNode and addressWorker are the IDs of an actor's address as Ray spells them: empty while there is no process.
func (s *actorState) addressNode() string {
	if s.placed {
		return s.node.String()
	}
	return ""
}

func (s *actorState) addressWorker() string {
	if s.placed {
		return s.worker.String()
	}
	return ""
}

func toMs(ns int64) int64 { return ns / int64(time.Millisecond) }

// actors gives every actor's row as /logical/actors shows it, in the order of their start (ray/dashboard/modules/node/node_head.py,
// _actor_table_data_to_dict, and datacenter.py, _get_actor_info).
func (d *Dashboard) actors(r *Request) ([]*pyjson.Object, error) {
	data, taken, err := savedData(r, "/logical/actors")
	if err != nil {
		return nil, err
	}
	snapshot := data.Object("actors")
	nodes, err := d.summaries(r)
	if err != nil {
		return nil, err
	}
	var rows []*pyjson.Object
	for _, a := range byStart(r.Session.Actors) {
		state, existed := actorAt(a, r.At)
		if !existed {
			continue
		}
		row := snapshot.Object(a.ID.String())
		switch {
		case row == nil:
			rows = append(rows, newActor(a, &state, nodes))
		case sameActorState(row.String("state"), row.Int("numRestarts"), &state), row.String("state") == dead && believes(r, taken):
			rows = append(rows, row)
		default:
			row = row.Clone()
			setActorState(row, &state, nodes)
			rows = append(rows, row)
		}
	}
	for id, v := range snapshot.All() {
		row, ok := v.(*pyjson.Object)
		if !ok {
			continue
		}
		if known, err := rayid.Parse[rayid.Actor](id); err == nil && r.Session.Actor(known) != nil {
			continue
		}
		if r.At == 0 || row.Int("startTime") <= toMs(r.At) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func sameActorState(state string, restarts int64, s *actorState) bool {
	return state == s.state && restarts == int64(s.restarts)
}

// byStart orders actors by when they were first heard of.
func byStart(actors []session.Actor) []*session.Actor {
	sorted := make([]*session.Actor, len(actors))
	for i := range actors {
		sorted[i] = &actors[i]
	}
	first := func(a *session.Actor) int64 {
		if len(a.Transitions) == 0 {
			return 0
		}
		return a.Transitions[0].Time
	}
	slices.SortStableFunc(sorted, func(a, b *session.Actor) int {
		switch fa, fb := first(a), first(b); {
		case fa < fb:
			return -1
		case fa > fb:
			return 1
		}
		return 0
	})
	return sorted
}

// newActor makes the row of an actor of which there is no snapshot.
func newActor(a *session.Actor, s *actorState, nodes nodeSummaries) *pyjson.Object {
	row := pyjson.Obj(
		"actorId", a.ID.String(), "jobId", a.Job.String(), "address", nil, "name", a.Name, "className", a.Class, "state", nil,
		"numRestarts", nil, "timestamp", nil, "pid", nil, "startTime", nil, "endTime", nil, "reprName", nil,
		"labelSelector", stringMap(a.LabelSelector), "actorClass", a.Class, "exitDetail", noExit,
		"requiredResources", originalResources(a.Resources), "gpus", []any{}, "processStats", nil,
	)
	if !a.PlacementGroup.Nil() {
		row.Set("placementGroupId", a.PlacementGroup.String())
	}
	if a.CallSite != "" {
		row.Set("callSite", a.CallSite)
	}
	setActorState(row, s, nodes)
	mem := nodes.node(s.addressNode()).List("mem")
	if mem == nil {
		mem = []any{}
	}
	row.Set("mem", mem)
	row.Set("tpus", []any{})
	return row
}

// liveActorFields are what Ray adds to an actor's row from its living process (the fields of CoreWorkerStats in common.proto).
var liveActorFields = []string{
	"ipAddress", "port", "usedResources", "numExecutedTasks", "workerId", "numPendingTasks", "numObjectRefsInScope", "numInPlasma",
	"numLocalObjects", "usedObjectStoreMemory", "taskQueueLength", "objectRefs", "language", "workerType", "objectsTotal",
	"numOwnedObjects", "numOwnedActors", "numRunningTasks", "numInFlightArgPinningRequests", "numOfFailedArgPinningRequests",
	"actorTitle", "webuiDisplay", "currentTaskName", "currentTaskFuncDesc",
}

// setActorState writes everything into a row that goes with the actor's state.
func setActorState(row *pyjson.Object, s *actorState, nodes nodeSummaries) {
	if s.worker.String() != row.Object("address").String("workerId") || s.state != alive {
		for _, f := range liveActorFields {
			row.Delete(f)
		}
		row.Set("processStats", nil)
		row.Set("gpus", []any{})
	}
	port := s.port
	if !s.placed {
		port = 0
	}
	row.Set("address", pyjson.Obj("nodeId", s.addressNode(), "ipAddress", nodes.ip(s.addressNode()), "port", port, "workerId", s.addressWorker()))
	row.Set("state", s.state)
	row.Set("numRestarts", pyString(s.restarts))
	row.Set("timestamp", float64(toMs(s.changed)))
	row.Set("pid", s.pid)
	row.Set("startTime", toMs(s.started))
	row.Set("endTime", toMs(s.ended))
	row.Set("reprName", s.repr)
	row.Set("exitDetail", exitDetail(s.death))
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

// originalResources gives resources that were reserved by a placement group their own names again
// (parse_pg_formatted_resources_to_original in ray/_private/utils.py).
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

// logicalActors is /logical/actors, all or those of ?ids=a,b.
func (d *Dashboard) logicalActors(w http.ResponseWriter, r *Request) error {
	rows, err := d.actors(r)
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
	return reply(w, "All actors fetched.", "actors", all)
}

// logicalActor is /logical/actors/{actor_id}; the detail of an unknown actor is null.
func (d *Dashboard) logicalActor(w http.ResponseWriter, r *Request) error {
	rows, err := d.actors(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(rows, func(row *pyjson.Object) bool { return row.String("actorId") == r.Params["actor_id"] })
	if i < 0 {
		return reply(w, "Actor details fetched.", "detail", nil)
	}
	row := googleStyle(rows[i])
	node, _, err := savedData(r, "/nodes/"+row.Object("address").String("nodeId"))
	if err != nil {
		return err
	}
	return reply(w, "Actor details fetched.", "detail", fuller(row, node.Object("detail").Object("actors").Object(row.String("actorId"))))
}
