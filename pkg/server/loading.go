package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// loadStatus is how far a session's load is, as JSON.
type loadStatus struct {
	State sessioncache.State `json:"state"`
	sessioncache.Progress
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

// loadStatusOf returns how far a load is, for programs. The store's own error is only in the log.
func loadStatusOf(st sessioncache.Status) loadStatus {
	p := loadStatus{State: st.State, Progress: st.Progress, Seconds: st.Elapsed.Seconds()}
	if st.Err != nil {
		p.Error = "its events cannot be read; the server's log says why"
	}
	return p
}

// loadingProblem says that a session needs longer to load than a request may wait.
func loadingProblem(ref layout.Session, st sessioncache.Status) *problem.Problem {
	page := loadingPage(ref, st)
	return &problem.Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5,
		Title: "The session is being loaded",
		Detail: fmt.Sprintf("The session is being loaded: %d of %d bytes of events are read.", st.Progress.BytesDone,
			st.Progress.BytesTotal),
		Advice: "Try again in a few seconds; loading continues.",
		Data:   loadStatusOf(st), Loading: &page,
	}
}

// loadingPage is the page that waits for the load of a session.
func loadingPage(ref layout.Session, st sessioncache.Status) web.Loading {
	return web.Loading{Ref: ref, Status: "session_status", State: string(st.State), BytesDone: st.Progress.BytesDone,
		BytesTotal: st.Progress.BytesTotal}
}

// findingsProblem says that findings need longer than a request may wait. answer is the address, below that of the
// session at the moment (Unix ns; 0: its end), of an answer for programs that needs them, too.
func findingsProblem(ref layout.Session, at int64, answer string) *problem.Problem {
	if at != 0 {
		answer = "at/" + time.Unix(0, at).UTC().Format(time.RFC3339Nano) + "/" + answer
	}
	page := web.Loading{Ref: ref, Status: answer, State: web.ReadingLogs}
	return &problem.Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5,
		Title:  "The session's logs are being read",
		Detail: "The session's logs are being read to find out how it ended.",
		Advice: "Try again in a few seconds; reading continues.", Loading: &page,
	}
}

// sessionStatus answers with the progress of the chosen session's load, and begins the load if needed.
func (s *Server) sessionStatus(w http.ResponseWriter, _ *http.Request, e catalog.Entry) error {
	s.opts.Sessions.Begin(e.Ref)
	writer.JSON(w, http.StatusOK, loadStatusOf(s.opts.Sessions.Status(e.Ref)))
	return nil
}

// activitySlices is how finely the slider's histogram divides a session's life.
const activitySlices = 240

// activity counts the task attempts that ran and failed over the chosen session's life: {from, to} in Unix
// milliseconds, {running, failed} counts in slices of equal length.
func (s *Server) activity(w http.ResponseWriter, r *http.Request, shown logs.Session) error {
	a, err := shown.Session.Activity(r.Context(), activitySlices)
	if err != nil {
		return err
	}
	writer.JSON(w, http.StatusOK, struct {
		From    int64 `json:"from"`
		To      int64 `json:"to"`
		Running []int `json:"running"`
		Failed  []int `json:"failed"`
	}{a.From / int64(time.Millisecond), a.To / int64(time.Millisecond), a.Running, a.Failed})
	return nil
}
