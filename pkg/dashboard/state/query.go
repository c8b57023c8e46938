package state

import (
	"strings"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// ParseListQuery reads the parameters of a State API list as ray/dashboard/state_api_utils.py does (options_from_req). Its errors
// are Ray's, but for the wrapping that pydantic puts around one of them.
func ParseListQuery(r *request.Request) (tasktable.Query, *reply.Error) {
	q := r.Query()
	out := tasktable.Query{Limit: request.DefaultLimit, ExcludeDriver: true, At: r.At, Stop: r.Stop}
	if q.Has("limit") {
		limit, err := request.Int(q.Get("limit"))
		if err != nil {
			return out, err
		}
		if limit > int64(r.MaxLimit) {
			return out, reply.BadRequest("Given limit %d exceeds the supported limit %d. Use a lower limit, or set the "+
				"`RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value.", limit, r.MaxLimit)
		}
		if limit < 0 {
			return out, reply.BadRequest("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
		}
		out.Limit = int(limit)
	}
	if q.Has("timeout") {
		if _, err := request.Int(q.Get("timeout")); err != nil {
			return out, err
		}
	}
	var err *reply.Error
	if out.Filters, err = parseFilters(r); err != nil {
		return out, err
	}
	if q.Has("detail") {
		if out.Detail, err = request.Bool(q.Get("detail")); err != nil {
			return out, err
		}
	}
	if q.Has("exclude_driver") {
		if out.ExcludeDriver, err = request.Bool(q.Get("exclude_driver")); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ParseSummaryQuery reads the parameters of a State API summary (summary_options_from_req). Ray summarises at most as many rows as a list may have,
// without drivers.
func ParseSummaryQuery(r *request.Request) (tasktable.Query, *reply.Error) {
	out := tasktable.Query{Limit: r.MaxLimit, ExcludeDriver: true, At: r.At, Stop: r.Stop}
	if r.Query().Has("timeout") {
		if _, err := request.Int(r.Query().Get("timeout")); err != nil {
			return out, err
		}
	}
	var err *reply.Error
	out.Filters, err = parseFilters(r)
	return out, err
}

// parseFilters pairs filter_keys, filter_predicates and filter_values in order; a filter without a predicate is dropped, as by Ray. Keys are
// lower-cased. Ray's own store, and the conversion of values, know only keys that are written so: Filter.Source.
func parseFilters(r *request.Request) ([]tasktable.Filter, *reply.Error) {
	q := r.Query()
	keys, predicates, values := q["filter_keys"], q["filter_predicates"], q["filter_values"]
	if len(keys) != len(values) {
		return nil, reply.BadRequest("%d filter_keys and %d filter_values are given. Give one value for each key.", len(keys), len(values))
	}
	filters := make([]tasktable.Filter, min(len(keys), len(predicates)))
	for i := range filters {
		if predicates[i] != "=" && predicates[i] != "!=" {
			return nil, reply.BadRequest("Unsupported filter predicate %s is given. Available predicates: =, !=.", predicates[i])
		}
		key := strings.ToLower(keys[i])
		filters[i] = tasktable.Filter{Key: key, Not: predicates[i] == "!=", Value: values[i], Source: key == keys[i]}
	}
	return filters, nil
}
