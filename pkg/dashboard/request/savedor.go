package request

import (
	"context"
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Constant is a value that does not depend on the request, for SavedOr.
func Constant(v any) func(*Request) (any, error) {
	return func(*Request) (any, error) { return v, nil }
}

// SavedOr answers with the last snapshot of a URL, also with a later one if a moment is asked for, or with the result of otherwise. It is for what
// is the same for as long as a session runs.
func SavedOr(url string, otherwise func(*Request) (any, error)) Handler {
	return savedOr((*moment.Moment).Saved, url, otherwise)
}

// SavedThenOr is SavedOr for what changes while a session runs: it answers with nothing that was saved after the requested moment.
func SavedThenOr(url string, otherwise func(*Request) (any, error)) Handler {
	return savedOr((*moment.Moment).SavedThen, url, otherwise)
}

func savedOr(
	saved func(*moment.Moment, context.Context, string) (any, int64, error), url string, otherwise func(*Request) (any, error),
) Handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := saved(&r.Moment, r.Context(), url)
		if err == nil && value == nil {
			value, err = otherwise(r)
		}
		if err != nil {
			return err
		}
		return reply.JSON(w, http.StatusOK, value)
	}
}

// NoSuchRoute is what Ray answers to a path it does not have.
const NoSuchRoute = "404: Not Found"
