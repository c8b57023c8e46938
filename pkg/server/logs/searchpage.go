package logs

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// SearchPage is the page that searches a session's logs. Without a search it lists the logs.
func (h *Handlers) SearchPage(w http.ResponseWriter, r *http.Request, session Session) error {
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	times, err := TimesOf(r.Context(), session.Moment)
	if err != nil {
		return err
	}
	page := web.Search{Frame: visible.SessionFrame(r, session.Entry, "search"), Form: r.URL.Query()}
	for _, node := range session.Session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, webNode(nodes, node))
	}
	// At a replayed moment no logs are listed: their names do not say which existed by then.
	if page.Form.Get("q") == "" && session.At == 0 {
		if page.Logs, err = namedLogs(r.Context(), session, page.Nodes); err != nil {
			return err
		}
	}
	status := http.StatusOK
	var wrong *param.Error
	q, err := searchQuery(page.Form, times)
	if err == nil {
		fitForm(page.Form)
		err = chooseNode(&page, nodes, q.Node)
	}
	if errors.As(err, &wrong) {
		status, page.Wrong = http.StatusBadRequest, web.Wrong{Error: *wrong}
	} else if page.Form.Get("plain") != "" { // without it, the page's script searches, and shows its errors
		if err == nil {
			page.Result, err = h.plainResult(r, session, q)
		}
		if err != nil {
			return err
		}
	}
	web.Write(w, status, page)
	return nil
}

// chooseNode has the form choose the node whose ID begins with id; "" is all nodes. The form gets the node if it is one
// of the session's nodes without logs. It is an error if no ID begins so, or several do.
func chooseNode(page *web.Search, nodes moment.Nodes, id string) error {
	if id == "" {
		return nil
	}
	begins := func(n web.Node) bool { return strings.HasPrefix(n.ID, id) }
	if !slices.ContainsFunc(page.Nodes, begins) {
		for _, n := range nodes.All {
			if node, err := rayid.Parse[rayid.Node](n.ID); err == nil && strings.HasPrefix(n.ID, id) {
				page.Nodes = append(page.Nodes, webNode(nodes, node))
			}
		}
	}
	found := 0
	for _, n := range page.Nodes {
		if begins(n) {
			page.Form.Set("node_id", n.ID)
			found++
		}
	}
	if found != 1 {
		return &param.Error{Name: "node_id", Value: id, Want: "the ID, or its beginning, of one of the session's nodes"}
	}
	return nil
}

// Limits of the logs that the page lists: nodes, and files of each node in each of its two lists.
const maxNamedNodes, maxNamedFiles = 20, 200

// namedLogs returns the logs that the page lists, of each of the first nodes: those of users' programs, and Ray's own.
// nodes are all nodes that have logs, in the order of Logs.Nodes.
func namedLogs(ctx context.Context, session Session, nodes []web.Node) (all []web.NodeLogs, err error) {
	writers, err := dashboard.LogWritersOf(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	logs := session.Session.Logs
	for i, id := range logs.Nodes()[:min(len(nodes), maxNamedNodes)] {
		files := slices.Clone(logs.Paths(id))
		slices.SortStableFunc(files, func(a, b string) int {
			return cmp.Compare(logsearch.RankOf(a), logsearch.RankOf(b))
		})
		node := web.NodeLogs{Node: nodes[i]}
		for _, file := range files {
			list := &node.Files
			if logsearch.RankOf(file) >= logsearch.RanksOfRay {
				list = &node.Own
			}
			if len(*list) == maxNamedFiles {
				node.More++
				continue
			}
			*list = append(*list, web.NamedLog{NodeID: nodes[i].ID, File: file, Writer: writers.Of(file),
				Bytes: logs.StoredBytes(id, file)})
		}
		all = append(all, node)
	}
	slices.SortStableFunc(all, func(a, b web.NodeLogs) int { return cmp.Compare(a.Role, b.Role) }) // the head first
	return all, nil
}

// Limits of a result that is shown without scripts.
const (
	plainLines     = 1000 // of all logs together
	plainFileLines = 200  // of one log
)

// plainResult runs a search for a page without scripts, which shows the complete result. It lowers the query's limits.
func (h *Handlers) plainResult(r *http.Request, session Session, q *logsearch.Query) (*web.SearchResult, error) {
	q.Lines, q.FileLines = min(cmp.Or(q.Lines, plainLines), plainLines), plainFileLines
	const writers = true
	source, err := sessionSource(r.Context(), session, q, writers)
	if err != nil {
		return nil, err
	}
	ctx, done, err := takeTurn(r, h.searches, turnWait)
	if err != nil {
		return nil, err
	}
	defer done()
	result := &web.SearchResult{}
	err = logsearch.Run(ctx, q, source(ctx), func(record logsearch.Record) error {
		result.Add(record)
		return nil
	})
	slices.SortFunc(result.Logs, func(a, b *web.FoundLog) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.NodeID, b.NodeID),
			cmp.Compare(a.File.File, b.File.File))
	})
	return result, err
}
