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
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/tempfile"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// errDamagedMetrics says that no index was made because some of the stored metrics is damaged: answers from an index
// would not tell so.
var errDamagedMetrics = errors.New("stored metrics are damaged")

const (
	// passBytes is about the memory of a pass of an IndexWriter. Each reads all chunks, and keeps the series of some
	// names, or some series of a name that has too many.
	passBytes = 64 << 20
	// maxPasses bounds the passes, which together take a time that grows with the square of what is stored.
	maxPasses = 256
	// freeRows and maxRowsPerByte bound the samples by the stored bytes: a series that never changes takes none, and a
	// stored kilobyte may be a million series. A byte of usual metrics holds 2 to 50 samples.
	freeRows, maxRowsPerByte = 4 << 20, 1000
	// maxSeriesBytes bounds what is in the table of series, which is made in memory.
	maxSeriesBytes = 128 << 20
)

// IndexWriter writes the metrics of sessions that are over as Parquet.
type IndexWriter struct {
	Store blob.Reader
	Root  string
	Put   func(ctx context.Context, key string, body io.ReadSeeker) error

	passBytes int64 // 0: the constant
}

// Write writes the index of a session's metrics, if it has any and no such index or force says so. A session of metrics
// that are damaged gets none: errDamagedMetrics. Others are of the store, of the disk for temporary files and the
// context's.
func (w *IndexWriter) Write(ctx context.Context, ref layout.Session, force bool) error {
	err := w.writeOnce(ctx, ref, force)
	if chunks.Changed(err) { // chunks were joined since they were listed
		err = w.writeOnce(ctx, ref, force)
	}
	return err
}

// writeOnce makes the index of a session's metrics and stores its two tables, once: Write tries again if objects have
// changed meanwhile. It writes nothing if there is a valid index, unless force is set, or if there are no metrics. An
// existing index that cannot be read is replaced.
func (w *IndexWriter) writeOnce(ctx context.Context, ref layout.Session, force bool) error {
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
		metrics: make(map[string]samples.Metric),
		facts:   indexFacts{Version: indexVersion, Fingerprint: fingerprint, Generation: rand.Text()},
	}
	p.maxBytes, p.spelled = cmp.Or(p.maxBytes, passBytes), newAllowance(maxSeriesBytes)
	for _, h := range hours {
		p.maxRows += h.Bytes * maxRowsPerByte
	}
	p.maxRows = min(freeRows+p.maxRows, math.MaxInt32)
	file, err := tempfile.Create()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := p.writeSamples(ctx, file); err != nil {
		return fmt.Errorf("index metrics of %s: %w", ref, err)
	}
	if p.facts.Bytes, err = file.Seek(0, io.SeekEnd); err != nil { // its size
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

	series  []seriesRow
	spelled *allowance // for the texts of these
	rows    int64      // samples
	maxRows int64
}

// errTooManyRows is more samples than the server's reader of Parquet takes, or than stored bytes of usual metrics have.
var errTooManyRows = errors.New("too many samples for an index")

