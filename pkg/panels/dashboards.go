package panels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const (
	// maxDashboard bounds one dashboard, in bytes; the largest of Ray 2.60 has 520 KB.
	maxDashboard = 4 << 20
	// maxKept bounds the dashboards in memory, by what they take at most.
	maxKept = 64 << 20
	// maxReading is how many are read at once.
	maxReading = 2
)

// errNone says that no such dashboard is stored.
var errNone = errors.New("no such dashboard is stored")

// dashboards reads stored dashboards and keeps those of the sessions that were used last, because each panel of a page is a separate request. Safe
// for concurrent use.
type dashboards struct {
	store blob.Reader
	root  string
	// reading limits how many are read at once, because reading takes several times a dashboard's size.
	reading *turns.Slots

	mu    sync.Mutex
	kept  map[string]*dashboard
	bytes int64
}

// of returns a session's dashboard by Ray's name for it, such as "default". It is errNone if there is none or if it is damaged.
func (d *dashboards) of(ctx context.Context, ref layout.Session, name string) (*dashboard, error) {
	key := layout.GrafanaDashboardKey(d.root, ref, name+"_grafana_dashboard.json")
	if kept := d.known(key); kept != nil {
		return kept, nil
	}
	ctx, done, err := d.reading.Take(ctx, ref.Namespace, 0)
	if err != nil {
		return nil, err
	}
	defer done()
	if kept := d.known(key); kept != nil { // read while this request waited
		return kept, nil
	}
	data, err := d.read(ctx, key)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, fmt.Errorf("read Grafana dashboard: %w", err)
	}
	parsed, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is damaged: %w", errNone, key, err)
	}
	d.keep(key, parsed, int64(len(data)+400*valuesIn(data)))
	return parsed, nil
}

func (d *dashboards) known(key string) *dashboard {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[key]
}

// keep forgets all others when there are too many: reading them again takes little time.
func (d *dashboards) keep(key string, parsed *dashboard, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.bytes += bytes; d.bytes > maxKept || d.kept == nil {
		d.kept, d.bytes = make(map[string]*dashboard), bytes
	}
	d.kept[key] = parsed
}

// any says whether a session has dashboards.
func (d *dashboards) any(ctx context.Context, ref layout.Session) (bool, error) {
	for _, err := range d.store.List(ctx, layout.GrafanaPrefix(d.root, ref), blob.ListOptions{}) {
		return err == nil, err
	}
	return false, nil
}

// read returns a stored dashboard's text. What cannot be decompressed is errNone.
func (d *dashboards) read(ctx context.Context, key string) ([]byte, error) {
	object, err := d.store.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = object.Close() }()
	compressed, err := io.ReadAll(io.LimitReader(object, maxDashboard))
	if err != nil {
		return nil, err
	}
	in, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxDashboard))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := in.DecodeAll(compressed, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is damaged: %w", errNone, key, err)
	}
	return data, nil
}
