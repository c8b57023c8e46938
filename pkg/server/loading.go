package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/logs"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/session/sessioncache"
	"github.com/rayhistory/historyserver/pkg/web"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// loadStatus is how far a session's load is, as JSON.
type loadStatus struct {
	State        sessioncache.State `json:"state"`
	BytesDone    int64              `json:"bytes_done"`
	BytesTotal   int64              `json:"bytes_total"`
	ObjectsDone  int64              `json:"objects_done"`
	ObjectsTotal int64              `json:"objects_total"`
	Seconds      float64            `json:"seconds"`
	Error        string             `json:"error,omitempty"`
}

func loadStatusOf(st sessioncache.Status) loadStatus {
	p := loadStatus{
		State: st.State, BytesDone: st.Progress.BytesDone, BytesTotal: st.Progress.BytesTotal,
		ObjectsDone: st.Progress.ObjectsDone, ObjectsTotal: st.Progress.ObjectsTotal, Seconds: st.Elapsed.Seconds(),
	}
	if st.Err != nil {
		p.Error = "its events cannot be read; the server's log says why"
	}
	return p
}

// loadingProblem says that a session needs longer to load than a request may wait.
func loadingProblem(st sessioncache.Status) *problem.Problem {
	return &problem.Problem{
		Status: http.StatusServiceUnavailable, RetryAfter: 5,
		Title: "The session is being loaded",
		Detail: fmt.Sprintf("The session is being loaded: %d of %d bytes of events are read.", st.Progress.BytesDone,
			st.Progress.BytesTotal),
		Advice: "Try again in a few seconds; loading continues.",
		Data:   loadStatusOf(st),
	}
}

// sessionStatus answers with the progress of the chosen session's load, and begins the load if needed.
func (s *Server) sessionStatus(w http.ResponseWriter, _ *http.Request, e catalog.Entry) error {
	s.opts.Sessions.Begin(e.Ref)
	writer.JSON(w, http.StatusOK, loadStatusOf(s.opts.Sessions.Status(e.Ref)))
	return nil
}

// loadingPage answers with a page that shows the progress of a session's load and then goes to target, the dashboard's
// relative address; "" is the page's own address. Without scripts the page reloads itself.
func (s *Server) loadingPage(w http.ResponseWriter, r *request, e catalog.Entry, target string) {
	st := loadStatus{State: sessioncache.Ready}
	if e.Ref.Name != catalog.Live { // of a running cluster nothing is loaded
		st = loadStatusOf(s.opts.Sessions.Status(e.Ref))
	}
	web.Write(w, http.StatusOK, web.Loading{
		Frame: visible.Frame(r.Request), Session: e.Ref.Name, Cluster: e.Ref.Cluster, Namespace: e.Ref.Namespace,
		Target: target,
		State:  string(st.State), BytesDone: st.BytesDone, BytesTotal: st.BytesTotal,
	})
}

// activitySlices is how finely the slider's histogram divides a session's life.
const activitySlices = 240

// activity counts the task attempts that ran and failed over the chosen session's life: {from, to} in Unix
// milliseconds, {running, failed} counts in slices of equal length.
func (s *Server) activity(w http.ResponseWriter, _ *http.Request, shown logs.Session) error {
	a, err := shown.Session.Activity(activitySlices)
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
