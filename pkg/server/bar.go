package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/emicklei/go-restful/v3"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/server/web"
)

// maxIndex bounds a frontend's first page, in bytes; Ray's has less than 1 KB.
const maxIndex = 1 << 20

// withBar serves a frontend's first page with the bar in it: which stored session this is, the way back, a link to share, and the slider
// that moves the dashboard through the session's life. The frontend's files stay as they are.
func (s *Server) withBar(w http.ResponseWriter, r *http.Request, page io.Reader, e catalog.Entry) {
	html, err := io.ReadAll(io.LimitReader(page, maxIndex))
	if err != nil {
		s.fail(w, r, fmt.Errorf("read the dashboard's first page: %w", err))
		return
	}
	var bar bytes.Buffer
	if err := (web.Bar{
		Base: base(r), Path: sessionPath(e), Cluster: e.Ref.Cluster, Namespace: e.Ref.Namespace, Session: e.Ref.Name,
		Start: e.Start, End: e.End,
	}).Render(&bar); err != nil {
		s.fail(w, r, err)
		return
	}
	end := bytes.LastIndex(html, []byte("</body>"))
	if end < 0 {
		end = len(html)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(html)+bar.Len()))
	if r.Method == http.MethodHead {
		return
	}
	for _, part := range [][]byte{html[:end], bar.Bytes(), html[end:]} {
		if _, err := w.Write(part); err != nil {
			return // the client went away
		}
	}
}

// activitySlices is how finely the slider's histogram divides a session's life.
const activitySlices = 240

// activity tells how many task attempts ran and failed over the chosen session's life: {from, to} in Unix milliseconds, {running, failed}
// counts in slices of equal length.
func (s *Server) activity(req *restful.Request, resp *restful.Response) {
	c, err := choose(req)
	if err != nil {
		s.fail(resp, req.Request, err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(req.Request.Context(), s.opts.LoadWait, errWaited)
	defer cancel()
	_, loaded, release, err := s.load(ctx, c)
	if err != nil {
		s.fail(resp, req.Request, err)
		return
	}
	defer release()
	a, err := loaded.Activity(activitySlices)
	if err != nil {
		s.fail(resp, req.Request, err)
		return
	}
	resp.Header().Set("Cache-Control", "no-store")
	writeJSON(resp, http.StatusOK, struct {
		From    int64 `json:"from"`
		To      int64 `json:"to"`
		Running []int `json:"running"`
		Failed  []int `json:"failed"`
	}{a.From / int64(time.Millisecond), a.To / int64(time.Millisecond), a.Running, a.Failed})
}
