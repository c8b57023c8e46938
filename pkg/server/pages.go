package server

import (
	"bytes"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/server/web"
)

// page writes one of the server's own pages.
func (s *Server) page(w http.ResponseWriter, status int, p web.Page) {
	var body bytes.Buffer
	if err := p.Render(&body); err != nil {
		panic(err) // the template does not fit its data; recoverPanics logs it
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes())
}

// asset serves the style sheet, scripts and images of the server's own pages.
func (s *Server) asset(w http.ResponseWriter, r *request) error {
	w.Header().Set("Cache-Control", "public, max-age=3600")
	http.ServeFileFS(w, r.Request, web.Assets(), r.params[paramPath])
	return nil
}
