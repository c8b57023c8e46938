package request

import (
	"net/http"

	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
)

// Constant is a value that does not depend on the request, for SavedOr.
func Constant(v any) func(*Request) (any, error) {
	return func(*Request) (any, error) { return v, nil }
}

// SavedOr answers with the last snapshot of a URL, or with the result of otherwise.
func SavedOr(url string, otherwise func(*Request) (any, error)) Handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := Saved(r, url)
		if err == nil && value == nil {
			value, err = otherwise(r)
		}
		if err != nil {
			return err
		}
		return reply.JSON(w, http.StatusOK, value)
	}
}

// SavedOrText answers with the last snapshot of a URL, or with this status and text, which is Ray's answer if there is nothing.
func SavedOrText(url string, status int, text string) Handler {
	return func(w http.ResponseWriter, r *Request) error {
		value, _, err := Saved(r, url)
		if err != nil {
			return err
		}
		if value == nil {
			return reply.Text(w, status, text)
		}
		return reply.JSON(w, http.StatusOK, value)
	}
}

// NoSuchRoute is what Ray answers to a path it does not have.
const NoSuchRoute = "404: Not Found"
