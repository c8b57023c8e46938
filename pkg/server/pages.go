package server

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/server/web"
)

// page writes one of the server's own pages.
func (s *Server) page(w http.ResponseWriter, status int, p web.Page) {
	if err := web.Write(w, status, p); err != nil {
		panic(err) // the template does not fit its data; recoverPanics logs it
	}
}

// asset serves the style sheet, scripts and images of the server's own pages.
func (s *Server) asset(w http.ResponseWriter, r *request) error {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(w, r.Request, web.Assets(), r.params[paramPath])
	return nil
}
