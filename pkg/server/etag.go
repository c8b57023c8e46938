package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/session"
)

// etag identifies the answer to a request about an ended session: it changes with everything that the answer depends
// on. It is "" for what may still change, and for logs: a worker's collector may store the last lines after the
// session's end.
func (s *Server) etag(r *http.Request, c choice, loaded *session.Session, route string) string {
	if !loaded.Ended || strings.Contains(route, "/logs") ||
		(r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return ""
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q %x %d %t %q", s.opts.Version, s.opts.Settings, loaded.Fingerprint(),
		loaded.Contents(), c.at, dashboard.FromBrowser(r), r.URL.RequestURI())
	return `W/"` + hex.EncodeToString(h.Sum(nil)[:12]) + `"`
}

// matches says whether the client has the answer that etag names.
func matches(r *http.Request, etag string) bool {
	return etag != "" && slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), func(have string) bool {
		return strings.TrimPrefix(strings.TrimSpace(have), "W/") == strings.TrimPrefix(etag, "W/")
	})
}
