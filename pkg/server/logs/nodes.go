package logs

import (
	"context"

	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/web"
)

// nodesOf are the nodes of a session, of which logs may be stored.
func (h *Handlers) nodesOf(ctx context.Context, of Session) (moment.Nodes, error) {
	return h.opts.Dashboard.NodesOf(ctx, of.Session, of.At)
}

// nodeOf is a node as pages name it.
func nodeOf(nodes moment.Nodes, id rayid.Node) web.Node {
	n := web.Node{ID: id.String()}
	if known := nodes.ByID[n.ID]; known != nil {
		n.IP, n.Role = known.IP, "worker"
		if known.Head {
			n.Role = "head"
		}
	}
	return n
}
