package findings

import (
	"context"
	"fmt"

	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// loggedNodeEnd matches the line in which the GCS says why a node ended (gcs_node_manager.cc of Ray).
var loggedNodeEnd = lazyregexp.New(`(?m)^\[[^\n]* death reason = (\w+), death message = ([^\n]*?) node_id=([0-9a-f]{56})[^\n]*$`)

// readLoggedNodes finds nodes whose death only the GCS's log tells. Events about a node are sent by an agent on the node, and those about the head's
// raylet end with it.
func (b *builder) readLoggedNodes(ctx context.Context) error {
	for _, file := range b.nodeFiles(2, func(path string) bool { return path == "gcs_server.out" }) {
		log, err := b.read(ctx, file)
		if err != nil {
			return err
		}
		for _, m := range loggedNodeEnd().FindAllStringSubmatchIndex(log.text, -1) {
			reason, message := log.text[m[2]:m[3]], log.text[m[4]:m[5]]
			id, err := rayid.Parse[rayid.Node](log.text[m[6]:m[7]])
			at := b.logTime(log.text[m[0]:m[1]])
			if err != nil || moment.WantedEnd(reason) || b.lost[id] != nil || at > b.end {
				continue
			}
			f := b.nodeLost(id)
			f.happened(at, false)
			f.on(id, at)
			f.Title = fmt.Sprintf("%s %s", b.nodeTitle(id), nodeEnd(reason))
			if said := output.FirstSentence(message); said != "" {
				f.Title += ": " + said
			}
			f.show(b.evidence(log, m[0], m[1]))
		}
	}
	return nil
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
