package dashboard

import (
	"net/http"

	"github.com/rayhistory/historyserver/internal/param"
	"github.com/rayhistory/historyserver/pkg/dashboard/bars"
)

// barsParams are a range of time, as param.Times reads it, and what is drawn of it; see bars.Question.
var barsParams = []string{"from", "to", "pixels", "colour", "node_id"}

// answerBars is /api/history/timeline: tasks and actors as bars over time, between from and to (times as people type
// them) for a screen of so many pixels, coloured by function or by outcome, and of one node if node_id names it.
func answerBars(w http.ResponseWriter, r *Request) error {
	query := r.Query()
	q := bars.Question{Node: query.Get("node_id")}
	form := param.Form{Values: query}
	times := r.Times(r.Context())
	q.From, q.To = form.Time("from", times), form.EndTime("to", times)
	if q.Colour = form.OneOf("colour", bars.Colours...); form.Err != nil {
		return badRequest("%s", form.Err)
	}
	pixels, err := intOr(r, "pixels", 0)
	if err != nil || pixels < 0 || pixels > 100_000 {
		return badRequest("pixels=%.100s: want the width of a screen", query.Get("pixels"))
	}
	q.Pixels = int(pixels)
	if q.From != 0 && q.To != 0 && q.To <= q.From {
		return badRequest("the time range ends before it begins")
	}
	drawing, err := bars.Draw(r.Context(), &r.Moment, q)
	if err != nil {
		return err
	}
	return writeOwn(w, drawing)
}
