package logs

import (
	"errors"
	"net/http"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web"
)

// SearchPage is the page that searches a session's logs.
func (h *Handlers) SearchPage(w http.ResponseWriter, r *http.Request, of Session) error {
	nodes, err := h.nodesOf(r.Context(), of)
	if err != nil {
		return err
	}
	meant, err := h.timesOf(r.Context(), of)
	if err != nil {
		return err
	}
	page := web.Search{
		Frame: visible.FrameOf(r, of.Entry, "search"), Cluster: of.Entry.Ref.Cluster, Namespace: of.Entry.Ref.Namespace,
		Session: of.Entry.Ref.Name,
		Form:    r.URL.Query(),
	}
	for _, node := range of.Session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, nodeOf(nodes, node))
	}
	status := http.StatusOK
	var wrong *param.Error
	if _, err := searchQuery(page.Form, meant); errors.As(err, &wrong) {
		status, page.Wrong = http.StatusBadRequest, web.Wrong{Error: *wrong}
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, status, page)
	return nil
}
