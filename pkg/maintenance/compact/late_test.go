package compact

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/ship"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
)

// TestLateEventsOfCompactedStreams: a worker's collector that is behind, and lists the store again only after its
// session was compacted, stores the rest of its events where they are read, also if they are compressed and the
// collector has begun again with nothing left to store. A listing does not show how many bytes a compressed object has.
func TestLateEventsOfCompactedStreams(t *testing.T) {
	for _, compression := range []layout.Compression{plain, gz, zst} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s restarted %v", compression.Ext(), restarted),
				func(t *testing.T) { testLateEvents(t, compression, restarted) })
		}
	}
}

func testLateEvents(t *testing.T, compression layout.Compression, restarted bool) {
	store := storetest.New()
	dir := t.TempDir()
	log := logrus.New()
	log.SetOutput(t.Output())
	var events *spool.Spool
	open := func() {
		t.Helper()
		events = must.Get(spool.Open(dir, spool.Options{Log: log, Registerer: prometheus.NewRegistry()}))(t)
	}
	open()
	defer func() { _ = events.Close() }()
	key := layout.NodeEventsKey("log", ref, node, hour)
	var want string
	flush := func() { // each time by a shipper that knows nothing but what is on disk
		t.Helper()
		sources := func() (all []ship.Source) {
			for _, s := range events.Streams() {
				all = append(all, s)
			}
			return all
		}
		s, err := ship.New(ship.Options{
			Store: store, Groups: []ship.Group{{Name: "events", Sources: sources, Compression: compression}}, Dir: dir,
			Log: log, Registerer: prometheus.NewRegistry(),
		})
		if err == nil {
			err = s.Flush(t.Context())
		}
		must.OK(t, err)
	}
	for i := range 4 {
		line := fmt.Sprintf("{\"event\":%d}\n", i)
		want += line
		must.OK(t, events.Append(t.Context(), []spool.Lines{{Stream: key, Data: []byte(line)}}))
		if flush(); i != 2 {
			continue
		}
		end(t, store)
		if result, err := Session(t.Context(), ref, options(store)); err != nil || result.Joined != 1 {
			t.Fatalf("%+v, %v", result, err)
		}
		if restarted {
			must.OK(t, events.Close())
			open()
		}
	}
	listed, err := inventory.List(t.Context(), store, "log", ref)
	must.OK(t, err)
	body := chunks.NewReader(t.Context(), store, &listed.Streams[0].Stream, chunks.Options{})
	got, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || string(got) != want {
		t.Errorf("%q is read, want %q: %v", got, want, err)
	}
}
