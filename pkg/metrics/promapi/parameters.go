package promapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
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

// asAPIError returns the error with the status and type that Prometheus answers for it. The text of a store's error is
// left out, because it may tell callers what they must not know.
func asAPIError(err error) *apiError {
	var own *apiError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, new(storeError)):
		return &apiError{http.StatusServiceUnavailable, "unavailable", errStore}
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

// storeError is an error of the store: its own words are only for the log.
type storeError struct{ error }

var errStore = errors.New("the store returned an error; the server's log has the details")

// ofStore returns an error of a database, which is the query's, the context's or the store's, as what it is.
func ofStore(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, metrics.ErrTooMuch) || errors.Is(err, metrics.ErrLongValue) || ctx.Err() != nil {
		return err
	}
	return storeError{err}
}

// statusClientClosed is Prometheus's status for a query whose client has left; nobody reads it.
const statusClientClosed = 499

// writeError answers with an error in the form of Prometheus' API.
func writeError(w http.ResponseWriter, e *apiError) {
	w.Header().Set("Content-Type", "application/json")
	if e.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(e.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": e.kind, "error": e.Error()})
}

// parseTime reads a time as the API takes it: Unix seconds with a fraction, or RFC 3339.
func parseTime(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || math.Abs(seconds) > maxSeconds {
			return time.Time{}, fmt.Errorf("%q is no time", text)
		}
		whole, fraction := math.Modf(seconds)
		return time.Unix(int64(whole), int64(math.Round(fraction*1000))*int64(time.Millisecond)).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return t, fmt.Errorf("%q is neither Unix seconds nor RFC 3339", text)
	}
	return t, nil
}

// maxSeconds keeps times within what milliseconds in 64 bits hold.
const maxSeconds = 1 << 52

// parseDuration reads a duration as the API takes it: seconds with a fraction, or as in 1m30s.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if d := seconds * float64(time.Second); math.Abs(d) < math.MaxInt64 {
			return time.Duration(d), nil
		}
		return 0, fmt.Errorf("%q is too long", text)
	}
	d, err := model.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: write seconds, or a duration such as 15s or 1m30s", text)
	}
	return time.Duration(d), nil
}
