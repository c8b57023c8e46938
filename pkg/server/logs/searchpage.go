package logs

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/logs/logsearch"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// SearchPage is the page that searches a session's logs.
func (h *Handlers) SearchPage(w http.ResponseWriter, r *http.Request, session Session) error {
	nodes, err := session.Nodes(r.Context())
	if err != nil {
		return err
	}
	meant, err := timesOf(r.Context(), session)
	if err != nil {
		return err
	}
	page := web.Search{Frame: visible.FrameOf(r, session.Entry, "search"), Form: r.URL.Query()}
	for _, node := range session.Session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, nodeOf(nodes, node))
	}
	if page.Form.Get("q") == "" && session.At == 0 { // names do not say since when there is a log
		page.Logs = logsOf(session, page.Nodes)
	}
	status := http.StatusOK
	var wrong *param.Error
	q, err := searchQuery(page.Form, meant)
	if errors.As(err, &wrong) {
		status, page.Wrong = http.StatusBadRequest, web.Wrong{Error: *wrong}
	} else if err == nil && page.Form.Get("plain") != "" {
		if page.Result, err = h.result(r, session, q); err != nil {
			return err
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, status, page)
	return nil
}

// Limits of the logs that the page names.
const maxNamedNodes, maxNamedFiles = 20, 200

// logsOf returns the logs of the first of a session's nodes. nodes are all that have logs, in the order of Logs.Nodes.
func logsOf(session Session, nodes []web.Node) (all []web.NodeLogs) {
	for i, id := range session.Session.Logs.Nodes()[:min(len(nodes), maxNamedNodes)] {
		files := slices.Clone(session.Session.Logs.Paths(id))
		slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(kindOf(a), kindOf(b)) })
		named := min(len(files), maxNamedFiles)
		all = append(all, web.NodeLogs{Node: nodes[i], Files: files[:named], More: len(files) - named})
	}
	slices.SortStableFunc(all, func(a, b web.NodeLogs) int { return cmp.Compare(a.Role, b.Role) }) // the head first
	return all
}

// kindOf numbers logs as people look for them: of drivers, of Ray's own processes, of workers, and those in folders.
func kindOf(file string) int {
	switch {
	case strings.HasPrefix(file, moment.SubmissionPrefix):
		return 0
	case strings.Contains(file, "/"):
		return 3
	case strings.HasPrefix(file, "worker-"):
		return 2
	}
	return 1
}

// Limits of a result that is shown without scripts.
const (
	plainLines     = 1000
	plainFileLines = 200
)

// result runs a search, for a page without scripts.
func (h *Handlers) result(r *http.Request, session Session, q *logsearch.Query) (*web.SearchResult, error) {
	q.Lines, q.FileLines = min(cmp.Or(q.Lines, plainLines), plainLines), plainFileLines
	source, err := h.sourceOf(r.Context(), session, q, true) // with what wrote each log
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
	return result, err
}
