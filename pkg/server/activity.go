package server

import (
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// activitySlices is how finely the slider's histogram divides a session's life.
const activitySlices = 240

// activity counts the task attempts that ran and failed over the chosen session's life: {from, to} in Unix
// milliseconds, {running, failed} counts in slices of equal length.
func (s *Server) activity(w http.ResponseWriter, r *request) error {
	c, err := choose(r)
	if err != nil {
		return err
	}
	_, loaded, release, err := s.load(r.Context(), c, s.opts.LoadWait)
	if err != nil {
		return err
	}
	defer release()
	a, err := loaded.Activity(activitySlices)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	writer.JSON(w, http.StatusOK, struct {
		From    int64 `json:"from"`
		To      int64 `json:"to"`
		Running []int `json:"running"`
		Failed  []int `json:"failed"`
	}{a.From / int64(time.Millisecond), a.To / int64(time.Millisecond), a.Running, a.Failed})
	return nil
}
