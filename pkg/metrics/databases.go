package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// maxListingAge is how old the listing of a running session may be.
const maxListingAge = 15 * time.Second

// finalListingAge is how old the listing of an ended session may be of which nothing more is expected to be stored: one
// that seemed to have ended may go on, and more of one may be copied into the store.
const finalListingAge = 10 * time.Minute

// Databases keeps the databases of the sessions that were used last, within a memory limit. Safe for concurrent use.
type Databases struct {
	store    blob.Reader
	root     string
	maxBytes int64 // of one database, and of all but the one that was used last

	mu   sync.Mutex
	open []*cachedDatabase // the last used first
}

// databaseKey has running because an ended session needs another database than the running one: it may have an index.
type databaseKey struct {
	ref     layout.Session
	running bool
}

type cachedDatabase struct {
	key databaseKey
	*Database
}

// NewDatabases makes databases for the sessions under a root of a store. All of them together keep at most maxBytes:
// the one that was used last up to half of it, and the others together as much.
func NewDatabases(store blob.Reader, root string, maxBytes int64, registerer prometheus.Registerer) *Databases {
	d := &Databases{store: store, root: root, maxBytes: maxBytes / 2}
	promauto.With(registerer).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "historyserver_metrics_memory_bytes",
		Help: "Memory of the sessions' metrics that are kept for queries.",
	}, func() float64 { return float64(d.Bytes()) })
	return d
}

// Of returns the database of a session. It then forgets those used longest ago if all take too much memory. A running
// session has another database than an ended one, because its hours are listed again and it has no index.
func (d *Databases) Of(ref layout.Session, running bool) *Database {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := databaseKey{ref, running}
	if i := slices.IndexFunc(d.open, func(c *cachedDatabase) bool { return c.key == key }); i >= 0 {
		found := d.open[i] // moves to the front: the order is that of the last use
		copy(d.open[1:i+1], d.open[:i])
		d.open[0] = found
	} else {
		var listingValid time.Duration // 0: the session has ended
		if running {
			listingValid = maxListingAge
		}
		hours := func(ctx context.Context) ([]Hour, error) { return List(ctx, d.store, d.root, ref) }
		database := NewDatabase(d.store, hours, listingValid, d.maxBytes)
		if !running {
			database.openIndex = func(ctx context.Context, hours []Hour) (*metricsIndex, error) {
				return openIndex(ctx, d.store, d.root, ref, fingerprintOf(hours), d.maxBytes)
			}
		}
		d.open = slices.Insert(d.open, 0, &cachedDatabase{key, database})
	}
	d.forgetUnused()
	return d.open[0].Database
}

// Figures says which figures of a session are stored.
type Figures uint8

// The figures that may be stored: none; hardware figures of the nodes; Ray's metrics.
const (
	Nothing Figures = iota
	Hardware
	Metrics
)

// Stored returns which figures of a session are stored.
func (d *Databases) Stored(ctx context.Context, ref layout.Session, running bool) (Figures, error) {
	hours, err := d.Of(ref, running).Hours(ctx)
	switch {
	case err != nil || len(hours) == 0:
		return Nothing, err
	case areHardware(hours):
		return Hardware, nil
	}
	return Metrics, nil
}

// openBytes is what a database counts that has read nothing except its list of hours.
const openBytes = 2 << 10

// forgetUnused drops the databases used longest ago until the others fit. Called with d.mu held.
func (d *Databases) forgetUnused() {
	kept, bytes := 1, int64(0)
	for ; kept < len(d.open); kept++ {
		if bytes += openBytes + d.open[kept].Bytes(); bytes > d.maxBytes {
			break
		}
	}
	d.open = slices.Delete(d.open, kept, len(d.open))
}

// Bytes returns the memory that all databases take.
func (d *Databases) Bytes() (bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.open {
		bytes += c.Bytes()
	}
	return bytes
}
