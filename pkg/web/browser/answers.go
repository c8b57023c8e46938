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

// Secure sets the headers that every answer needs. Browsers must not guess the type of logs and other stored texts. No
// cache may keep an answer whose handler does not say otherwise: without a session's prefix one address answers for
// many sessions, and most answers change.
func (r *Rules) Secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Revalidate has clients keep an answer that has an ETag, and ask each time whether it has changed. Where callers must
// sign in, no cache may keep what one of them saw.
func (r *Rules) Revalidate(h http.Header) {
	if !r.guarded {
		h.Set("Cache-Control", "no-cache")
	}
}

// Redirect leads to target, which must be relative to the request's address and stay on this server: a proxy may have
// cut a prefix off, so the server does not know its own absolute addresses.
func Redirect(w http.ResponseWriter, status int, target string) {
	if !local(target) {
		// all callers build targets from checked parts
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

// Within is an address from outside, relative to the server's root, if it leads below the root; else it is the root.
func Within(given string) string {
	u, err := url.Parse(given)
	if err != nil || slices.Contains(strings.Split(u.Path, "/"), "..") {
		return "./"
	}
	if way := Relative(u.String()); local(given) && local(way) {
		return way
	}
	return "./"
}

// Relative writes a relative path so that it cannot be read as anything else: "https:x" would have a scheme.
func Relative(path string) string {
	if strings.HasPrefix(path, "./") || strings.HasPrefix(path, "../") {
		return path
	}
	return "./" + path
}

// local says whether an address is relative, also to browsers, which read a backslash as a slash and drop control
// characters.
func local(target string) bool {
	u, err := url.Parse(target)
	path, _, _ := strings.Cut(target, "#")
	path, _, _ = strings.Cut(path, "?")
	return err == nil && u.Scheme == "" && u.Host == "" && !strings.HasPrefix(path, "/") &&
		!strings.Contains(path, `\`) && !strings.Contains(path, "//")
}

// Sandbox makes an answer of a running cluster inert, whatever it is: the cluster belongs to its owner, and none of its
// pages may act here for the people who open it. Data can be read as usual.
func Sandbox(h http.Header) {
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:")
	h.Set("Cache-Control", "no-store")
}

// clusterHeaders are the headers of a running cluster's answers that reach a client: those needed to read the body.
var clusterHeaders = map[string]bool{
	"Accept-Ranges": true, "Allow": true, "Content-Disposition": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Range": true,
	"Content-Type":  true, "Retry-After": true,
}

// upgradeHeaders reach a client as well if the answer makes the connection a WebSocket.
var upgradeHeaders = map[string]bool{
	"Connection": true, "Upgrade": true, "Sec-Websocket-Accept": true, "Sec-Websocket-Extensions": true,
	"Sec-Websocket-Protocol": true,
}

// ClusterAnswer removes from the headers of a running cluster's answer what may not reach a client.
func ClusterAnswer(h http.Header, status int) {
	for name, values := range h {
		canonical := http.CanonicalHeaderKey(name)
		if kept := clusterHeaders[canonical] || status == http.StatusSwitchingProtocols &&
			upgradeHeaders[canonical]; !kept || canonical != name {
			delete(h, name)
		} else if len(values) > 1 {
			h[name] = values[:1]
		}
	}
	if status != http.StatusSwitchingProtocols {
		h.Set("Content-Type", plainType(h.Get("Content-Type")))
	}
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err != nil || seconds < 1 {
		h.Del("Retry-After") // pages would ask again at once, and again
	}
}

// plainTypes are the types that no browser uses as a script or a style sheet.
var plainTypes = map[string]bool{
	"application/gzip": true, "application/json": true, "application/octet-stream": true, "application/text": true,
	"application/x-ndjson": true,
	"application/zip":      true, "image/gif": true, "image/jpeg": true, "image/png": true, "image/svg+xml": true,
	"image/webp":        true,
	"text/event-stream": true, "text/html": true, "text/plain": true,
}

// plainType is a Content-Type if it is one of plainTypes, else that of any bytes.
func plainType(contentType string) string {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !plainTypes[kind] {
		return "application/octet-stream"
	}
	if charset := parameters["charset"]; strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "us-ascii") {
		return kind + "; charset=" + strings.ToLower(charset)
	}
	return kind
}

// WantsPage says whether a person looks at the answer: scripts and Ray's tools do not ask for HTML.
func WantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
