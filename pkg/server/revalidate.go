package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/session"
)

// etag names the answer to a request for a session that has ended, as long as this version of the server gives it; "" for what may still
// change. Logs have none: a worker's collector may store the last lines of its own after the session's end.
func (s *Server) etag(r *http.Request, loaded *session.Session, route string) string {
	if !loaded.Ended || strings.Contains(route, "/logs") || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return ""
	}
	h := sha256.New()
	for _, part := range []string{s.opts.Version, loaded.Fingerprint(), r.URL.RequestURI()} {
		_, _ = h.Write([]byte(part + "\n"))
	}
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// matches says whether the client has the answer that etag names.
func matches(r *http.Request, etag string) bool {
	return etag != "" && slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), func(have string) bool {
		return strings.TrimPrefix(strings.TrimSpace(have), "W/") == strings.TrimPrefix(etag, "W/")
	})
}

// tagged puts an ETag on an answer if it is a good one: no client may keep an error.
type tagged struct {
	http.ResponseWriter
	etag    string
	written bool
}

func (t *tagged) WriteHeader(status int) {
	if !t.written && status == http.StatusOK && t.etag != "" {
		t.Header().Set("ETag", t.etag)
		t.Header().Set("Cache-Control", "no-cache")
	}
	t.written = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *tagged) Write(p []byte) (int, error) {
	if !t.written {
		t.WriteHeader(http.StatusOK)
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *tagged) Unwrap() http.ResponseWriter { return t.ResponseWriter }
