package findings

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// readNodes finds the nodes that died.
func (b *builder) readNodes(ctx context.Context) (err error) {
	if b.nodes, err = b.r.Nodes(ctx); err != nil {
		return err
	}
	for _, n := range b.nodes.All {
		id, err := rayid.Parse[rayid.Node](n.ID)
		if err != nil || !n.Lost() {
			continue
		}
		f := b.nodeLost(id)
		f.happened(n.End, false)
		f.on(id, n.End)
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
		f.show(Evidence{
			Source: source, NodeID: n.ID, Time: stamp(f.first), Text: fmt.Sprintf("node %s (%s) is dead: %s", b.nodeName(id), n.ID, cmp.Or(text, n.StateMessage)),
			Link: b.link("#/cluster/nodes/%s", n.ID),
		})
	}
	return b.readLoggedNodes(ctx)
}

// nodeLost returns the finding about a node that died.
func (b *builder) nodeLost(id rayid.Node) *finding {
	f := b.lost[id]
	if f == nil {
		f = b.find(NodeDied, id.String())
		f.Title = b.nodeTitle(id) + " died"
		f.about(b.nodeEntity(id))
		b.lost[id] = f
	}
	return f
}

// lostIn returns the node that died and is named in a text; nil if there is none.
func (b *builder) lostIn(text string) (node rayid.Node) {
	for id := range b.lost {
		if strings.Contains(text, id.String()) {
			node = id
		}
	}
	return node
}
