package collector

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestRefusedEventsAreNotStored: a collector that refused events for good does not say that everything is stored, and
// says what to do.
func TestRefusedEventsAreNotStored(t *testing.T) {
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	for range 3 {
		body := []byte(`[{"sessionName":"` + session().Name + `"}]`)
		status, _ := try(t, c.url("/v1/events"), body)
		says.True(t, status == http.StatusServiceUnavailable, "status %d", status)
	}
	err := closeWithin(t, c, time.Minute)
	says.True(t, err != nil && strings.Contains(err.Error(), "3 batches of events were refused") &&
		strings.Contains(err.Error(), "--ray-tmp-dir") && strings.Contains(err.Error(), o.RayTmpDir), "closed with %v",
		err)
}

// TestDashboardOfAnotherFolder: the same where Ray sends no events, and its dashboard tells of a session that has no
// folder here.
func TestDashboardOfAnotherFolder(t *testing.T) {
	dashboard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/version" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"ray_version":"2.60.0","session_name":"`+session().Name+`"}`)
	}))
	defer dashboard.Close()
	o, store := options(t, t.TempDir())
	o.Head, o.Dashboard = true, dashboard.URL
	c := start(t, o)
	err := closeWithin(t, c, time.Minute)
	says.True(t, err != nil && strings.Contains(err.Error(), "--ray-tmp-dir") && len(store.Keys()) == 0,
		"closed with %v, stored %q", err, store.Keys())
}

// TestAcceptedLater: events that were refused until their node was known, and then accepted, are stored.
func TestAcceptedLater(t *testing.T) {
	o, _ := options(t, t.TempDir())
	c := start(t, o)
	body := []byte(`[{"sessionName":"` + session().Name + `"}]`)
	try(t, c.url("/v1/events"), body)
	makeSession(t, o.RayTmpDir, session().Name, rayid.Node{1})
	must.Get(c.tailer.Scan(t.Context()))(t)
	post(t, c.url("/v1/events"), body)
	stop(t, c)
}

// TestReadiness: a collector is ready while events are refused for a moment, or because the store is down, and not
// while they are refused for want of their session: the settings are wrong then.
func TestReadiness(t *testing.T) {
	o, _ := options(t, t.TempDir())
	o.Refused = &sink.Refused{}
	c := start(t, o)
	now := time.Now()
	for _, test := range []struct {
		title         string
		session       string
		first, latest time.Duration // ago
		ready         bool
	}{
		{"nothing", "-", 0, 0, true},
		{"a moment", session().Name, 30 * time.Second, 0, true},
		{"full for long", "", time.Hour, 0, true},
		{"a session that is missing for long", session().Name, 2 * time.Minute, 0, false},
		{"long ago", session().Name, time.Hour, 10 * time.Minute, true},
	} {
		*o.Refused = sink.Refused{}
		if test.session != "-" {
			o.Refused.Add(test.session, "no session under /x: "+adviceTmpDir, now.Add(-test.first))
			o.Refused.Add(test.session, "no session under /x: "+adviceTmpDir, now.Add(-test.latest))
		}
		err := c.notReady()
		says.True(t, (err == nil) == test.ready && (err == nil || strings.Contains(err.Error(), "--ray-tmp-dir")),
			"%s: %v", test.title, err)
	}
	*o.Refused = sink.Refused{}
	stop(t, c)
}

// TestStandbyForRay: that Ray's folder is missing counts as a mistake once Ray's events are refused for it.
func TestStandbyForRay(t *testing.T) {
	refused := &sink.Refused{}
	s := NewStandby(refused)
	s.Because(&NoRayError{filepath.Join("tmp", "ray")})
	says.OK(t, s.notReady(), "before Ray starts")
	refused.Add("", "x", time.Now().Add(-2*time.Minute))
	refused.Add("", "x", time.Now())
	says.Error(t, s.notReady(), "--ray-tmp-dir", "while events are refused")
}
