package writer

import "net/http"

// Tagged puts an ETag on an answer if it is a good one: no client may keep an error.
type Tagged struct {
	http.ResponseWriter
	ETag    string
	written bool
}

func (t *Tagged) WriteHeader(status int) {
	if !t.written && status == http.StatusOK {
		t.Header().Set("ETag", t.ETag)
	}
	t.written = true
	t.ResponseWriter.WriteHeader(status)
}

func (t *Tagged) Write(p []byte) (int, error) {
	if !t.written {
		t.WriteHeader(http.StatusOK)
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *Tagged) Unwrap() http.ResponseWriter { return t.ResponseWriter }
