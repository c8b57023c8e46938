package findings

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// readNodes finds the nodes that died.
func (b *builder) readNodes() {
	var err error
	if b.nodes, err = b.r.Nodes(b.ctx); b.fail(err) {
		return
	}
	for _, n := range b.nodes.All {
		id, err := rayid.Parse[rayid.Node](n.ID)
		if err != nil || !n.Lost() {
			continue
		}
		f := b.nodeLost(id)
		message := cmp.Or(output.FirstSentence(n.Message), output.FirstSentence(n.StateMessage))
		f.Title = fmt.Sprintf("%s %s", b.nodeTitle(id), nodeEnd(n.Reason))
		source := "snapshot"
		if n.Events != nil {
			source = "event"
		}
		text := strings.TrimSpace(n.Reason + " " + n.Message)
		if message != "" {
			f.Title += ": " + message
		}
		f.add(occurrence{at: n.End, node: id, evidence: []Evidence{{
			Source: source, NodeID: n.ID, Time: stamp(n.End), Link: b.link("#/cluster/nodes/%s", n.ID),
			Text: fmt.Sprintf("node %s (%s) is dead: %s", b.nodeName(id), n.ID, cmp.Or(text, n.StateMessage)),
		}}})
	}
	b.readLoggedNodes()
}

// nodeLost returns the finding about a node that died.
func (b *builder) nodeLost(id rayid.Node) *finding {
	f := b.lost[id]
	if f == nil {
		f = b.find(NodeDied, id.String())
		f.Title = b.nodeTitle(id) + " died"
		f.addEntity(b.nodeEntity(id))
		b.lost[id] = f
	}
	return f
}

// lostNodeIn returns the node that died and is named in a text; nil if there is none.
func (b *builder) lostNodeIn(text string) (node rayid.Node) {
	for id := range b.lost {
		if strings.Contains(text, id.String()) {
			node = id
		}
	}
	return node
}

// loggedNodeEnd matches the line in which the GCS says why a node ended (gcs_node_manager.cc of Ray).
var loggedNodeEnd = lazyregexp.New(`(?m)^\[[^\n]* death reason = (\w+), death message = ([^\n]*?) node_id=([0-9a-f]{56})[^\n]*$`)

// readLoggedNodes finds nodes whose death only the GCS's log tells. Events about a node are sent by an agent on the node, and those about the head's
// raylet end with it.
func (b *builder) readLoggedNodes() {
	for _, m := range b.loggedByHead("gcs_server.out", loggedNodeEnd()) {
		reason := m.groups[1]
		id, err := rayid.Parse[rayid.Node](m.groups[3])
		if err != nil || moment.WantedEnd(reason) || b.lost[id] != nil {
			continue
		}
		f := b.nodeLost(id)
		f.Title = fmt.Sprintf("%s %s", b.nodeTitle(id), nodeEnd(reason))
		if said := output.FirstSentence(m.groups[2]); said != "" {
			f.Title += ": " + said
		}
		f.add(occurrence{at: m.at, node: id, evidence: []Evidence{b.evidence(m.log, m.from, m.to)}})
	}
}

// nodeEnd returns how a node ended, by the reason of its death (ray.rpc.NodeDeathInfo.Reason).
func nodeEnd(reason string) string {
	if reason == "AUTOSCALER_DRAIN_PREEMPTED" {
		return "was preempted"
	}
	return "died unexpectedly"
}

// nodeTitle returns a node's name as a title begins with it.
func (b *builder) nodeTitle(id rayid.Node) string {
	if n := b.nodes.ByID[id.String()]; n != nil && n.Head {
		return fmt.Sprintf("Node %s (the head)", b.nodeName(id))
	}
	return "Node " + b.nodeName(id)
}
