package logs

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// SearchPage is the page that searches a session's logs.
func (h *Handlers) SearchPage(w http.ResponseWriter, r *http.Request, session Session) error {
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	times, err := TimesOf(r.Context(), session.Moment)
	if err != nil {
		return err
	}
	page := web.Search{Frame: visible.FrameOf(r, session.Entry, "search"), Form: r.URL.Query()}
	for _, node := range session.Session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, nodeOf(nodes, node))
	}
	// At a replayed moment no logs are listed: their names do not say which existed by then.
	if page.Form.Get("q") == "" && session.At == 0 {
		if page.Logs, err = logsOf(r.Context(), session, page.Nodes); err != nil {
			return err
		}
	}
	status := http.StatusOK
	var wrong *param.Error
	q, err := searchQuery(page.Form, times)
	if errors.As(err, &wrong) {
		status, page.Wrong = http.StatusBadRequest, web.Wrong{Error: *wrong}
	} else if page.Form.Get("plain") != "" { // otherwise the page's script asks, and shows what is wrong
		if err == nil {
			page.Result, err = h.result(r, session, q)
		}
		if err != nil {
			return err
		}
	}
	web.Write(w, status, page)
	return nil
}

// Limits of the logs that the page names.
const maxNamedNodes, maxNamedFiles = 20, 200

// logsOf returns the logs of the first of a session's nodes. nodes are all that have logs, in the order of Logs.Nodes.
func logsOf(ctx context.Context, session Session, nodes []web.Node) (all []web.NodeLogs, err error) {
	wrote, err := dashboard.LogWritersOf(ctx, session.Moment)
	if err != nil {
		return nil, err
	}
	logs := session.Session.Logs
	for i, id := range logs.Nodes()[:min(len(nodes), maxNamedNodes)] {
		files := slices.Clone(logs.Paths(id))
		slices.SortStableFunc(files, func(a, b string) int {
			return cmp.Compare(logsearch.RankOf(a), logsearch.RankOf(b))
		})
		of := web.NodeLogs{Node: nodes[i]}
		for _, file := range files {
			list := &of.Files
			if logsearch.RankOf(file) >= logsearch.RanksOfRay {
				list = &of.Own
			}
			if len(*list) == maxNamedFiles {
				of.More++
				continue
			}
			*list = append(*list, web.NamedLog{NodeID: nodes[i].ID, File: file, Writer: wrote.Of(file),
				Bytes: logs.StoredBytes(id, file)})
		}
		all = append(all, of)
	}
	slices.SortStableFunc(all, func(a, b web.NodeLogs) int { return cmp.Compare(a.Role, b.Role) }) // the head first
	return all, nil
}

// Limits of a result that is shown without scripts.
const (
	plainLines     = 1000
	plainFileLines = 200
)

// result runs a search, for a page without scripts.
func (h *Handlers) result(r *http.Request, session Session, q *logsearch.Query) (*web.SearchResult, error) {
	q.Lines, q.FileLines = min(cmp.Or(q.Lines, plainLines), plainLines), plainFileLines
	source, err := sourceOf(r.Context(), session, q, true) // with what wrote each log
	if err != nil {
		return nil, err
	}
	ctx, done, err := turn(r, h.searches, turnWait)
	if err != nil {
		return nil, err
	}
	defer done()
	result := &web.SearchResult{}
	err = logsearch.Run(ctx, q, source(ctx), func(record logsearch.Record) error {
		result.Add(record)
		return nil
	})
	slices.SortFunc(result.Logs, func(a, b *web.FoundLog) int { // they come as they are searched
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.NodeID, b.NodeID),
			cmp.Compare(a.File.File, b.File.File))
	})
	return result, err
}
