package collector

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/pkg/ray/event"
)

// Listeners are where a collector answers. Port 0 is any free port.
type Listeners struct {
	// EventsAddress and EventsPort are where events are taken; see listen. Senders are not authenticated, so accept
	// only the pod itself (Loopback).
	EventsAddress string
	EventsPort    int
	// MetricsAddress and MetricsPort are where health and metrics are served: Kubernetes and Prometheus ask from
	// outside the pod.
	MetricsAddress string
	MetricsPort    int
}

// Servers are a collector's two servers: one for events, and one for Kubernetes and Prometheus. The first answers both
// kinds of requests, since only the pod itself reaches it. They take requests from Open to Close; a Standby or a
// Collector gives the answers, and requests that come before either does wait for it.
type Servers struct {
	events, metrics *server
}

// server answers at one port.
type server struct {
	what    string // for errors
	address string
	port    int
	log     logrus.FieldLogger

	http      *http.Server
	handler   atomic.Pointer[http.Handler]
	answering chan struct{} // closed once there is a handler
	listeners []net.Listener
	accepting sync.WaitGroup
}

// maxHeader bounds a request's header. Ray's and Prometheus's have about 500 bytes.
const maxHeader = 16 << 10

// NewServers makes the servers for events and for probes and metrics. They listen after Open, and answer after Answer.
func NewServers(l Listeners, log logrus.FieldLogger) *Servers {
	s := &Servers{
		events: &server{
			what: "events (--events-address, --events-port)", address: l.EventsAddress, port: l.EventsPort,
			// No ReadTimeout: the sink itself ends a request whose body arrives too slowly.
			http: &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		},
		metrics: &server{
			what: "probes and metrics (--metrics-address, --metrics-port)", address: l.MetricsAddress,
			port: l.MetricsPort,
			http: &http.Server{ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
				IdleTimeout: 30 * time.Second},
		},
	}
	for _, one := range []*server{s.events, s.metrics} {
		one.log, one.answering = log, make(chan struct{})
		one.http.Handler, one.http.MaxHeaderBytes = one, maxHeader
	}
	return s
}

// Open opens the ports that are not open yet. After an error, which names those that are taken, it may be called again.
func (s *Servers) Open() error {
	return errors.Join(s.events.startListening(), s.metrics.startListening())
}

// Answer sets what answers from now on.
func (s *Servers) Answer(events, metrics http.Handler) {
	s.events.setHandler(events)
	s.metrics.setHandler(metrics)
}

func (s *server) setHandler(handler http.Handler) {
	if s.handler.Swap(&handler) == nil {
		close(s.answering)
	}
}

// EventsAddr is the address that takes events, MetricsAddr the one that serves health and metrics. Both must be open.
func (s *Servers) EventsAddr() net.Addr  { return s.events.listeners[0].Addr() }
func (s *Servers) MetricsAddr() net.Addr { return s.metrics.listeners[0].Addr() }

// stopTaking stops the server of events after it has answered its current requests.
func (s *Servers) stopTaking(ctx context.Context) error {
	if err := s.events.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop the server for events: %w", errors.Join(err, s.events.http.Close()))
	}
	return nil
}

// Close closes both at once.
func (s *Servers) Close() error {
	err := errors.Join(s.events.http.Close(), s.metrics.http.Close())
	s.events.accepting.Wait()
	s.metrics.accepting.Wait()
	return err
}

// startListening begins to listen and to accept connections, unless the server listens already. Requests wait until the
// server has a handler.
func (s *server) startListening() error {
	if len(s.listeners) > 0 {
		return nil
	}
	listeners, err := listen(s.address, s.port)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", s.what, err)
	}
	for _, l := range listeners {
		l = &limitedListener{Listener: l}
		s.listeners = append(s.listeners, l)
		s.accepting.Go(func() { s.serveListener(l) })
	}
	return nil
}

