package collector

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes bounds the concurrent requests for metrics of one kind: answering one takes memory, and any pod may ask and read slowly.
const maxScrapes = 4

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
	service.Route(service.GET("/readyz").To(handle(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answerReady(w, c.notReady()) }))))
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

// notReady is why events are not taken, or refused for want of their session: Ray's folder is elsewhere then. It does not depend on the store:
// a collector must not make its Ray pod unready because the store is down. Metrics and alerts report that.
func (c *Collector) notReady() error {
	if c.draining.Load() {
		return errors.New("the collector is shutting down")
	}
	if why := c.opts.Refused.Lasting(true, time.Now()); why != "" {
		return fmt.Errorf("events are refused: %s", why)
	}
	return c.places.unseen()
}
