package server

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/web"
)

// asset serves the style sheet, scripts and images of the server's own pages.
func (s *Server) asset(w http.ResponseWriter, r *request) error {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(w, r.Request, web.Assets(), r.params[paramPath])
	return nil
}
