package logs

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/server/browser"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// SearchPage is the page that searches a session's logs.
func (h *Handlers) SearchPage(w http.ResponseWriter, r *http.Request, of Session) error {
	page := web.Search{
		Base: browser.Root(r), Cluster: of.Entry.Ref.Cluster, Namespace: of.Entry.Ref.Namespace, Session: of.Entry.Ref.Name,
		Form: r.URL.Query(),
	}
	for _, node := range of.Session.Logs.Nodes() {
		page.Nodes = append(page.Nodes, node.String())
	}
	w.Header().Set("Cache-Control", "no-store")
	web.Write(w, http.StatusOK, page)
	return nil
}
