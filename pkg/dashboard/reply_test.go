package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCamelCase(t *testing.T) {
	for in, want := range map[string]string{
		"node_id": "nodeId", "CPU": "CPU", "object_store_memory": "objectStoreMemory",
		"node:__internal_head__": "node:InternalHead",
		"node_65976f1a5e":        "node65976F1A5E", "CPU_group_0_ab1": "CPUGroup0Ab1", "don't_stop'me": "don'tStop'Me",
	} {
		if got := camelCase(in); got != want {
			t.Errorf("camelCase(%s) = %s, want %s", in, got, want)
		}
	}
	if got := snakeCase("actorDiedErrorContext"); got != "actor_died_error_context" {
		t.Error(got)
	}
}

func TestEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	writeEnvelope(w, http.StatusInternalServerError, "Unknown view ü", nil)
	if got, want := w.Body.String(), `{"result": false, "msg": "Unknown view \u00fc", "data": {}}`; got != want ||
		w.Code != 500 || w.Header().Get("Content-Type") != jsonType {
		t.Errorf("%d %s", w.Code, got)
	}
	var decoded map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &decoded); err != nil {
		t.Error(err)
	}
}
