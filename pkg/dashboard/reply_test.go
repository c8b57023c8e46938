package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
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

// TestFinite: wherever Python writes NaN or Infinity, browsers get null, however the answer is cut into parts; texts
// stay as they are.
func TestFinite(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`: `{"a": null, "b": [null, null, -1.5e-3, -0], "c": "NaN \" -Infinity \\"}`,
		`NaN`: `null`, `-Infinity`: `null`, `[NaN,NaN]`: `[null,null]`, `"Infinity"`: `"Infinity"`,
		`{"NaN": NaN, "\u004eaN": true, "x": -5}`: `{"NaN": null, "\u004eaN": true, "x": -5}`,
		`[true, false, null, {"-": "-"}]`:         `[true, false, null, {"-": "-"}]`,
	} {
		for size := 1; size <= len(in); size++ {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", jsonType)
			w.Header().Set("Content-Length", "1")
			f := &finite{ResponseWriter: w}
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				if wrote, err := f.Write([]byte(rest[:n])); err != nil || wrote != n {
					t.Fatal(wrote, err)
				}
				rest = rest[n:]
			}
			if got := w.Body.String(); got != want || !json.Valid([]byte(got)) ||
				w.Header().Get("Content-Length") != "" {
				t.Errorf("%s in parts of %d: %s, want %s", in, size, got, want)
			}
		}
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", textType)
	if _, err := (&finite{ResponseWriter: w}).Write([]byte("loss is NaN")); err != nil ||
		w.Body.String() != "loss is NaN" {
		t.Errorf("a text: %v, %s", err, w.Body)
	}
}

func BenchmarkFinite(b *testing.B) {
	part := []byte(strings.Repeat(
		`{"task_id": "0123456789abcdef0123456789abcdef", "state": "FINISHED", "attempt_number": 0, "x": -1.5}, `, 600))
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", jsonType)
	f := &finite{ResponseWriter: w}
	b.SetBytes(int64(len(part)))
	for b.Loop() {
		w.Body.Reset()
		_, _ = f.Write(part)
	}
}