// writeSamples writes the table of samples to file, and gathers that of the series. It reads the hours in several
// passes, each for so many names as fit in memory. A name that has too many samples for one pass is divided into parts,
// with a pass for each: twice as many as would do if they were equally large.
func (p *indexPass) writeSamples(ctx context.Context, file io.Writer) error {
	if err := p.countChanges(ctx); err != nil {
		return err
	}
	out := parquet.NewGenericWriter[sampleRow](file, parquet.CreatedBy("rayhistory", "", ""),
		parquet.KeyValueMetadata(generationKey, p.facts.Generation), parquet.MaxRowsPerRowGroup(indexGroupRows))
	passes, maxChanges := uint64(0), p.maxBytes/indexedChangeBytes
	for names := slices.Sorted(maps.Keys(p.changes)); len(names) > 0; {
		changes, n := p.changes[names[0]], 1 // of the first n names
		for n < len(names) && changes+p.changes[names[n]] <= maxChanges {
			changes += p.changes[names[n]]
			n++
		}
		parts := uint64(changes/maxChanges) + 1
		if changes > maxChanges {
			parts *= 2
		}
		if passes += parts; passes > maxPasses {
			return errTooManySamples
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

// countChanges reads all hours once, several at a time, and counts the most changes that the series of each name can
// have. It also gathers what targets say about their metrics.
func (p *indexPass) countChanges(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(hoursAtOnce)
	memory, found := newReadMemory(p.maxBytes/workShare, newAllowance(p.maxBytes)), newAllowance(p.maxBytes)
	for _, h := range p.hours {
		group.Go(func() error {
			return memory.runWithMemory(groupCtx, func(work *allowance) error {
				return p.countHour(groupCtx, h, work, found)
			})
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

// countHour adds an hour to the counts. Names and metrics that earlier hours did not have take memory from found.
// Damage ends it: a session with damaged metrics gets no index.
func (p *indexPass) countHour(ctx context.Context, h Hour, work, found *allowance) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &changeCounter{work: work, stop: stop, changes: make(map[string]int64),
		metrics: make(map[string]samples.Metric)}
	defer func() { work.giveBack(c.taken) }()
	var damage error
	err := h.visitLines(ctx, p.store, c, work, func(key string, err error) {
		damage = damageOf(key, err)
		stop(damage)
	})
	if err != nil {
		return err // also the damage, which has ended ctx
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range c.changes {
		if _, known := p.changes[name]; !known {
			if err := found.take(int64(len(name)) + nameBytes); err != nil {
				return errTooManySeries
			}
		}
		p.changes[name] += n
	}
	for name, m := range c.metrics {
		if p.metrics[name].Name == "" {
			if err := found.take(metricBytes(m)); err != nil {
				return errTooManySeries
			}
			p.metrics[name] = m
		}
	}
	return nil
}

func damageOf(key string, err error) error {
	return fmt.Errorf("%w: %s: %w", errDamagedMetrics, key, err)
}

// writeNames writes the samples of the series with some names, which are sorted, and adds these series to p.series. If
// parts is more than 1, it does so only for the series of one part, a number below parts. Damage is an error.
func (p *indexPass) writeNames(ctx context.Context, out *parquet.GenericWriter[sampleRow], names []string, part,
	parts uint64) error {
	// A change counts as changeBytes, which it takes while its block is built. Only hoursAtOnce blocks are built at a
	// time; in the others a change takes less, as p.maxBytes allows.
	maxBytes := p.maxBytes * changeBytes / indexedChangeBytes
	const sessionEnded = 0
	hours := func(context.Context) ([]Hour, error) { return p.hours, nil }
	d := NewDatabase(p.store, hours, sessionEnded, maxBytes)
	d.keepsNone.Store(true) // nothing is kept
	if parts > 1 {
		d.names.only = func(l labels.Labels) bool { return l.Hash()%parts == part }
	}
	isWanted := func(name string) bool {
		_, wanted := slices.BinarySearch(names, name)
		return wanted
	}
	blocks, damaged, err := d.loadHours(ctx, math.MinInt64, math.MaxInt64, newAllowance(d.maxBytes), isWanted)
	if err != nil || len(damaged) > 0 {
		return errors.Join(err, errors.Join(damaged...))
	}
	w := &sampleWriter{pass: p, out: out, rows: make([]sampleRow, 0, rowsAtOnce)}
	for _, name := range names {
		numbers, err := d.names.findNumbers(ctx, Selection{
			Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, name)}})
		if err != nil {
			return err
		}
		slices.SortFunc(numbers, func(a, b uint32) int {
			return labels.Compare(d.names.seriesOf(a).labels,
				d.names.seriesOf(b).labels)
		})
		for _, number := range numbers {
			s := d.collectSeries(number, blocks, math.MinInt64, math.MaxInt64)
			if s == nil {
				continue
			}
			if err := w.writeSeries(ctx, name, s); err != nil {
				return err
			}
		}
	}
	_, err = out.Write(w.rows)
	return err
}

// rowsAtOnce is how many samples are gathered before they are written.
const rowsAtOnce = 4096

// sampleWriter writes the samples of series to out, and adds the series to those of the pass.
type sampleWriter struct {
	pass *indexPass
	out  *parquet.GenericWriter[sampleRow]
	rows []sampleRow // not written yet
}

// writeSeries writes the samples of one series with this name. The last ones stay in w.rows, and are written with those
// of the next series.
func (w *sampleWriter) writeSeries(ctx context.Context, name string, s *Series) (err error) {
	row := seriesRow{
		Session: w.pass.session.Name, Cluster: w.pass.session.Cluster, Namespace: w.pass.session.Namespace,
		Series: int32(len(w.pass.series)), Name: name,
	}
	if row.Labels, err = spellLabels(s.labels); err != nil {
		return err
	}
	if w.pass.spelled.take(int64(len(name)+len(row.Labels))+seriesBytes) != nil {
		return errTooManySeries
	}
	for it := s.Iterator(minTime, math.MaxInt64); it.Next() == chunkenc.ValFloat; row.Samples++ {
		t, v := it.At()
		if row.Samples == 0 {
			row.StartTime = t
		}
		if row.EndTime = t; w.pass.rows+row.Samples >= w.pass.maxRows {
			return errTooManyRows
		}
		if w.rows = append(w.rows, sampleRow{w.pass.session.Name, row.Series, t, v}); len(w.rows) == cap(w.rows) {
			if _, err := w.out.Write(w.rows); err != nil {
				return err
			}
			if w.rows = w.rows[:0]; ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	w.pass.series = append(w.pass.series, row)
	w.pass.rows += row.Samples
	return nil
}

// spellLabels writes labels without the name as JSON.
func spellLabels(l labels.Labels) (string, error) {
	byName := l.Map()
	delete(byName, model.MetricNameLabel)
	text, err := json.Marshal(byName)
	return string(text), err
}

// seriesTable returns the table of series as a Parquet file, whose footer has the facts about the index.
func (p *indexPass) seriesTable() ([]byte, error) {
	facts, err := json.Marshal(p.facts)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	options := []parquet.WriterOption{parquet.CreatedBy("rayhistory", "", ""),
		parquet.KeyValueMetadata(indexFactsKey, string(facts))}
	out := parquet.NewGenericWriter[seriesRow](&buf, options...)
	if _, err := out.Write(p.series); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
