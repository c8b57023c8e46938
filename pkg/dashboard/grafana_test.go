package dashboard

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/session"
)

// The requests are those that Ray 2.60's frontend makes, shortened.
func TestGrafanaShowsTheSessionsTime(t *testing.T) {
	const name = "session_2026-11-20_23-19-45_581717_22125"
	s := made(t, func(s *session.Session) {
		s.Start, s.End = 1_795_216_785_581_717_000, 1_795_216_999_123_456_789
	}).session
	for _, tt := range []struct {
		what, host, url string
		at              int64
		want            string
	}{
		{"all panels", "https://grafana",
			"/grafana/d/rayDefaultDashboard/?orgId=1&kiosk=1&refresh=5s&from=now-5m&to=now&var-SessionName=other&var-datasource=Prometheus", 0,
			"https://grafana/d/rayDefaultDashboard?from=1795216785581&kiosk=1&orgId=1&to=1795216999123&var-SessionName=" + name + "&var-datasource=Prometheus"},
		{"one panel", "https://host/grafana/",
			"/grafana/d-solo/rayDefaultDashboard/default-dashboard?panelId=24&refresh&from=now-1h&to=now", 0,
			"https://host/grafana/d-solo/rayDefaultDashboard/default-dashboard?from=1795216785581&panelId=24&to=1795216999123&var-SessionName=" + name},
		{"a job's time", "https://grafana", "/grafana/d-solo/rayDefaultDashboard?from=1795216790000&to=1795216800000",
			0,
			"https://grafana/d-solo/rayDefaultDashboard?from=1795216790000&to=1795216800000&var-SessionName=" + name},
		{"no time", "https://grafana", "/grafana/d/rayServeDashboard?orgId=1", 0,
			"https://grafana/d/rayServeDashboard?from=1795216785581&orgId=1&to=1795216999123&var-SessionName=" + name},
		{"up to a moment", "https://grafana", "/grafana/d/rayServeDashboard?from=now-7d&to=now",
			1_795_216_800_000_000_000,
			"https://grafana/d/rayServeDashboard?from=1795216785581&to=1795216800000&var-SessionName=" + name},
		{"a Grafana on the same host", "/grafana-of-us", "/grafana/d/rayServeDashboard?from=now-7d&to=now", 0,
			"/grafana-of-us/d/rayServeDashboard?from=1795216785581&to=1795216999123&var-SessionName=" + name},
		{"no way out of Grafana's dashboards", "https://grafana", "/grafana/d/%2e%2e/%2e%2e/%2e%2e/admin?orgId=1", 0,
			"https://grafana/d/admin?from=1795216785581&orgId=1&to=1795216999123&var-SessionName=" + name},
	} {
		t.Run(tt.what, func(t *testing.T) {
			a := newAsker(t, s, Options{Services: Services{GrafanaHost: "http://g:3000", GrafanaIframeHost: tt.host}})
			a.at = tt.at
			w := a.get(tt.url)
			got := w.Header().Get("Location")
			says.True(t, w.Code == http.StatusFound && got == tt.want, "%d %s, want %s", w.Code, got, tt.want)
		})
	}
}

// Ray's proxying dashboard would follow a redirect itself.
func TestGrafanaThroughRaysProxy(t *testing.T) {
	s := made(t, func(s *session.Session) { s.Start, s.End = 1e18, 2e18 }).session
	a := newAsker(t, s, Options{Services: Services{GrafanaHost: "https://grafana"}})
	r := httptest.NewRequest(http.MethodGet, "/grafana/d/x?from=now-5m&to=now", nil)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.mux.ServeHTTP(w, r)
	response.Is(t, w, http.StatusOK,
		"url=https://grafana/d/x?from=1000000000000&amp;to=2000000000000&amp;var-SessionName=session_")
}

// noPanels stand for the pages of stored metrics: what they answer shows what they were asked.
type noPanels struct{}

func (noPanels) Page(w http.ResponseWriter, _ *Request, dashboard string, onePanel bool) error {
	_, _ = fmt.Fprintf(w, "%q %t", dashboard, onePanel)
	return nil
}

// Without a Grafana of one's own the session's own panels are shown; with one, they are not.
func TestStoredPanels(t *testing.T) {
	s := made(t, func(*session.Session) {}).session
	for path, want := range map[string]string{
		"/grafana/d/rayServeLlmSglangDashboard/?kiosk=1":                  `"serve_llm_sglang" false`,
		"/grafana/d-solo/rayDefaultDashboard/default-dashboard?panelId=1": `"default" true`,
		"/grafana/d/rayDataDashboard":                                     `"data" false`,
		"/grafana/d/other":                                                `"" false`,
	} {
		w := newAsker(t, s, Options{Services: Services{Panels: noPanels{}}}).get(path)
		says.True(t, w.Body.String() == want, "%s: %d %s, want %s", path, w.Code, w.Body, want)
		own := Options{Services: Services{GrafanaHost: "https://grafana", Panels: noPanels{}}}
		response.Is(t, newAsker(t, s, own).get(path), http.StatusFound, "", "%s with a Grafana", path)
	}
}
