package collector

import (
	"io"
	"net/http"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// routes serves the events, and what Kubernetes and Prometheus ask.
func (c *Collector) routes(events http.Handler) http.Handler {
	service := new(restful.WebService)
	handle := func(h http.Handler) restful.RouteFunction {
		return func(request *restful.Request, response *restful.Response) {
			h.ServeHTTP(response.ResponseWriter, request.Request)
		}
	}
	metrics := promhttp.HandlerFor(c.opts.Gatherer, promhttp.HandlerOpts{})
	// The handler of events says itself which types it takes.
	service.Route(service.POST("/v1/events").Consumes("*/*").Produces("*/*").To(handle(events)))
	service.Route(service.GET("/healthz").To(handle(http.HandlerFunc(answerOK))))
	service.Route(service.GET("/livez").To(handle(http.HandlerFunc(answerOK))))
	service.Route(service.GET("/readyz").To(handle(http.HandlerFunc(c.ready))))
	service.Route(service.GET("/metrics").To(handle(metrics)))
	container := restful.NewContainer()
	container.DoNotRecover(false)
	return container.Add(service)
}

func answerOK(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n")
}

// ready says whether events are taken. That the backend does not answer is no reason against: a collector must not make its Ray pod
// unready. Alerts on the metrics tell of it.
func (c *Collector) ready(w http.ResponseWriter, r *http.Request) {
	if c.draining.Load() {
		http.Error(w, "the collector is shutting down", http.StatusServiceUnavailable)
		return
	}
	answerOK(w, r)
}
