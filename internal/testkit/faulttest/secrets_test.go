package faulttest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/redact"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestRedactionKills: a collector that redacts and is killed again and again, over a store with every kind of failure,
// stores all events and logs, and no secret of an event, a log, an answer of the dashboard, or a label.
func TestRedactionKills(t *testing.T) {
	t.Parallel()
	for name, zip := range map[string]bool{"plain": false, "compressed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Subject{})
			dashboard := httptest.NewServer(secretDashboard(r.session.Name))
			t.Cleanup(dashboard.Close)
			r.subject = ourselves(role{Faults: "all", Redact: true, Dashboard: dashboard.URL, Zip: zip})
			r.subject.Redact = must.Get(redact.New(Redaction))(t)
			f := r.run(setting("FAULTTEST_KILLS", 4), 21)
			kinds := map[layout.Kind]int{}
			for object, err := range r.subject.Store(t, r.dir).List(t.Context(), layout.Prefix("log", r.session),
				blob.ListOptions{}) {
				must.OK(t, err)
				kinds[must.Get(layout.ParseObject("log", r.session, object.Key))(t).Kind]++
			}
			for _, kind := range []layout.Kind{layout.JobEvents, layout.Log, layout.Snapshot, layout.Metadata} {
				says.True(t, kinds[kind] != 0, "nothing of kind %v is stored, so it was not searched", kind)
			}
			t.Logf("%+v, %v", f, kinds)
		})
	}
}

// secretDashboard is a session's dashboard whose every answer has secrets.
func secretDashboard(session string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/version") {
			_ = json.NewEncoder(w).Encode(map[string]string{"ray_version": "2.60.0", "session_name": session,
				"a": secretLine})
			return
		}
		if strings.HasPrefix(r.URL.Path, "/timezone") {
			_, _ = w.Write([]byte("no JSON, " + secretLine))
			return
		}
		_, _ = w.Write(secretJSON)
	}
}
