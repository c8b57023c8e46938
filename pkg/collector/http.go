package collector

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve creates the servers: one for events, and one for Kubernetes and Prometheus. The first answers both kinds of requests, since only
// the pod itself reaches it.
func (c *Collector) serve(events http.Handler) {
	c.events = &http.Server{Handler: c.routes(events), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader}
	c.health = &http.Server{
		Handler: c.routes(nil), ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second, MaxHeaderBytes: maxHeader,
	}
}

// maxScrapes bounds the concurrent requests for metrics of one kind: answering one takes memory, and any pod may ask and read slowly.
const maxScrapes = 4

// maxHeader bounds a request's header. Ray's and Prometheus's have about 500 bytes.
const maxHeader = 16 << 10

// accept serves requests until the server is shut down.
func (c *Collector) accept(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		c.opts.Log.WithError(err).WithField("address", l.Addr().String()).Error("the server stopped and accepts no more requests: restart the collector")
	}
}

// routes serves health and metrics, and events unless their handler is nil.
func (c *Collector) routes(events http.Handler) http.Handler {
	service := new(restful.WebService)
	handle := func(h http.Handler) restful.RouteFunction {
		return func(request *restful.Request, response *restful.Response) {
			h.ServeHTTP(response.ResponseWriter, request.Request)
		}
	}
	metrics := promhttp.HandlerFor(c.opts.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	if events != nil {
		// The handler of events checks the content type itself.
		service.Route(service.POST("/v1/events").Consumes("*/*").Produces("*/*").To(handle(events)))
	}
	service.Route(service.GET("/healthz").To(handle(http.HandlerFunc(answerOK))))
	service.Route(service.GET("/livez").To(handle(http.HandlerFunc(answerOK))))
	service.Route(service.GET("/readyz").To(handle(http.HandlerFunc(c.ready))))
	service.Route(service.GET("/metrics").To(handle(metrics)))
	if c.scraper != nil {
		service.Route(service.GET("/metrics/ray").To(handle(atMost(maxScrapes, c.scraper.Latest()))))
	}
	container := restful.NewContainer()
	container.DoNotRecover(false)
	return container.Add(service)
}

// atMost lets h answer n requests at a time, and refuses more.
func atMost(n int, h http.Handler) http.Handler {
	answering := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answering <- struct{}{}:
			defer func() { <-answering }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d requests for these metrics are being answered; ask again", n), http.StatusServiceUnavailable)
		}
	})
}

func answerOK(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// ready says whether events are taken. It does not depend on the store: a collector must not make its Ray pod unready because the store is
// down. Metrics and alerts report that.
func (c *Collector) ready(w http.ResponseWriter, r *http.Request) {
	if c.draining.Load() {
		http.Error(w, "the collector is shutting down", http.StatusServiceUnavailable)
		return
	}
	answerOK(w, r)
}
