package moment

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// Node is a node at one moment. Its saved row is the one of /nodes?view=summary.
type Node struct {
	Stored[entities.Node, NodeState]
	IP, Hostname string
	Head         bool
	Group        string // the name of its group, from KubeRay or the autoscaler
	Machine      string // the machine's type
	State        string
	Reason       string // of its death (ray.rpc.NodeDeathInfo.Reason)
	Message      string // of its death
	StateMessage string // for people
	Start, End   int64  // Unix ns, whole milliseconds; 0: not known, or not yet
}

// Nodes are a session's nodes at one moment, by ID in hex and in Ray's order.
type Nodes struct {
	All  []*Node
	ByID map[string]*Node
}

// IP returns the address of the node with an ID (hex); "" if it is not known.
func (n Nodes) IP(id string) string {
	if node := n.ByID[id]; node != nil {
		return node.IP
	}
	return ""
}

// Nodes returns the nodes that existed at the moment: those of Ray's list in its order (get_all_node_summary in
// ray/dashboard/modules/node/datacenter.py), then those of which there are only events.
func (m *Moment) Nodes(ctx context.Context) (Nodes, error) {
	data, taken, err := m.SavedData(ctx, "/nodes?view=summary")
	if err != nil {
		return Nodes{}, err
	}
	raylet := func(row *pyjson.Object) *pyjson.Object { return row.Object("raylet") }
	joined := join(m, kind[entities.Node, NodeState]{
		events:    m.Session.Nodes,
		id:        func(n *entities.Node) string { return n.ID.String() },
		eventsOf:  func(id string) *entities.Node { return findIn(id, m.Session.Node) },
		stateAt:   NodeAt,
		savedID:   func(row *pyjson.Object) string { return raylet(row).String("nodeId") },
		began:     func(row *pyjson.Object) int64 { return TimeIn(raylet(row), "startTimeMs", time.Millisecond) },
		ended:     func(row *pyjson.Object) bool { return raylet(row).String("state") == Dead },
		sameState: func(row *pyjson.Object, s *NodeState) bool { return raylet(row).String("state") == s.State },
		endedAt:   func(row *pyjson.Object) int64 { return TimeIn(raylet(row), "endTimeMs", time.Millisecond) },
		unended:   func(*pyjson.Object) NodeState { return NodeState{State: Alive} },
	}, data.List("summary"), taken)
	nodes := Nodes{ByID: map[string]*Node{}}
	for _, k := range joined {
		n := nodeOf(k)
		nodes.All, nodes.ByID[n.ID] = append(nodes.All, n), n
	}
	return nodes, nil
}

// groupLabel is the label in which KubeRay and Ray's autoscaler put the name of a node's group.
const groupLabel = "ray.io/node-group"

// nodeOf returns a node with what its saved row and its events say of it. Moment.Overrides decides which of them its
// state is from; what does not change in a node's life is taken from either.
func nodeOf(thing Stored[entities.Node, NodeState]) *Node {
	raylet := thing.Saved.Object("raylet")
	death := raylet.Object("deathInfo")
	n := &Node{
		Stored: thing, IP: raylet.String("nodeManagerAddress"), Head: raylet.Bool("isHeadNode"),
		Group:    raylet.String("nodeTypeName"),
		Hostname: cmp.Or(raylet.String("nodeManagerHostname"), thing.Saved.String("hostname")),
		Machine:  raylet.String("instanceTypeName"),
		State:    raylet.String("state"), Reason: death.String("reason"), Message: death.String("reasonMessage"),
		StateMessage: raylet.String("stateMessage"), Start: TimeIn(raylet, "startTimeMs", time.Millisecond),
		End: TimeIn(raylet, "endTimeMs", time.Millisecond),
	}
	if e := thing.Events; e != nil {
		n.IP = cmp.Or(n.IP, e.IP) // Ray's own summary of a dead node may have lost its address
		n.Hostname = cmp.Or(n.Hostname, e.Hostname)
		n.Start = cmp.Or(n.Start, wholeMillis(e.Start))
		n.Group = cmp.Or(e.Labels[groupLabel], n.Group)
		n.Machine = cmp.Or(e.InstanceType, n.Machine)
		n.Head = n.Head || thing.ByEvents.Head()
	}
	if s := thing.ByEvents; thing.Newer { // its events are newer than its saved row
		n.State, n.Reason, n.Message, n.StateMessage, n.End = s.State, s.Reason, s.Message, s.StateMessage(),
			wholeMillis(s.Ended)
	}
	return n
}

