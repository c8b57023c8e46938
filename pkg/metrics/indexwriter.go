package metrics

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/samples"
)

// ErrDamagedMetrics says that no index was made because some of the stored metrics is damaged: answers from an index would not tell so.
var ErrDamagedMetrics = errors.New("stored metrics are damaged")

// passBytes is about the memory of a pass of an IndexWriter. Each reads all chunks, and keeps the series of some names, or some series of a
// name that has too many.
const passBytes = 64 << 20

// IndexWriter writes the metrics of sessions that are over as Parquet.
type IndexWriter struct {
	Store blob.Reader
	Root  string
	Put   func(ctx context.Context, key string, body io.ReadSeeker) error

	passBytes int64 // 0: the constant
}

// Write writes the index of a session's metrics, if it has any and no such index or force says so. A session of metrics that are
// damaged gets none: ErrDamagedMetrics. Others are of the store, of the disk for temporary files and the context's.
func (w *IndexWriter) Write(ctx context.Context, ref layout.Session, force bool) error {
	hours, err := List(ctx, w.Store, w.Root, ref)
	if err != nil || len(hours) == 0 {
		return err
	}
	fingerprint := fingerprintOf(hours)
	if !force {
		if known, err := openIndex(ctx, w.Store, w.Root, ref, fingerprint, passBytes); err == nil && known != nil {
			return nil
		}
	}
	p := &indexPass{
		store: w.Store, session: ref, hours: hours, maxBytes: w.passBytes, changes: make(map[string]int64),
		facts: indexFacts{Version: indexVersion, Fingerprint: fingerprint, Generation: rand.Text()},
	}
	p.maxBytes = cmp.Or(p.maxBytes, passBytes)
	file, err := os.CreateTemp("", "rayhistory-metrics-")
	if err != nil {
		return err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}()
	if err := p.write(ctx, file); err != nil {
		return fmt.Errorf("index metrics of %s: %w", ref, err)
	}
	if p.facts.Bytes, err = file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := w.Put(ctx, layout.IndexKey(w.Root, ref, samplesTable), file); err != nil {
		return err
	}
	series, err := p.seriesTable()
	if err != nil {
		return err
	}
	// It comes last: it names the samples that belong to it.
	return w.Put(ctx, layout.IndexKey(w.Root, ref, seriesTable), bytes.NewReader(series))
}

// indexPass makes the tables of one session.
type indexPass struct {
	store    blob.Reader
	session  layout.Session
	hours    []Hour
	maxBytes int64
	facts    indexFacts

	mu      sync.Mutex
	changes map[string]int64 // by name
	metrics map[string]samples.Metric

	series []seriesRow
	rows   int64 // samples
}

// errTooManyRows is more samples than the server's reader of Parquet takes.
var errTooManyRows = fmt.Errorf("more than %d samples", math.MaxInt32)

// write writes the table of samples, some names at a time, and gathers that of the series.
func (p *indexPass) write(ctx context.Context, file io.Writer) error {
	if err := p.count(ctx); err != nil {
		return err
	}
	out := parquet.NewGenericWriter[sampleRow](file, parquet.CreatedBy("rayhistory", "", ""),
		parquet.KeyValueMetadata(generationKey, p.facts.Generation), parquet.MaxRowsPerRowGroup(indexGroupRows))
	most := p.maxBytes / indexedChangeBytes
	for names := slices.Sorted(maps.Keys(p.changes)); len(names) > 0; {
		changes, n := p.changes[names[0]], 1
		for n < len(names) && changes+p.changes[names[n]] <= most {
			changes += p.changes[names[n]]
			n++
		}
		parts := uint64(changes/most) + 1
		if changes > most {
			parts *= 2 // they are not equally large
		}
		for part := range parts {
			if err := p.writeNames(ctx, out, names[:n], part, parts); err != nil {
				return err
			}
		}
		names = names[n:]
	}
	return out.Close()
}

