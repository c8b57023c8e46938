package ship

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/spool"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// world is a spool, its shipper and a store, driven by a seed.
type world struct {
	storetest.Store
	t           *testing.T
	random      *rand.Rand
	dir         string
	compression layout.Compression
	late        []lateObject

	spool   *spool.Spool
	shipper *Shipper
	kept    []string // lines
}

// lateObject is one whose put failed, and that is stored later.
type lateObject struct {
	key  string
	data []byte
}

const eventsBase = "log/lab_default/session_x/node_events/"

func (w *world) open() {
	log := silent.Logger()
	var err error
	w.spool = must.Get(spool.Open(w.dir+"/events",
		spool.Options{Log: log, Registerer: prometheus.NewRegistry(), MaxBytes: 8_000}))(w.t)
	sources := func() (list []Source) {
		for _, st := range w.spool.Streams() {
			list = append(list, st)
		}
		// so that the seed decides
		slices.SortFunc(list, func(a, b Source) int { return strings.Compare(a.Key(), b.Key()) })
		return list
	}
	if w.shipper, err = New(Options{
		Store: w, Dir: w.dir, Groups: []Group{{Name: "events", Sources: sources, Compression: w.compression}},
		MaxChunk: 600, Concurrency: 1,
		PushInterval: time.Second, Log: log, Registerer: prometheus.NewRegistry(),
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) append() {
	id := strconv.Itoa(len(w.kept))
	line := id + strings.Repeat(" ", w.random.IntN(200)) + "\n"
	if w.spool.Append(w.t.Context(),
		[]spool.Lines{{Stream: eventsBase + string(rune('a'+w.random.IntN(3))), Data: []byte(line)}}) == nil {
		w.kept = append(w.kept, id)
	}
}

// meanwhile is what others do during a request.
func (w *world) meanwhile() {
	for range w.random.IntN(3) {
		w.append()
	}
	if len(w.late) > 0 && w.random.IntN(3) == 0 {
		o := w.late[0]
		w.late = w.late[1:]
		_ = w.Store.Create(context.Background(), o.key, bytes.NewReader(o.data)) // the key may be taken by now
	}
	time.Sleep(time.Duration(w.random.IntN(1000)) * time.Millisecond)
}

// Create reads the body twice, and may store it later than it says.
func (w *world) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	w.meanwhile()
	var read [2][]byte
	for i := range read {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		var err error
		if read[i], err = io.ReadAll(body); err != nil {
			return err
		}
		w.meanwhile()
	}
	says.True(w.t, bytes.Equal(read[0], read[1]), "%s is read as %q and %q", key, read[0], read[1])
	fails := []error{storetest.ErrFault, blob.ErrThrottled}[w.random.IntN(2)]
	switch w.random.IntN(8) {
	case 0:
		return fails
	case 1:
		w.late = append(w.late, lateObject{key, read[0]})
		return fails
	}
	err := w.Store.Create(ctx, key, bytes.NewReader(read[0]))
	w.meanwhile()
	if w.random.IntN(8) == 0 {
		return fails
	}
	return err
}

// TestRandomSchedules: puts that fail, whose answers are lost, or that are stored later, while events arrive and the
// collector is killed and loses its notes. Nothing is lost, and without kills nothing is stored twice, unless two tries
// of a compressed chunk have the same size (see lengthLog.length).
func TestRandomSchedules(t *testing.T) {
	seeds := uint64(10)
	if n, err := strconv.ParseUint(os.Getenv("SHIP_TEST_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	for name, test := range map[string]struct {
		compression layout.Compression
		kills       int // in a hundred steps
	}{
		"plain": {layout.Plain, 0}, "plain, kills": {layout.Plain, 5}, "compressed": {layout.Zstd, 0},
		"compressed, kills": {layout.Zstd, 5},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				var w *world
				synctest.Test(t, func(t *testing.T) {
					w = &world{t: t, random: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(),
						compression: test.compression}
					w.open()
					for range 100 {
						if w.random.IntN(100) < test.kills {
							_ = w.spool.Close() // writes nothing that was not on disk
							if w.random.IntN(3) == 0 {
								_ = os.Remove(w.dir + "/chunks.jsonl")
							}
							w.open()
						}
						w.meanwhile()
						_, _, _ = w.shipper.ShipOnce(t.Context())
					}
					must.OK(t, w.shipper.Flush(t.Context()))
				})
				doubled := w.check(t, seed) // outside, since readers share their decoders
				says.True(t, test.kills != 0 || test.compression != layout.Plain || doubled <= 0,
					"seed %d: %d lines are stored twice", seed, doubled)
			}
		})
	}
}

// check reads what is stored, and gives how many lines are stored more than once.
func (w *world) check(t *testing.T, seed uint64) (doubled int) {
	t.Helper()
	streams := map[string]*chunks.Stream{}
	for _, key := range w.Keys() {
		stream, offset, compression, _ := layout.ParseChunk(key)
		if streams[stream] == nil {
			streams[stream] = &chunks.Stream{Key: stream, Kind: layout.NodeEvents}
		}
		streams[stream].Add(layout.Object{Offset: offset, Compression: compression},
			blob.Object{Key: key, Size: int64(len(w.Object(key)))})
	}
	stored := map[string]int{}
	for key, stream := range streams {
		stream.Sort()
		in := chunks.NewReader(t.Context(), &w.Store, stream, chunks.Options{Exact: true})
		text, err := io.ReadAll(in)
		says.OK(t, err, "seed %d: %s", seed, key)
		must.OK(t, in.Close())
		for line := range strings.Lines(string(text)) {
			stored[strings.TrimSpace(line)]++
		}
	}
	for _, id := range w.kept {
		switch n := stored[id]; {
		case n == 0:
			t.Errorf("seed %d: line %s is lost", seed, id)
		case n > 1:
			doubled++
		}
	}
	return doubled
}
