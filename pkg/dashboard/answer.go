package dashboard

import (
	"errors"
	"net/http"
	"strings"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/dashboard/reply"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
)

// retryAfter is the Retry-After of answers when the store could not be read, in seconds.
const retryAfter = "5"

// answer runs a handler and turns its error into an answer.
func (d *Dashboard) answer(h request.Handler) func(http.ResponseWriter, *request.Request) {
	return func(w http.ResponseWriter, r *request.Request) {
		r.Env, r.MaxLimit = d.env, d.opts.MaxLimit
		if request.FromBrowser(r.Request) {
			w = &reply.Finite{ResponseWriter: w}
		}
		err := h(w, r)
		if err == nil || r.Context().Err() != nil {
			return
		}
		var refused *reply.Error
		if errors.As(err, &refused) {
			reply.Envelope(w, refused.Status, refused.Text, nil)
			return
		}
		if errors.Is(err, budget.ErrTooLarge) {
			reply.Envelope(w, http.StatusServiceUnavailable, sentence(err)+" Ask for less, by a filter or a limit, or raise --max-answer-memory.", nil)
			return
		}
		w.Header().Set("Retry-After", retryAfter)
		if errors.Is(err, budget.ErrBusy) {
			reply.Envelope(w, http.StatusServiceUnavailable, sentence(err)+" Try again in some seconds.", nil)
			return
		}
		r.Log.WithError(err).WithField("url", r.URL.String()).Error("read stored session")
		reply.Envelope(w, http.StatusServiceUnavailable, "The stored session could not be read from the object store: the history server's log has the error. Try again.", nil)
	}
}

// sentence writes an error's text as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
