package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/prometheus/promql"

	"github.com/rayhistory/historyserver/pkg/metrics"
)

// apiError is an error in the API's form: kind is one of Prometheus's error types.
type apiError struct {
	status int
	kind   string
	err    error
}

// Error implements error.
func (e *apiError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *apiError) Unwrap() error { return e.err }

func badData(parameter string, err error) error {
	return &apiError{http.StatusBadRequest, "bad_data", fmt.Errorf("invalid parameter %q: %w", parameter, err)}
}

// asAPIError converts an error to one of the API's errors.
func asAPIError(err error) *apiError {
	var own *apiError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, new(promql.ErrTooManySamples)), errors.Is(err, metrics.ErrTooMuch):
		return &apiError{http.StatusUnprocessableEntity, "execution", err}
	case errors.As(err, new(promql.ErrQueryTimeout)), errors.Is(err, context.DeadlineExceeded):
		return &apiError{http.StatusServiceUnavailable, "timeout", err}
	case errors.As(err, new(promql.ErrQueryCanceled)), errors.Is(err, context.Canceled):
		return &apiError{statusClientClosed, "canceled", err}
	case errors.As(err, new(promql.ErrStorage)):
		return &apiError{http.StatusInternalServerError, "internal", err}
	}
	return &apiError{http.StatusUnprocessableEntity, "execution", err}
}

// statusClientClosed is Prometheus's status for a query whose client has left; nobody reads it.
const statusClientClosed = 499

func writeError(w http.ResponseWriter, e *apiError) {
	w.Header().Set("Content-Type", "application/json")
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": e.kind, "error": e.Error()})
}
