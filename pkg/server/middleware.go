package server

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/problem"
	"github.com/rayhistory/historyserver/pkg/server/visible"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

// maxBody bounds request bodies, in bytes: the history server's own routes read a few bytes at most.
const maxBody = 1 << 20

// middleware wraps the router with the layers that every request needs. Compression is outermost, so that its buffer
// does not begin an answer when a handler panics.
func (s *Server) middleware(router http.Handler) (http.Handler, error) {
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		router.ServeHTTP(w, r.WithContext(budget.WithCaller(r.Context(), access.CallerOf(r))))
	})
	authenticated := s.opts.Access.Handler(named, s.public...)
	checked := s.checkBrowser(authenticated)
	prepared := s.prepare(checked)
	recovered := s.recoverPanics(prepared)
	observed := s.observe(recovered)
	return compress(observed)
}

// compress answers with gzip or zstd where the client takes it.
//
// Ray's proxying dashboard passes the browser's Accept-Encoding on, but not all of its versions decode zstd: it gets
// gzip only.
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
		if proxiedByRay(r) {
			gzipOnly.ServeHTTP(w, r)
			return
		}
		both.ServeHTTP(w, r)
	}), nil
}

// proxiedByRay says whether Ray's proxying dashboard (ray start --proxy-server-url) passes a browser's request on. It
// sets a Content-Type on requests without a body, which no browser does.
func proxiedByRay(r *http.Request) bool { return r.Header.Get("Content-Type") != "" }

// observe counts and times requests and logs them.
func (s *Server) observe(next http.Handler) http.Handler {
	factory := promauto.With(s.opts.Registerer)
	seconds := factory.NewHistogramVec(prometheus.HistogramOpts{
		Name: "historyserver_http_request_seconds", Help: "Time to answer a request, by route.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30},
	}, []string{"route", "method", "code"})
	inFlight := factory.NewGauge(prometheus.GaugeOpts{Name: "historyserver_http_requests_in_flight",
		Help: "Requests being answered."})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inFlight.Inc()
		defer inFlight.Dec()
		began := time.Now()
		ctx, rec := writer.Record(r.Context(), w, r.Body)
		r = r.WithContext(ctx)
		defer func() {
			took := time.Since(began).Seconds()
			seconds.WithLabelValues(rec.Route, methodLabel(r.Method), strconv.Itoa(rec.Code())).Observe(took)
			s.opts.Log.WithFields(logrus.Fields{
				"method": r.Method, "path": r.URL.Path, "status": rec.Code(), "bytes": rec.Bytes, "seconds": took,
				"client": r.RemoteAddr,
			}).Debug("request")
		}()
		next.ServeHTTP(rec, r)
	})
}

// methodLabel bounds the values of a metric's label.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch,
		http.MethodOptions:
		return method
	}
	return "other"
}

// recoverPanics turns a panic into an answer and a line in the log. An answer that has begun is cut off, so that the
// client sees that it is not complete.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { // the handler wants the answer cut off
				panic(cause)
			}
			s.opts.Log.WithField("path", r.URL.Path).Errorf("panic while answering a request: %v\n%s", cause,
				debug.Stack())
			if writer.RecorderOf(r).Status != 0 {
				panic(http.ErrAbortHandler)
			}
			s.answerError(w, r, &problem.Problem{
				Status: http.StatusInternalServerError, Title: "Internal error",
				Detail: fmt.Sprintf("The history server failed to answer the request for %.200s.", r.URL.Path),
				Advice: "The server's log has the details. Please report them.",
			})
		}()
		next.ServeHTTP(w, r)
	})
}

// prepare bounds the request's body and the time that its client may take, sets the headers of every answer, and puts
// the notes that pages show into the request's context.
func (s *Server) prepare(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := writer.NewDeadline(w)
		defer out.End()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.rules.Secure(w.Header())
		if s.draining.Load() {
			w.Header().Set("Connection", "close") // the client's next request goes to another replica
		}
		next.ServeHTTP(out, r.WithContext(visible.WithNotes(r.Context(), s.opts.Notes)))
	})
}

// checkBrowser refuses requests that the rules about browsers do not allow, such as those that pages of other sites
// make.
func (s *Server) checkBrowser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.rules.Check(r); err != nil {
			s.answerError(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}
