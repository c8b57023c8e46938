package browser

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// What of a running cluster's headers comes through is a subset of those that describe a body, whatever it sends.
func FuzzClusterAnswer(f *testing.F) {
	f.Add("Set-Cookie", "a=b", "text/javascript", 200)
	f.Add("service-worker-allowed", "/", "text/html; charset=utf-8", 200)
	f.Add("Content-Type", "text/css", "application/json", 206)
	f.Add("Connection", "Upgrade", "module/javascript", 101)
	f.Add("Cache-Control", "immutable", "text/plain; charset=\"utf-7\"", 304)
	f.Add("content-security-policy", "x", "image/svg+xml;text/javascript", 404)
	kept := []string{"Accept-Ranges", "Allow", "Content-Disposition", "Content-Encoding", "Content-Length",
		"Content-Range", "Content-Type", "Retry-After"}
	upgrade := []string{"Connection", "Upgrade", "Sec-Websocket-Accept", "Sec-Websocket-Extensions",
		"Sec-Websocket-Protocol"}
	f.Fuzz(func(t *testing.T, name, value, contentType string, status int) {
		h := http.Header{name: {value, "second"}, "Content-Type": {contentType}}
		FilterClusterHeaders(h, status)
		for name, values := range h {
			if !slices.Contains(kept, name) && (status != http.StatusSwitchingProtocols ||
				!slices.Contains(upgrade, name)) {
				t.Errorf("%q came through", name)
			}
			says.Equal(t, len(values), 1, "%q has values %q", name, values)
		}
		if got := h.Get("Content-Type"); status != http.StatusSwitchingProtocols &&
			(got == "" || strings.Contains(got, "script") || strings.Contains(got, "css")) {
			t.Errorf("Content-Type %q became %q", contentType, got)
		}
	})
}

// Whoever makes the address somebody is sent to after signing in, it is one of this server's, as a browser reads it.
func FuzzWithin(f *testing.F) {
	for _, s := range []string{
		"", "homepage", "namespaces/a/clusters/b/sessions/c/?x=1#/jobs", "https://evil.example", "//evil.example",
		`/\evil.example`, `\\evil.example`, "https:evil.example",
		"javascript:alert(1)", "a/../../b", "%2e%2e/b", "\t//evil.example", "./\t/evil.example", "#\r\nSet-Cookie: a=b",
		"?//evil", "a//b", "%2f%2fevil.example", "%2f ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, given string) {
		base, err := url.Parse("https://history.example/prefix/login")
		must.OK(t, err)
		got := BelowRoot(given)
		must.True(t, !strings.ContainsFunc(got, func(r rune) bool { return r < ' ' }), "%q became %q", given, got)
		// Browsers take a backslash for a slash, in front of the query.
		path, _, _ := strings.Cut(strings.SplitN(got, "#", 2)[0], "?")
		to, err := base.Parse(strings.ReplaceAll(path, `\`, "/"))
		says.True(t, err == nil && to.Scheme == "https" && to.Host == "history.example" &&
			strings.HasPrefix(to.Path, "/prefix/"), "%q leads to %q: %v, %v", given, got, to, err)
		w := httptest.NewRecorder()
		Redirect(w, http.StatusSeeOther, got) // it panics where it does not trust it
	})
}

func TestRoot(t *testing.T) {
	for path, want := range map[string]string{"/": "./", "/login": "./", "/a/b": "../", "/a/b/": "../../",
		"/a%2Fb/c": "../"} {
		says.Equal(t, Root(httptest.NewRequest(http.MethodGet, path, nil)), want, "%s", path)
	}
}

// TestRetryAfter: a cluster's owner must not have pages ask again at once, and again.
func TestRetryAfter(t *testing.T) {
	for given, want := range map[string]string{"5": "5", "0": "", "-1": "", "0.001": "", "1e-9": "", "soon": ""} {
		h := http.Header{"Retry-After": {given}}
		FilterClusterHeaders(h, http.StatusServiceUnavailable)
		says.Equal(t, h.Get("Retry-After"), want, "%s", given)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, host := range []string{"", "https://history.example", "history.example/path", "a?b"} {
		says.Error(t, says.Err(New(Config{AllowedHosts: []string{host}}, false)), "--allowed-hosts", host)
	}
}

func TestSubresource(t *testing.T) {
	r := must.Get(New(Config{}, false))(t)
	for _, tc := range []struct {
		site, mode, dest string
		refused          bool
	}{
		{"", "", "", false},
		{"same-origin", "cors", "empty", false},
		{"none", "navigate", "document", false},
		{"cross-site", "navigate", "document", false},
		{"cross-site", "navigate", "iframe", true},
		{"cross-site", "no-cors", "image", true},
		{"same-site", "cors", "empty", true},
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": tc.site, "Sec-Fetch-Mode": tc.mode,
			"Sec-Fetch-Dest": tc.dest} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		err := r.CheckSubresource(req)
		says.True(t, (err != nil) == tc.refused, "%+v: %v", tc, err)
	}
}
