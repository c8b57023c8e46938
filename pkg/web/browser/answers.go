package browser

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// FrameAncestors is for the Content-Security-Policy of pages: only pages of this server may show them in a frame. For
// answers without a policy, Secure says the same.
const FrameAncestors = "frame-ancestors 'self'"

// Secure sets the headers that every answer needs. Among them: browsers must not guess the type of logs and other
// stored texts, and no cache may keep an answer unless its handler sets another Cache-Control, because most answers
// change, and an address without a session's prefix answers about many sessions. nginx must pass answers on as they
// come: it would hold back the lines of a log that is followed, and of a download it reads 1 GiB and then nothing until
// the client has that, which looks as if the client had stopped.
func (r *Rules) Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
}

// AllowRevalidation lets clients keep an answer that has an ETag, if they ask before each use whether it has changed.
// If callers must sign in it does nothing, because no cache may keep what one of them may see.
func (r *Rules) AllowRevalidation(h http.Header) {
	if !r.guarded {
		h.Set("Cache-Control", "no-cache")
	}
}

// Redirect answers with a redirect to target. target must be relative to the request's address, because a proxy may
// have cut off a prefix, so that the server does not know its own absolute addresses. It panics if target could lead to
// another server.
func Redirect(w http.ResponseWriter, status int, target string) {
	if !isLocal(target) {
		// This is a defect of the caller: callers make targets of parts that they have checked.
		panic(fmt.Sprintf("a redirect that could leave the server: %.200q", target))
	}
	w.Header().Set("Location", target)
	w.WriteHeader(status)
}

// Root is the address of the server's root, relative to a request's path.
func Root(r *http.Request) string {
	up := strings.Repeat("../", max(0, strings.Count(r.URL.EscapedPath(), "/")-1))
	if up == "" {
		return "./"
	}
	return up
}

// BelowRoot returns an address that a client gave, which is relative to the server's root, if it is one below the root;
// else "./", the root itself.
func BelowRoot(given string) string {
	u, err := url.Parse(given)
	if err != nil || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return "./"
	}
	if target := Relative(u.String()); isLocal(given) && isLocal(target) {
		return target
	}
	return "./"
}

// Relative returns a relative path with ./ at its beginning, unless it begins with ./ or ../: a first part such as
// "https:x" would be read as one with a scheme.
func Relative(path string) string {
	if strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") {
		return path
	}
	return "./" + path
}

// isLocal says whether an address is relative. It is strict, because browsers read a backslash as a slash, and drop
// control characters, with which url.Parse fails.
func isLocal(target string) bool {
	u, err := url.Parse(target)
	path, _, _ := strings.Cut(target, "#")
	path, _, _ = strings.Cut(path, "?")
	return err == nil && u.Scheme == "" && u.Host == "" && !strings.HasPrefix(path, "/") &&
		!strings.Contains(path, `\`) && !strings.Contains(path, "//")
}

// Sandbox sets the headers that keep the answer of a running cluster from acting as a page of this server: whoever owns
// the cluster decides what its pages do, and they must not do it in the name of the people who open them. Scripts of
// our pages can read such an answer as usual.
func Sandbox(h http.Header) {
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
	h.Set("Cache-Control", "no-store")
}

// clusterHeaders are the headers of a running cluster's answers that a client gets: those that it needs to read the
// body.
var clusterHeaders = map[string]bool{
	"Accept-Ranges": true, "Allow": true, "Content-Disposition": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Range": true,
	"Content-Type":  true, "Retry-After": true,
}

// upgradeHeaders are those that a client also gets if the answer makes the connection a WebSocket.
var upgradeHeaders = map[string]bool{
	"Connection": true, "Upgrade": true, "Sec-Websocket-Accept": true, "Sec-Websocket-Extensions": true,
	"Sec-Websocket-Protocol": true,
}

// FilterClusterHeaders removes from the headers of a running cluster's answer those that a client must not get: all
// that are not known to be harmless, or are spelled in an unusual way. Of a header that is there several times it
// leaves the first, and it replaces a Content-Type that browsers could execute. Upgrades to a WebSocket keep the
// headers that they need.
func FilterClusterHeaders(h http.Header, status int) {
	upgrades := status == http.StatusSwitchingProtocols
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		allowed := clusterHeaders[canonical] || upgrades && upgradeHeaders[canonical]
		if !allowed || canonical != name {
			delete(h, name)
		} else if len(values) > 1 {
			h[name] = values[:1]
		}
	}
	if !upgrades {
		h.Set("Content-Type", harmlessType(h.Get("Content-Type")))
	}
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err != nil || seconds < 1 {
		h.Del("Retry-After") // with 0, pages would try again without a pause
	}
}

// harmlessTypes are the types that browsers use neither as a script nor as a style sheet.
var harmlessTypes = map[string]bool{
	"application/gzip": true, "application/json": true, "application/octet-stream": true, "application/text": true,
	"application/x-ndjson": true,
	"application/zip":      true, "image/gif": true, "image/jpeg": true, "image/png": true, "image/svg+xml": true,
	"image/webp":        true,
	"text/event-stream": true, "text/html": true, "text/plain": true,
}

// harmlessType returns a Content-Type without its parameters, except for a charset that is UTF-8 or ASCII. A type that
// is none of harmlessTypes becomes application/octet-stream.
func harmlessType(contentType string) string {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !harmlessTypes[kind] {
		return "application/octet-stream"
	}
	if charset := parameters["charset"]; strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "us-ascii") {
		return kind + "; charset=" + strings.ToLower(charset)
	}
	return kind
}

// WantsPage says whether the answer is to be a page for a person. Scripts and Ray's tools do not accept HTML.
func WantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
