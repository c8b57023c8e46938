package ship

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// memory is a source in memory, of lines.
type memory struct {
	key string

	mu      sync.Mutex
	data    []byte
	pos     int64
	oldest  time.Time
	resumed []int64
	openErr error
	doubts  int // Resume fails so often
}

func (m *memory) Key() string { return m.key }

func (m *memory) write(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data = append(m.data, text...)
	if m.oldest.IsZero() {
		m.oldest = time.Now()
	}
}

func (m *memory) Unresumed() bool { return false }

func (m *memory) Resume(stored int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if stored > int64(len(m.data)) {
		return fmt.Errorf("only %d bytes", len(m.data))
	}
	m.resumed = append(m.resumed, stored)
	if m.doubts--; m.doubts >= 0 {
		return errors.New("not now")
	}
	m.move(stored)
	return nil
}

func (m *memory) move(to int64) {
	m.pos = to
	if to == int64(len(m.data)) {
		m.oldest = time.Time{}
	}
}

func (m *memory) Pending(limit int64) (int64, int64, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pos, min(limit, int64(len(m.data))-m.pos), m.oldest
}

func (m *memory) Open(offset, n int64) (io.ReadSeekCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.openErr != nil {
		return nil, m.openErr
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(bytes.Clone(m.data[offset : offset+n])), io.NopCloser(nil)}, nil
}

func (m *memory) Shipped(end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.move(end)
}

// rig is a shipper of some sources.
type rig struct {
	*Shipper
	store   *storetest.Store
	sources []*memory
	logged  *logtest.Hook
	metrics *prometheus.Registry
}

const base = "log/lab_default/session_x/logs/11dd0000000000000000000000000000000000000000000000000058/"

func newRig(t *testing.T, change func(*Options), sources ...*memory) *rig {
	log, hook := logtest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	r := &rig{store: &storetest.Store{}, sources: sources, logged: hook, metrics: prometheus.NewRegistry()}
	r.restart(t, t.TempDir(), change, log)
	return r
}

func (r *rig) restart(t *testing.T, dir string, change func(*Options), log logrus.FieldLogger) {
	r.metrics = prometheus.NewRegistry()
	o := Options{Store: r.store, Dir: dir, Log: log, Registerer: r.metrics,
		Groups: []Group{{Name: "logs", Logs: true, Sources: func() []Source {
			var s []Source
			for _, m := range r.sources {
				s = append(s, m)
			}
			return s
		}}}}
	if change != nil {
		change(&o)
	}
	r.Shipper = must.Get(New(o))(t)
}

func (r *rig) once(t *testing.T, want int) {
	t.Helper()
	got, _, err := r.ShipOnce(t.Context())
	must.True(t, err == nil && got == want, "shipped %d chunks, %v, want %d", got, err, want)
}

func (r *rig) want(t *testing.T, keys ...string) {
	t.Helper()
	says.Equal(t, strings.ReplaceAll(strings.Join(r.store.Keys(), " "), base, ""), strings.Join(keys, " "), "stored")
}
