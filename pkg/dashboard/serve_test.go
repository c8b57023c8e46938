package dashboard

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

func wide(t *testing.T) *asker {
	t.Helper()
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	return newAsker(t, load(t, rec.Store(), rec.Session), Options{})
}

func TestServeApplicationsByAPI(t *testing.T) {
	a := wide(t)
	for query, want := range map[string]int{"": 2, "?api_type=Declarative": 2, "?api_type=imperative": 0} {
		body, err := pyjson.ParseObject(a.get("/api/serve/applications/" + query).Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got := body.Object("applications").Len(); got != want {
			t.Errorf("%q: %d applications, want %d", query, got, want)
		}
	}
	w := a.get("/api/serve/applications/?api_type=unknown")
	if want := "Invalid 'api_type' value: 'unknown'. Must be one of: imperative, declarative"; w.Code != http.StatusBadRequest || w.Body.String() != want {
		t.Errorf("%d %s, want 400 %s", w.Code, w.Body, want)
	}
}

// TestSecretsOfTasks: the same rule as for other rows holds for tasks, which are written by an encoder of their own.
func TestSecretsOfTasks(t *testing.T) {
	a := wide(t)
	const secret = "not-a-real-secret"
	for agent, shown := range map[string]bool{"python-requests": true, "Mozilla/5.0": false} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet,
			"/api/v0/tasks?detail=1&filter_keys=name&filter_predicates=%3D&filter_values=with_env", nil)
		r.Header.Set("User-Agent", agent)
		a.mux.ServeHTTP(w, r)
		text := w.Body.String()
		if strings.Contains(text, secret) != shown || strings.Contains(text, "<redacted>") == shown ||
			!strings.Contains(text, "API_TOKEN") {
			t.Errorf("%s: %s", agent, text)
		}
	}
}
