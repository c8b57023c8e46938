package panels

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/frontend"
)

const (
	// maxDashboard bounds one dashboard, in bytes; the largest of Ray 2.60 has 520 KB.
	maxDashboard = 4 << 20
	// maxCached bounds the memory of the cached dashboards, in bytes; valueBytes is what a value takes beside its text.
	maxCached  = 64 << 20
	valueBytes = 400
	// maxReading is how many dashboards are read at once.
	maxReading = 2
)

var (
	// errNone says that no such dashboard is stored, or that Ray makes none.
	errNone = errors.New("there is no such dashboard")
	// errDamaged says that a stored dashboard cannot be read.
	errDamaged = errors.New("the stored dashboard is damaged")
)

// dashboards reads dashboards and caches those of the sessions that were used last, because each panel of a page
// is a separate request. Safe for concurrent use.
type dashboards struct {
	store blob.Reader
	root  string
	// reading limits how many are read at once, because reading takes several times a dashboard's size.
	reading *turns.Slots

	cached *cache.Cache[string, cachedDashboard]
}

// cachedDashboard is a cached dashboard, with about how much memory it takes.
type cachedDashboard struct {
	*dashboard
	bytes int64
}

func newDashboards(store blob.Reader, root string) dashboards {
	cached := cache.New[string](maxCached, cache.Forever, func(d cachedDashboard) int64 { return d.bytes })
	return dashboards{store: store, root: root, reading: turns.New(maxReading, turns.NoLimit), cached: cached}
}

// stored returns a session's dashboard by Ray's name for it, such as "default". It is errNone if none is stored,
// errDamaged if it cannot be read.
func (d *dashboards) stored(ctx context.Context, ref layout.Session, name string) (*dashboard, error) {
	key := layout.GrafanaDashboardKey(d.root, ref, name+"_grafana_dashboard.json")
	return d.load(ctx, ref.Namespace, key, func(ctx context.Context) ([]byte, error) {
		data, err := d.read(ctx, key)
		if errors.Is(err, os.ErrNotExist) {
			return nil, errNone
		}
		if err != nil {
			return nil, fmt.Errorf("read Grafana dashboard: %w", err)
		}
		return data, nil
	})
}

// ofRay returns the dashboard that Ray makes in the version nearest to a session's. It is errNone if Ray makes no
// such dashboard.
func (d *dashboards) ofRay(ctx context.Context, namespace, name, rayVersion string) (*dashboard, error) {
	return d.load(ctx, namespace, name+" of "+rayVersion, func(context.Context) ([]byte, error) {
		data, _, err := boardOfRay(name, rayVersion)
		return data, err
	})
}

// load returns the cached dashboard of a key, or reads it, once for all who want it at the same time, when it is the
// namespace's turn. The error is errDamaged if what was read is no dashboard.
func (d *dashboards) load(ctx context.Context, namespace, key string,
	read func(context.Context) ([]byte, error)) (*dashboard, error) {
	cached, err := d.cached.Load(ctx, key, func(ctx context.Context) (none cachedDashboard, err error) {
		ctx, done, err := d.reading.Take(ctx, namespace, turns.NoLimit)
		if err != nil {
			return none, err
		}
		defer done()
		data, err := read(ctx)
		if err != nil {
			return none, err
		}
		parsed, err := parse(data)
		if err != nil {
			return none, fmt.Errorf("%w: %s: %w", errDamaged, key, err)
		}
		return cachedDashboard{parsed, int64(len(data) + valueBytes*jsonstream.Values(data))}, nil
	})
	return cached.dashboard, err
}

// hasStored says whether any dashboard of a session is stored.
func (d *dashboards) hasStored(ctx context.Context, ref layout.Session) (bool, error) {
	for _, err := range d.store.List(ctx, layout.GrafanaPrefix(d.root, ref), blob.ListOptions{}) {
		return err == nil, err
	}
	return false, nil
}

// read returns a stored dashboard's text. What cannot be decompressed is errDamaged: also what has more than
// maxDashboard bytes, which is cut off, or becomes more.
func (d *dashboards) read(ctx context.Context, key string) ([]byte, error) {
	object, err := d.store.Get(ctx, key, 0, blob.ToEnd)
	if err != nil {
		return nil, err
	}
	defer func() { _ = object.Close() }()
	compressed, err := io.ReadAll(io.LimitReader(object, maxDashboard))
	if err != nil {
		return nil, err
	}
	data, err := decompress(compressed, maxDashboard)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errDamaged, key, err)
	}
	return data, nil
}

// decompress returns what zstd compressed; more than limit bytes are an error.
func decompress(compressed []byte, limit uint64) ([]byte, error) {
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return in.DecodeAll(compressed, nil)
}

// boardFiles are the dashboards that Ray generates, a file for each with those of several Ray versions;
// scripts/grafana-boards.sh makes them.
//
//go:embed boards
var boardFiles embed.FS

// maxBoards is what the versions of one dashboard take together at most, in bytes.
const maxBoards = 8 << 20

// boardOfRay returns the text of a dashboard as Ray makes it in the version that is nearest to rayVersion, or in the
// newest if that is "", and that version. The error is errNone if Ray makes no such dashboard.
func boardOfRay(name, rayVersion string) (text []byte, version string, err error) {
	compressed, err := boardFiles.ReadFile("boards/" + name + ".json.zst")
	if err != nil {
		return nil, "", errNone
	}
	data, err := decompress(compressed, maxBoards)
	if err != nil {
		return nil, "", fmt.Errorf("read the dashboards of Ray: %w", err)
	}
	var versions map[string]json.RawMessage
	if err := json.Unmarshal(data, &versions); err != nil {
		return nil, "", fmt.Errorf("read the dashboards of Ray: %w", err)
	}
	version = frontend.Nearest(slices.Collect(maps.Keys(versions)), rayVersion)
	return versions[version], version, nil
}

//go:embed hardware.json
var hardwareJSON []byte

// hardwareOnly is the dashboard of a session of which no metrics but hardware figures are stored. It has panels of
// Ray's default dashboard, with the same IDs (which Ray 2.55 to 2.60 have in common), and queries that find these
// figures.
var hardwareOnly = sync.OnceValue(func() *dashboard {
	d, err := parse(hardwareJSON)
	if err != nil {
		panic(err) // the file is embedded
	}
	return d
})
