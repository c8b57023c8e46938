package dashboard

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/pkg/session"
)

// Limits of the State API (ray/util/state/common.py).
const (
	defaultLimit    = 100
	defaultMaxLimit = 10_000
)

// apiError is a request that Ray refuses: its status and the text it puts into its answer.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

func badRequest(format string, args ...any) *apiError {
	return &apiError{status: http.StatusBadRequest, text: fmt.Sprintf(format, args...)}
}

// parseListQuery reads the parameters of a State API list as ray/dashboard/state_api_utils.py does (options_from_req). Its errors
// are Ray's, but for the wrapping that pydantic puts around one of them.
func (d *Dashboard) parseListQuery(r *Request) (session.Query, *apiError) {
	q := r.Query()
	out := session.Query{Limit: defaultLimit, ExcludeDriver: true, At: r.At}
	if q.Has("limit") {
		limit, err := pythonInt(q.Get("limit"))
		if err != nil {
			return out, err
		}
		if limit > int64(d.opts.MaxLimit) {
			return out, badRequest("Given limit %d exceeds the supported limit %d. Use a lower limit, or set the "+
				"`RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value.", limit, d.opts.MaxLimit)
		}
		if limit < 0 {
			return out, badRequest("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
		}
		out.Limit = int(limit)
	}
	if q.Has("timeout") {
		if _, err := pythonInt(q.Get("timeout")); err != nil {
			return out, err
		}
	}
	var err *apiError
	if out.Filters, err = parseFilters(r); err != nil {
		return out, err
	}
	if q.Has("detail") {
		if out.Detail, err = pythonBool(q.Get("detail")); err != nil {
			return out, err
		}
	}
	if q.Has("exclude_driver") {
		if out.ExcludeDriver, err = pythonBool(q.Get("exclude_driver")); err != nil {
			return out, err
		}
	}
	return out, nil
}

// parseSummaryQuery reads the parameters of a State API summary (summary_options_from_req). Ray summarises at most as many rows as a
// list may be asked for, drivers left out.
func (d *Dashboard) parseSummaryQuery(r *Request) (session.Query, *apiError) {
	out := session.Query{Limit: d.opts.MaxLimit, ExcludeDriver: true, At: r.At}
	if r.Query().Has("timeout") {
		if _, err := pythonInt(r.Query().Get("timeout")); err != nil {
			return out, err
		}
	}
	var err *apiError
	out.Filters, err = parseFilters(r)
	return out, err
}

// parseFilters pairs filter_keys, filter_predicates and filter_values in order; what one of them has more of is dropped. Keys are
// lower-cased.
func parseFilters(r *Request) ([]session.Filter, *apiError) {
	q := r.Query()
	keys, predicates, values := q["filter_keys"], q["filter_predicates"], q["filter_values"]
	filters := make([]session.Filter, min(len(keys), len(predicates), len(values)))
	for i := range filters {
		if predicates[i] != "=" && predicates[i] != "!=" {
			return nil, badRequest("Unsupported filter predicate %s is given. Available predicates: =, !=.", predicates[i])
		}
		filters[i] = session.Filter{Key: strings.ToLower(keys[i]), Not: predicates[i] == "!=", Value: values[i]}
	}
	return filters, nil
}

// pythonInt reads s as Python's int() does: signs, spaces around and underscores between digits are allowed.
func pythonInt(s string) (int64, *apiError) {
	digits := strings.TrimSpace(s)
	if !strings.HasPrefix(digits, "_") && !strings.HasSuffix(digits, "_") && !strings.Contains(digits, "__") {
		n, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
		if err == nil {
			return n, nil
		}
	}
	return 0, badRequest("invalid literal for int() with base 10: %s", pythonRepr(s))
}

// pythonBool reads s as ray/util/state/util.py does.
func pythonBool(s string) (bool, *apiError) {
	switch s {
	case "True", "true", "1":
		return true, nil
	case "False", "false", "0":
		return false, nil
	}
	return false, badRequest("Failed to convert a value %s of type <class 'str'> to <class 'bool'>", s)
}

// pythonRepr quotes s as Python does.
func pythonRepr(s string) string {
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + strings.ReplaceAll(s, `\`, `\\`) + `"`
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + "'"
}

// ParseAt reads a moment as users give it: RFC 3339, or Unix milliseconds. The empty string is 0, the session's end.
func ParseAt(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		if ms <= 0 || ms > math.MaxInt64/int64(time.Millisecond) {
			return 0, fmt.Errorf("at=%.40s: want Unix milliseconds above 0", s)
		}
		return ms * int64(time.Millisecond), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, fmt.Errorf("at=%.40s: want a time as RFC 3339 (2026-11-20T23:20:00Z) or as Unix milliseconds", s)
	}
	if y := t.Year(); y < 1971 || y > 2200 {
		return 0, fmt.Errorf("at=%.40s: want a time between the years 1971 and 2200", s)
	}
	return t.UnixNano(), nil
}
