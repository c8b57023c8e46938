package collector

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
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
	limit   int64 // of connections; 0: none
	log     logrus.FieldLogger

	http      *http.Server
	handler   atomic.Pointer[http.Handler]
	answering chan struct{} // closed once there is a handler
	listeners []net.Listener
	accepting sync.WaitGroup
}

// maxHeader bounds a request's header. Ray's and Prometheus's have about 500 bytes.
const maxHeader = 16 << 10

// NewServers makes servers that are not open yet.
func NewServers(l Listeners, log logrus.FieldLogger) *Servers {
	s := &Servers{
		events: &server{
			what: "events (--events-address, --events-port)", address: l.EventsAddress, port: l.EventsPort,
			http: &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
		},
		metrics: &server{
			what: "probes and metrics (--metrics-address, --metrics-port)", address: l.MetricsAddress, port: l.MetricsPort,
			limit: maxConnections,
			http:  &http.Server{ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 30 * time.Second},
		},
	}
	for _, one := range []*server{s.events, s.metrics} {
		one.log, one.answering = log, make(chan struct{})
		one.http.Handler, one.http.MaxHeaderBytes = one, maxHeader
	}
	return s
}

// Open opens the ports that are not open yet. After an error, which names those that are taken, it may be called again.
func (s *Servers) Open() error { return errors.Join(s.events.open(), s.metrics.open()) }

// Answer sets what answers from now on.
func (s *Servers) Answer(events, metrics http.Handler) {
	s.events.answer(events)
	s.metrics.answer(metrics)
}

func (s *server) answer(handler http.Handler) {
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

func (s *server) open() error {
	if len(s.listeners) > 0 {
		return nil
	}
	listeners, err := listen(s.address, s.port)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", s.what, err)
	}
	for _, l := range listeners {
		if s.limit > 0 {
			l = &limitedListener{Listener: l, limit: s.limit}
		}
		s.listeners = append(s.listeners, l)
		s.accepting.Go(func() { s.accept(l) })
	}
	return nil
}

// accept serves requests until the server is shut down.
func (s *server) accept(l net.Listener) {
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