// serveListener serves requests until the server is shut down.
func (s *server) serveListener(l net.Listener) {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		log := s.log.WithError(err).WithField("address", l.Addr().String())
		log.Error("the server stopped and accepts no more requests: restart the collector")
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.answering:
		(*s.handler.Load()).ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// maxScrapes bounds the concurrent requests for metrics of one kind: answering one takes memory, and any pod may ask
// and read slowly.
const maxScrapes = 4

// routes serves health, the collector's own metrics, and Ray's as they were last read, for a Prometheus that must not
// read Ray itself. It also serves events, unless their handler is nil: at the address for metrics none are taken.
func (c *Collector) routes(events http.Handler) http.Handler {
	mux := newMux(c.opts.Gatherer, c.notReady)
	if c.scraper != nil {
		mux.Handle("GET /metrics/ray", atMost(maxScrapes, c.scraper.Latest()))
	}
	if events != nil {
		handleEvents(mux, events)
	}
	return mux
}

// handleEvents takes events also at an address that ends with a slash: people write it into Ray's environment.
func handleEvents(mux *http.ServeMux, events http.Handler) {
	mux.Handle("POST "+event.Path, events)
	mux.Handle("POST "+event.Path+"/{$}", events)
}

// newMux routes probes and metrics. notReady says why /readyz is refused; nil: it is not.
func newMux(metrics prometheus.Gatherer, notReady func() error) *http.ServeMux {
	answerOK := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answerOK)
	mux.HandleFunc("GET /livez", answerOK)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := notReady(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		answerOK(w, r)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	return mux
}

// registerReady adds the metric of what notReady says: nil if the collector stores what it gets.
func registerReady(r prometheus.Registerer, notReady func() error) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rayhistory_collector_ready",
		Help: "1: /readyz answers 200; 0: nothing is stored because a setting is wrong, and /readyz says which.",
	}, func() float64 {
		if notReady() == nil {
			return 1
		}
		return 0
	})
}

// atMost returns a handler that lets h answer n requests at a time and refuses more with 503.
func atMost(n int, h http.Handler) http.Handler {
	answering := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case answering <- struct{}{}:
			defer func() { <-answering }()
			h.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("%d requests for these metrics are being answered; ask again", n),
				http.StatusServiceUnavailable)
		}
	})
}

// notReady is why events are not taken, or refused for want of their session: Ray's folder is elsewhere then. It does
// not depend on the store: a collector must not make its Ray pod unready because the store is down. Metrics and alerts
// report that.
func (c *Collector) notReady() error {
	if c.draining.Load() {
		return errors.New("the collector is shutting down")
	}
	const unplaced = true
	if why := c.opts.Refused.Lasting(time.Now(), unplaced); why != "" {
		return fmt.Errorf("events are refused: %s", why)
	}
	return c.places.unseenSessions()
}

// Loopback is the pod itself, by IPv4 and IPv6: Ray's exporter may be configured with localhost, 127.0.0.1 or ::1.
const Loopback = "localhost"

// listen opens a port on an address: an IP address, "" for all addresses, or Loopback, which is one of IPv4 and one of
// IPv6; a host may have only one of them. Port 0 is any free port.
func listen(address string, port int) ([]net.Listener, error) {
	if address != Loopback {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	first, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil && !noFamily(err) {
		return nil, err
	}
	var listeners []net.Listener
	if err == nil {
		listeners = append(listeners, first)
		port = portOf(first)
	}
	second, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		listeners = append(listeners, second)
	case len(listeners) == 0:
		return nil, err
	case !noFamily(err):
		return nil, errors.Join(err, first.Close())
	}
	return listeners, nil
}

// noFamily says whether the machine lacks such addresses: IPv4 or IPv6 may be disabled.
func noFamily(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) ||
		errors.Is(err, syscall.EPROTONOSUPPORT)
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// maxConnections bounds the connections at a port of an address, which any program there can open: each takes memory.
const maxConnections = 256

// limitedListener closes the connection that has been silent longest where there are too many: whoever holds them shuts
// nobody else out, and a request whose body is arriving goes on.
type limitedListener struct {
	net.Listener

	mu   sync.Mutex
	open list.List // of *limitedConn, that of which nothing has come for longest in front
}

func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	newest := &limitedConn{Conn: conn, from: l}
	l.mu.Lock()
	newest.place = l.open.PushBack(newest)
	silent, over := l.open.Front().Value.(*limitedConn), l.open.Len() > maxConnections
	l.mu.Unlock()
	if over {
		_ = silent.Close()
	}
	return newest, nil
}

// limitedConn is a connection that counts until it is closed.
type limitedConn struct {
	net.Conn
	from  *limitedListener
	place *list.Element
}

func (c *limitedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.from.mu.Lock()
		c.from.open.MoveToBack(c.place)
		c.from.mu.Unlock()
	}
	return n, err
}

func (c *limitedConn) Close() error {
	c.from.mu.Lock()
	c.from.open.Remove(c.place)
	c.from.mu.Unlock()
	return c.Conn.Close()
}
