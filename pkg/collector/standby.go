package collector

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/rayhistory/historyserver/pkg/collector/sink"
)

// Standby answers in a collector's place while that cannot start: a setting is wrong, a port is taken, or Ray's folder
// is not there yet. The process stays alive, because a pod counts as ready only when all of its containers are: Ray
// must not wait for its history.
type Standby struct {
	refused         *sink.Refused
	events, metrics *http.ServeMux // what answers on the two ports

	mu  sync.Mutex
	why error
}

// standbyRetry is what Ray is told to wait, in seconds. Ray itself waits at most 5 s.
const standbyRetry = "5"

// NewStandby makes a Standby, which refuses events with 503 and notes the batches in refused.
func NewStandby(refused *sink.Refused) *Standby {
	s := &Standby{refused: refused}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	batches := sink.NewBatches(registry)
	registerReady(registry, s.notReady)
	s.metrics, s.events = newMux(registry, s.notReady), http.NewServeMux()
	s.events.Handle("/", s.metrics)
	handleEvents(s.events, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		batches.WithLabelValues("503").Inc()
		why := s.reason()
		s.refused.Add("", why.Error(), time.Now())
		w.Header().Set("Retry-After", standbyRetry)
		http.Error(w, fmt.Sprintf("events are not taken yet: %v", why), http.StatusServiceUnavailable)
	}))
	return s
}

// Because sets why nothing is collected: a NoRayError is no mistake unless Ray's events come.
func (s *Standby) Because(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = err
}

// Take makes the servers answer with this.
func (s *Standby) Take(servers *Servers) {
	servers.Answer(s.events, s.metrics)
}

func (s *Standby) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// notReady is why /readyz is not answered with 200. That Ray's folder is missing is usual before Ray starts, so it
// counts only if events are refused for a while: Ray runs then, with another folder.
func (s *Standby) notReady() error {
	why := s.reason()
	if !errors.As(why, new(*NoRayError)) {
		return why
	}
	const unplaced = false
	if s.refused.Lasting(time.Now(), unplaced) == "" {
		return nil
	}
	return fmt.Errorf("%w, but Ray's events are refused for it: %s", why, adviceTmpDir)
}
