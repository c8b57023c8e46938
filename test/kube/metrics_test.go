package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// The Metrics page of a stored session, in Chromium: it shows Grafana's panels, for the session's own
// time and name. What Prometheus was told to scrape is there as it was stored.
func TestMetricsPage(t *testing.T) {
	rec := recording.Open(t)
	grafana := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "<h1>panels</h1>")
	}))
	t.Cleanup(grafana.Close)
	port := freeport.Port(t)
	env := []string{"RAY_GRAFANA_HOST=http://grafana.invalid:3000",
		"RAY_GRAFANA_IFRAME_HOST=" + grafana.URL + "/grafana", "RAY_PROMETHEUS_HOST=http://prometheus.invalid:9090"}
	run(t, env, "historyserver", "--listen="+strings.TrimPrefix(url(port, ""), "http://"), "--storage-backend=local",
		"--local-dir="+rec.Store(), "--live=off", "--dashboard-dir="+dashboards(t))
	ref := rec.Session
	base := url(port, fmt.Sprintf("/namespaces/%s/clusters/%s/sessions/%s", ref.Namespace, ref.Cluster, ref.Name))
	lab.Eventually(t, "the session answers", func() bool {
		status,
			_ := ask(t, base+"/api/version", "")
		return status == http.StatusOK
	})

	shown := false
	for _, request := range visit(t, "metrics", base,
		[]page{{Name: "metrics", Path: "/#/metrics", Wait: "View tab in Grafana"}}) {
		asked, ok := strings.CutPrefix(request, "GET "+grafana.URL+"/grafana/d/rayDefaultDashboard?")
		if !ok {
			continue
		}
		shown = true
		query := must.Get(neturl.ParseQuery(asked))(t)
		from, to := milliseconds(t, query.Get("from")), milliseconds(t, query.Get("to"))
		posts := rec.Posts("head")
		first, last := posts[0].At(), posts[len(posts)-1].At()
		if query.Get("var-SessionName") != ref.Name || from.Before(first.Add(-5*time.Minute)) || from.After(first) ||
			!to.After(from) || to.After(last) {
			t.Errorf("Grafana was asked %v: from %v to %v; Ray's first events came at %v, the last at %v", query, from,
				to, first, last)
		}
	}
	if !shown {
		t.Error("no panels were asked for")
	}
	if status, body := ask(t, base+"/api/prometheus/sd", ""); status != http.StatusOK ||
		!strings.Contains(body, `"targets"`) {
		t.Errorf("service discovery: %d %.200s", status, body)
	}
}

func milliseconds(t *testing.T, text string) time.Time {
	t.Helper()
	ms := must.Get(strconv.ParseInt(text, 10, 64))(t)
	return time.UnixMilli(ms)
}