// count finds the names, and how much there is of each.
func (p *indexPass) count(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, h := range p.hours {
		group.Go(func() error {
			c := &changeCounter{changes: make(map[string]int64), metrics: make(map[string]samples.Metric)}
			var damage error
			if err := h.Visit(groupCtx, p.store, c, func(key string, err error) { damage = damageOf(key, err) }); err != nil || damage != nil {
				return errors.Join(err, damage)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for name, n := range c.changes {
				p.changes[name] += n
			}
			if p.metrics == nil {
				p.metrics = make(map[string]samples.Metric)
			}
			for name, m := range c.metrics {
				if p.metrics[name].Name == "" {
					p.metrics[name] = m
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.metrics)) {
		p.facts.Metrics = append(p.facts.Metrics, p.metrics[name])
	}
	return nil
}

func damageOf(key string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrDamagedMetrics, key, err)
}

// changeCounter is a visitor that counts the values of each name.
type changeCounter struct {
	names   []string // of the table's series
	changes map[string]int64
	metrics map[string]samples.Metric
}

func (c *changeCounter) Start([][]samples.Label) { c.names = c.names[:0] }

func (c *changeCounter) Wants(string) bool { return true }

func (c *changeCounter) Metric(m samples.Metric) {
	if c.metrics[m.Name].Name == "" {
		c.metrics[m.Name] = m
	}
}

func (c *changeCounter) Series(_ int, name string, _ []samples.Label) int {
	c.changes[name] += 2 // it may end in this table
	c.names = append(c.names, name)
	return len(c.names) - 1
}

func (c *changeCounter) Read(r *samples.Read) {
	for _, n := range r.Series {
		c.changes[c.names[n]]++
	}
	for _, n := range r.Gone {
		c.changes[c.names[n]]++
	}
}

// writeNames writes the samples of one of so many parts of the series of some names, which are sorted.
func (p *indexPass) writeNames(ctx context.Context, out *parquet.GenericWriter[sampleRow], names []string, part, parts uint64) error {
	// The bound is for blocks while they are built, which two are at a time: most take what a change takes afterwards.
	d := NewDatabase(p.store, func(context.Context) ([]Hour, error) { return p.hours, nil }, 0, p.maxBytes*changeBytes/indexedChangeBytes)
	d.large = true // nothing is kept
	if parts > 1 {
		d.only = func(l labels.Labels) bool { return l.Hash()%parts == part }
	}
	blocks, damaged, err := d.load(ctx, math.MinInt64, math.MaxInt64, newChangeLimit(d.maxBytes/changeBytes), func(name string) bool {
		_, wanted := slices.BinarySearch(names, name)
		return wanted
	})
	if err != nil || len(damaged) > 0 {
		return errors.Join(err, errors.Join(damaged...))
	}
	rows := make([]sampleRow, 0, 4096)
	for _, name := range names {
		numbers, err := d.names.find(ctx, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)})
		if err != nil {
			return err
		}
		slices.SortFunc(numbers, func(a, b uint32) int { return labels.Compare(d.names.of(a).labels, d.names.of(b).labels) })
		for _, number := range numbers {
			s := d.series(number, blocks, math.MinInt64, math.MaxInt64)
			if s == nil {
				continue
			}
			row := seriesRow{
				Session: p.session.Name, Cluster: p.session.Cluster, Namespace: p.session.Namespace, Series: int32(len(p.series)), Name: name,
			}
			if row.Labels, err = spellLabels(s.labels); err != nil {
				return err
			}
			for it := s.Iterator(math.MinInt64+1, math.MaxInt64); it.Next() == chunkenc.ValFloat; row.Samples++ {
				t, v := it.At()
				if row.Samples == 0 {
					row.StartTime = t
				}
				row.EndTime = t
				if rows = append(rows, sampleRow{p.session.Name, row.Series, t, v}); len(rows) == cap(rows) {
					if _, err := out.Write(rows); err != nil {
						return err
					}
					if rows = rows[:0]; ctx.Err() != nil {
						return context.Cause(ctx)
					}
				}
			}
			p.series = append(p.series, row)
			if p.rows += row.Samples; p.rows > math.MaxInt32 {
				return errTooManyRows
			}
		}
	}
	_, err = out.Write(rows)
	return err
}

// spellLabels writes labels without the name as JSON.
func spellLabels(l labels.Labels) (string, error) {
	of := l.Map()
	delete(of, model.MetricNameLabel)
	text, err := json.Marshal(of)
	return string(text), err
}

func (p *indexPass) seriesTable() ([]byte, error) {
	facts, err := json.Marshal(p.facts)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	options := []parquet.WriterOption{parquet.CreatedBy("rayhistory", "", ""), parquet.KeyValueMetadata(indexFactsKey, string(facts))}
	out := parquet.NewGenericWriter[seriesRow](&buf, options...)
	if _, err := out.Write(p.series); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
