package writer

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// JSON answers with v, which must be of a type that can be encoded.
func JSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode an answer: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Data answers with data in the envelope of Ray's State API (ray/dashboard/optional_utils.py, rest_response). Caches do
// not keep it.
func Data(w http.ResponseWriter, data any) {
	w.Header().Set("Cache-Control", "no-store")
	JSON(w, http.StatusOK, map[string]any{"result": true, "msg": "", "data": data})
}
