package logs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const session = "session_2026-11-20_23-19-45_581717_22125"

var nodeID = rayid.Node{0x11, 0xdd, 27: 0x58}

func key(session string, node rayid.Node, path string) string {
	return layout.LogKey("log", layout.Session{Namespace: "default", Cluster: "lab", Name: session}, node, path)
}

// rig is a tailer with a shipper, and the folder they follow.
type rig struct {
	t           *testing.T
	tmp, state  string
	store       *storetest.Store
	compression layout.Compression
	chunk       int64
	log         logrus.FieldLogger
	node        func(context.Context, string) (rayid.Node, error)

	deleteShipped, running bool

	empty    map[rayid.Node][]byte // names of empty logs that were listed
	listings int
	// truncated is how long the log was that was truncated last.
	truncated int64
	unlisted  func() bool // ListEmpty fails

	tailer  *logs.Tailer
	shipper *ship.Shipper
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, tmp: t.TempDir(), state: t.TempDir(), store: &storetest.Store{}, log: silent.Logger(),
		empty: make(map[rayid.Node][]byte), unlisted: func() bool { return false },
		node: func(context.Context, string) (rayid.Node, error) { return nodeID, nil }}
	r.mkdir(".")
	r.restart()
	return r
}

func (r *rig) restart() {
	r.tailer = logs.New(logs.Options{Dir: r.tmp, StateDir: r.state, Key: key, ListEmpty: r.listEmpty,
		Node: func(ctx context.Context, s string) (rayid.Node, error) { return r.node(ctx, s) }, Log: r.log,
		Registerer: prometheus.NewRegistry(), DeleteShipped: r.deleteShipped,
		Running: func(string) (bool, error) { return r.running, nil }})
	var err error
	r.shipper, err = ship.New(ship.Options{
		Store:        r.store,
		Groups:       []ship.Group{{Name: "logs", Sources: r.tailer.Sources, Logs: true, Compression: r.compression}},
		PushInterval: time.Nanosecond, MaxChunk: r.chunk, Concurrency: 1, Dir: r.state, Log: r.log,
		Registerer: prometheus.NewRegistry(),
	})
	must.OK(r.t, err)
}

func (r *rig) listEmpty(_ string, node rayid.Node, names []byte) error {
	if r.unlisted() {
		return storetest.ErrFault
	}
	r.empty[node] = append(r.empty[node], names...)
	r.listings++
	return nil
}

func (r *rig) path(name string) string { return filepath.Join(r.tmp, session, "logs", name) }

func (r *rig) mkdir(name string) { must.OK(r.t, os.MkdirAll(r.path(name), 0o755)) }

func (r *rig) write(name, data string) {
	f := must.Get(os.OpenFile(r.path(name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644))(r.t)
	must.Get(f.WriteString(data))(r.t)
	must.OK(r.t, f.Close())
}

func (r *rig) rename(from, to string) { must.OK(r.t, os.Rename(r.path(from), r.path(to))) }

func (r *rig) remove(name string) { must.OK(r.t, os.Remove(r.path(name))) }

// copyTruncate is what logrotate's copytruncate does.
func (r *rig) copyTruncate(from, to string) {
	data, err := os.ReadFile(r.path(from))
	if err == nil {
		err = os.WriteFile(r.path(to), data, 0o644)
	}
	if err == nil {
		err = os.Truncate(r.path(from), 0)
	}
	must.OK(r.t, err)
}

func (r *rig) scan() { must.Get(r.tailer.Scan(r.t.Context()))(r.t) }

// look looks at some of the logs, or at all that are followed.
func (r *rig) look(random *rand.Rand, names []string) {
	if random.IntN(4) == 0 {
		must.OK(r.t, r.tailer.LookAtFollowed(r.t.Context()))
		return
	}
	var paths []string
	for _, name := range names {
		for _, ext := range []string{"", ".1", ".2", "-1"} {
			if random.IntN(2) == 0 {
				paths = append(paths, session+"/logs/"+name+ext)
			}
		}
	}
	r.tailer.LookAt(paths...)
}

// shipAll scans and ships until nothing is left.
func (r *rig) shipAll() {
	r.t.Helper()
	for range 4 {
		r.scan()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		must.OK(r.t, r.shipper.Flush(ctx))
		cancel()
		time.Sleep(4 * time.Second) // rotated files settle
	}
}

func (r *rig) joined(node rayid.Node, name string) string {
	r.t.Helper()
	data, err := r.store.Joined(key(session, node, name), func(k string) (string, int64) {
		whole, offset, _ := layout.ParseLogChunk(k)
		return whole, offset
	})
	must.OK(r.t, err)
	return string(data)
}

func (r *rig) want(name, data string) {
	r.t.Helper()
	r.wantOf(nodeID, name, data)
}

func (r *rig) wantOf(node rayid.Node, name, data string) {
	r.t.Helper()
	if got := r.joined(node, name); got != data {
		r.t.Errorf("%s: stored %d bytes %.200q, want %d bytes %.200q", name, len(got), got, len(data), data)
	}
}

// first is a first line long enough to tell files apart.
func first(name string) string {
	return fmt.Sprintf("[2026-11-20 23:19:46,%s] (raylet) main.cc:123: the first line of this file\n", name)
}

// wantEmpty checks the list of empty logs, without the names that are in it twice.
func (r *rig) wantEmpty(names ...string) {
	r.t.Helper()
	listed := strings.Fields(string(r.empty[nodeID]))
	slices.Sort(listed)
	if listed = slices.Compact(listed); !slices.Equal(listed, names) {
		r.t.Errorf("%d logs are listed as empty, %.300q, want %d", len(listed), listed, len(names))
	}
}