// wantedEnds holds the reasons of a node's death that somebody, or the autoscaler, wanted.
var wantedEnds = map[string]bool{"EXPECTED_TERMINATION": true, "AUTOSCALER_DRAIN_IDLE": true}

// WantedEnd reports whether somebody, or the autoscaler, wanted a node's death for this reason.
func WantedEnd(reason string) bool { return wantedEnds[reason] }

// Lost reports whether the node died although nobody wanted it to end.
func (n *Node) Lost() bool {
	return n.State == Dead && !WantedEnd(n.Reason) && (n.Reason != "" || n.StateMessage != "")
}

// Amount returns how much the node had of a resource; 0 if that is not known. Saved rows have the names of resources in
// camelCase.
func (n *Node) Amount(resource string) float64 {
	if len(n.ByEvents.Resources) > 0 {
		return n.ByEvents.Resources[resource]
	}
	return Float(n.Saved.Object("raylet").Object("resourcesTotal").Get(resource))
}

// Labels returns the node's labels as events have them. Without events they are made of the names of its group and
// machine.
func (n *Node) Labels() map[string]string {
	if n.Events != nil && len(n.Events.Labels) > 0 {
		return n.Events.Labels
	}
	return map[string]string{groupLabel: n.Group, "node.kubernetes.io/instance-type": n.Machine}
}

// Float returns a JSON value of a snapshot as a float64; 0 if it is no number. Values that this server set itself may
// be float64 already.
func Float(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case pyjson.Number:
		f, _ := strconv.ParseFloat(string(v), 64)
		return f
	}
	return 0
}

// NodeState is the state of a node at one moment, from events.
type NodeState struct {
	State           string
	Resources       map[string]float64 // the last told
	Reason, Message string             // of death
	Ended           int64              // Unix ns, 0: alive
}

// NodeAt returns a node's state at a moment (Unix ns; 0: the session's end) by its events, and whether it had begun by
// then: it begins at its start or, if no event tells of that, with its first transition. One that has neither counts
// as there all the time.
func NodeAt(n *entities.Node, at int64) (s NodeState, existed bool) {
	s.State = Alive
	existed = at == 0 || n.Start <= at && (n.Start != 0 || len(n.Transitions) == 0)
	for _, t := range n.Transitions {
		if at != 0 && t.Time > at {
			continue // not the last one: an end may have an earlier time than what was before it
		}
		existed = true
		s.State = t.State
		if len(t.Resources) > 0 {
			s.Resources = t.Resources
		}
		if t.State == Dead {
			s.Reason, s.Message, s.Ended = t.DeathReason, t.DeathMessage, t.Time
		}
	}
	return s, existed
}

// Head reports whether the node's resources are those of a head: only a head has this one.
func (s *NodeState) Head() bool {
	_, is := s.Resources["node:__internal_head__"]
	return is
}

// StateMessage returns what Ray says to people of a node's death (compose_state_message in ray/dashboard/utils.py); ""
// if it says nothing.
func (s *NodeState) StateMessage() string {
	text := map[string]string{
		"EXPECTED_TERMINATION": "Expected termination", "UNEXPECTED_TERMINATION": "Unexpected termination",
		"AUTOSCALER_DRAIN_PREEMPTED": "Terminated due to preemption",
		"AUTOSCALER_DRAIN_IDLE":      "Terminated due to idle (no Ray activity)",
	}[s.Reason]
	if text != "" && s.Message != "" {
		text += ": "
	}
	return text + s.Message
}
