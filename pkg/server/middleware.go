package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
)

// maxBody bounds request bodies, in bytes: nothing that is answered here reads more than a few bytes of one.
const maxBody = 1 << 20

// note is what a request's handling learns for the log and the metrics.
type note struct{ route string }

type noteKey struct{}

// noteRoute is a filter that notes which route took the request.
func noteRoute(req *restful.Request, resp *restful.Response, chain *restful.FilterChain) {
	if n, ok := req.Request.Context().Value(noteKey{}).(*note); ok && req.SelectedRoute() != nil {
		n.route = req.SelectedRoutePath()
	}
	chain.ProcessFilter(req, resp)
}

// middleware puts what every request needs around a handler. Compression is outermost, so that an answer is not begun by its buffer when a
// handler panics.
func (s *Server) middleware(next http.Handler) (http.Handler, error) {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "historyserver_http_request_seconds", Help: "Time to answer a request, by route.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
	}, []string{"route", "method", "code"})
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "historyserver_http_requests_in_flight", Help: "Requests being answered."})
	s.opts.Registerer.MustRegister(seconds, inFlight)

	return compress(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Inc()
		defer inFlight.Dec()
		began := time.Now()
		n := &note{route: "none"}
		r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		}
		rec := &recorder{ResponseWriter: w}
		defer func() {
			s.recovered(recover(), rec, r)
			took := time.Since(began)
			seconds.WithLabelValues(n.route, method(r.Method), strconv.Itoa(rec.code())).Observe(took.Seconds())
			s.opts.Log.WithFields(logrus.Fields{
				"method": r.Method, "path": r.URL.Path, "status": rec.code(), "bytes": rec.bytes, "seconds": took.Seconds(), "client": r.RemoteAddr,
			}).Debug("request")
		}()
		secure(w.Header())
		if s.draining.Load() {
			w.Header().Set("Connection", "close") // the client's next request goes to another replica
		}
		next.ServeHTTP(rec, r)
	}))
}

// compress answers with gzip or zstd where the client takes it.
//
// Ray's proxying dashboard passes the browser's Accept-Encoding on, but not all of its versions decode zstd. It sets a Content-Type on
// requests without a body, which no browser does: those get gzip only.
func compress(next http.Handler) (http.Handler, error) {
	zstd, err := gzhttp.NewWrapper(gzhttp.PreferZstd(true))
	if err != nil {
		return nil, err
	}
	gzip, err := gzhttp.NewWrapper(gzhttp.EnableZstd(false))
	if err != nil {
		return nil, err
	}
	both, gzipOnly := zstd(next), gzip(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "" {
			gzipOnly.ServeHTTP(w, r)
			return
		}
		both.ServeHTTP(w, r)
	}), nil
}

// secure sets the headers that are right for every answer. Logs and other stored texts are what their Content-Type says and nothing else.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "SAMEORIGIN")
}

// recovered turns a panic into an answer and a line in the log.
func (s *Server) recovered(p any, rec *recorder, r *http.Request) {
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	s.opts.Log.WithField("path", r.URL.Path).Errorf("panic while answering a request: %v\n%s", p, debug.Stack())
	if rec.status != 0 {
		panic(http.ErrAbortHandler) // the client must see that the answer is cut
	}
	s.fail(rec, r, &problem{
		Status: http.StatusInternalServerError, Title: "Internal error",
		Detail: fmt.Sprintf("The request for %.200s ended in an error of the history server.", r.URL.Path),
		Advice: "The server's log has the details; please report them.",
	})
}

// method bounds the values of a metric's label.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return m
	}
	return "other"
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *recorder) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Flush lets answers that follow a log reach the client line by line.
func (w *recorder) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
