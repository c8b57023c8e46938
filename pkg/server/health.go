package server

import (
	"net/http"
)

// healthy says that the process answers.
func (s *Server) healthy(w http.ResponseWriter, _ *request) error {
	writeText(w, http.StatusOK, "ok\n")
	return nil
}

// Drain makes /readyz answer that no further requests should be sent here. Requests that still arrive are answered.
func (s *Server) Drain() { s.draining.Store(true) }

// ready says whether the store could be listed since the start. It needs no credentials, so the store's error is only
// in the log.
func (s *Server) ready(w http.ResponseWriter, _ *request) error {
	status, text := http.StatusServiceUnavailable, ""
	switch l := s.opts.Catalog.Cached(); {
	case s.draining.Load():
		text = "the server is shutting down\n"
	case l.At.IsZero() && l.Err == nil:
		text = "the first listing of the stored sessions has not finished\n"
	case l.At.IsZero():
		text = "the stored sessions could not be listed yet; see the log\n"
	case l.Err != nil:
		status, text = http.StatusOK, "ok, but the last listing failed; see the log\n"
	default:
		status, text = http.StatusOK, "ok\n"
	}
	writeText(w, status, text)
	return nil
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
