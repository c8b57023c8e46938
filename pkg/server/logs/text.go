package logs

import (
	"fmt"
	"net/http"
	"path"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/server/problem"
)

// Text sends the lines of a log from ?line= to ?to= as a file, as they are stored.
func (h *Handlers) Text(w http.ResponseWriter, r *http.Request, of Session) error {
	form := r.URL.Query()
	p := params{form: form}
	first, last := max(1, p.int64("line")), p.int64("to")
	if p.err != nil {
		return problem.BadRequest(p.err)
	}
	if last < first {
		return problem.BadRequest(&param.Error{Name: "to", Value: form.Get("to"),
			Want: "the number of the last line, not before the first one's"})
	}
	log, err := h.open(r.Context(), of, form)
	if err != nil {
		return err
	}
	from, err := lineOffset(r.Context(), log, first)
	if err != nil {
		return err
	}
	to := log.size
	if last+1 > last { // there is a line after it
		if to, err = lineOffset(r.Context(), log, last+1); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition",
		dashboard.Attachment(fmt.Sprintf("L%d-L%d-%s", first, last, path.Base(log.name))))
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodHead {
		return nil
	}
	if err := log.file.WriteRange(r.Context(), w, from, min(to, log.size)); err != nil {
		// the answer has begun: cutting the connection is the only way to say that it is not whole
		panic(http.ErrAbortHandler)
	}
	return nil
}
