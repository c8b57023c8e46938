package metrics

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// grafanaPath is the address of Grafana that the frontend gets, relative to the dashboard. The frontend asks for panels of the last minutes;
// grafanaView redirects it to the panels of the session's own time.
const grafanaPath = "grafana"

// grafanaHost is the address of Grafana that the frontend gets. The frontend recognises Grafana Cloud, which can't be shown in frames, by
// the host's name.
func (s *Services) grafanaHost() string {
	if u, err := url.Parse(s.GrafanaIframeHost); err == nil && strings.HasSuffix("."+u.Hostname(), ".grafana.net") {
		return s.GrafanaIframeHost
	}
	return grafanaPath
}

// GrafanaView is one of Grafana's views: "d", a dashboard, or "d-solo", a panel. The frontend opens both below grafanaPath. It redirects to
// the configured Grafana; without one it shows the session's own metrics.
func (s *Services) GrafanaView(view string) request.Handler {
	return func(w http.ResponseWriter, r *request.Request) error {
		if s.GrafanaHost == "" && s.Panels != nil {
			return s.Panels.Page(w, r, dashboardOf(r), view == "d-solo")
		}
		if s.GrafanaHost == "" || s.GrafanaHost == disabled {
			return reply.Text(w, http.StatusNotFound, noGrafana)
		}
		host, err := url.Parse(s.GrafanaIframeHost)
		if err != nil {
			return fmt.Errorf("redirect to Grafana: %w", err)
		}
		target := host.JoinPath(view, path.Clean("/"+r.Params["dashboard"])) // no dots lead out of the view
		target.RawQuery = ofSession(r).Encode()
		redirect(w, r, target.String())
		return nil
	}
}

// dashboardOf returns Ray's name for the dashboard whose UID the request's path contains; "" if it is not one of Ray's.
func dashboardOf(r *request.Request) string {
	asked, _, _ := strings.Cut(r.Params["dashboard"], "/")
	for name, uid := range dashboardUIDs.All() {
		if uid == asked {
			return name
		}
	}
	return ""
}

// ofSession returns the request's query with the session's name. Times relative to now become the session's own beginning and end. Parameters that
// would refresh the panels are removed.
func ofSession(r *request.Request) url.Values {
	query := r.Query()
	query.Set("var-SessionName", r.Session.Ref.Name)
	query.Del("refresh")
	from, to := r.Session.Start, r.Session.End
	if r.At > 0 {
		to = r.At
	}
	if relative(query.Get("from")) && relative(query.Get("to")) && from > 0 && to >= from {
		query.Set("from", milliseconds(from))
		query.Set("to", milliseconds(to))
	}
	return query
}

// relative reports whether Grafana counts a time from now, as in "now-5m", or would choose one itself.
func relative(t string) bool { return t == "" || strings.HasPrefix(t, "now") }

// milliseconds writes Unix nanoseconds as Grafana wants them.
func milliseconds(ns int64) string { return strconv.FormatInt(ns/int64(time.Millisecond), 10) }

// redirect sends a browser to another address. Ray's proxying dashboard sends a Content-Type with every request, unlike browsers, and would follow
// a redirect itself; it gets a page that redirects the browser at once.
func redirect(w http.ResponseWriter, r *request.Request, target string) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Header.Get("Content-Type") == "" {
		w.Header().Set("Location", target)
		w.WriteHeader(http.StatusFound)
		return
	}
	reply.Bytes(w, http.StatusOK, "text/html; charset=utf-8", fmt.Appendf(nil, `<!doctype html><meta http-equiv="refresh" content="0; url=%s">`, html.EscapeString(target)))
}
