package findings

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// wantedEnds holds the reasons of a node's death (ray.rpc.NodeDeathInfo.Reason) that somebody, or the autoscaler, wanted.
var wantedEnds = map[string]bool{"EXPECTED_TERMINATION": true, "AUTOSCALER_DRAIN_IDLE": true}

// readNodes finds the nodes that died.
func (b *builder) readNodes(ctx context.Context) (err error) {
	if b.nodes, err = summary.Read(b.r.With(ctx)); err != nil {
		return err
	}
	for _, hex := range b.nodes.Order {
		raylet := b.nodes.Node(hex).Object("raylet")
		id, err := rayid.Parse[rayid.Node](hex)
		if err != nil || !Lost(raylet) {
			continue
		}
		info := raylet.Object("deathInfo")
		f := b.nodeLost(id)
		f.happened(raylet.Int("endTimeMs")*1e6, false)
		f.on(id, raylet.Int("endTimeMs")*1e6)
		message := cmp.Or(output.FirstSentence(info.String("reasonMessage")), output.FirstSentence(raylet.String("stateMessage")))
		f.Title = fmt.Sprintf("%s %s", b.nodeTitle(id), nodeEnd(info.String("reason")))
		source := "snapshot"
		if n := b.s.Node(id); n != nil {
			source = "event"
		}
		text := strings.TrimSpace(info.String("reason") + " " + info.String("reasonMessage"))
		if message != "" {
			f.Title += ": " + message
		}
		f.show(Evidence{
			Source: source, NodeID: hex, Time: stamp(f.first), Text: fmt.Sprintf("node %s (%s) is dead: %s", b.nodeName(id), hex, cmp.Or(text, raylet.String("stateMessage"))),
			Link: b.link("#/cluster/nodes/%s", hex),
		})
	}
	return b.readLoggedNodes(ctx)
}

// Lost reports whether a node died although nobody wanted it to end. raylet is the "raylet" of the node's summary.
func Lost(raylet *pyjson.Object) bool {
	reason := raylet.Object("deathInfo").String("reason")
	return raylet.String("state") == moment.Dead && !wantedEnds[reason] && (reason != "" || raylet.String("stateMessage") != "")
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
