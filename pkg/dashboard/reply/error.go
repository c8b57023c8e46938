package reply

import (
	"fmt"
	"net/http"
)

// Error is a request that Ray refuses: its status and the text it puts into its answer.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Text }

// BadRequest is an Error for parameters that Ray refuses.
func BadRequest(format string, args ...any) error {
	return &Error{Status: http.StatusBadRequest, Text: fmt.Sprintf(format, args...)}
}

// NotFound is an Error for a thing that does not exist.
func NotFound(text string) error { return &Error{Status: http.StatusNotFound, Text: text} }
