// Package reply writes answers as Ray's dashboard does: JSON as Python writes it, in Ray's envelope. Large answers are streamed.
package reply

import (
	"net/http"
	"strconv"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// JSONType is the Content-Type of JSON answers.
const (
	JSONType = "application/json; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

// Bytes sends an answer that is complete in memory. Like all functions here that send an answer it returns nil, so that a handler can end with it:
// it is not an error if the client has left.
func Bytes(w http.ResponseWriter, status int, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// JSON sends a value while it is encoded. The value may contain Streamed parts.
func JSON(w http.ResponseWriter, status int, v any) error {
	s := NewStream(w, status, JSONType)
	s.Value(v)
	s.Close()
	return nil
}

// Text sends plain text.
func Text(w http.ResponseWriter, status int, text string) error {
	return Bytes(w, status, textType, []byte(text))
}

// Envelope sends data in the envelope of Ray's dashboard (rest_response in ray/dashboard/routes.py).
func Envelope(w http.ResponseWriter, status int, msg string, data *pyjson.Object) error {
	if data == nil {
		data = pyjson.Obj()
	}
	return JSON(w, status, pyjson.Obj("result", status == http.StatusOK, "msg", msg, "data", data))
}

// OK sends keys and values, in turn, as the data of Ray's envelope.
func OK(w http.ResponseWriter, msg string, keysAndValues ...any) error {
	return Envelope(w, http.StatusOK, msg, pyjson.Obj(keysAndValues...))
}

// Success is Ray's envelope of an answer, as a value.
func Success(msg string, data *pyjson.Object) *pyjson.Object {
	return pyjson.Obj("result", true, "msg", msg, "data", data)
}
