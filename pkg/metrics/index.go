package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"sort"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// metricsIndex answers from a session's metrics as Parquet: a query reads the row groups that have its series, and
// keeps nothing. Safe for concurrent use.
type metricsIndex struct {
	store    blob.Reader
	samples  *tablefile.Table
	key      string // of the samples
	columns  struct{ time, value int }
	groups   []int64 // the first row of each row group, and at the end the number of rows
	rows     []int64 // the first sample of each series, and at the end their number
	names    [][]byte
	labels   [][]byte // as JSON
	metrics  []samples.Metric
	bytes    int64
	maxBytes int64
}

// errStaleIndex says that an index was made from other chunks, or by another version.
var errStaleIndex = errors.New("not of the metrics that are stored now")

// openIndex opens a session's index of metrics with a fingerprint; nil if there is no valid one. An error says why the
// existing index cannot be used. It takes at most maxBytes of memory.
func openIndex(
	ctx context.Context, store blob.Reader, root string, ref layout.Session, fingerprint string, maxBytes int64,
) (*metricsIndex, error) {
	x := &metricsIndex{store: store, key: layout.IndexKey(root, ref, samplesTable), maxBytes: maxBytes}
	key := layout.IndexKey(root, ref, seriesTable)
	err := guard.CatchPanic(key, func() error { return x.readTables(ctx, key, fingerprint) })
	switch {
	case err == nil:
		return x, nil
	case errors.Is(err, os.ErrNotExist), errors.Is(err, errStaleIndex):
		return nil, nil
	}
	return nil, err
}

// readTables reads the list of series, the table with this key, and the footer of the samples. It returns errStaleIndex
// if the index is of another version, or was made of objects with another fingerprint.
func (x *metricsIndex) readTables(ctx context.Context, key, fingerprint string) error {
	free := newAllowance(x.maxBytes)
	series, err := x.openTable(ctx, key, free)
	if err != nil {
		return err
	}
	text, _ := series.Lookup(indexFactsKey)
	if err := free.take(4 * int64(len(text))); err != nil { // about what its JSON takes when it is decoded
		return err
	}
	var facts indexFacts
	if err := json.Unmarshal([]byte(text), &facts); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if facts.Version != indexVersion || facts.Fingerprint != fingerprint {
		return errStaleIndex
	}
	x.metrics = facts.Metrics
	if err := x.readSeries(ctx, series); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	free.giveBack(series.KeepFooter()) // the rest of the table is not needed any more
	if x.samples, err = x.openTable(ctx, x.key, free); err != nil {
		return err
	}
	free.giveBack(x.samples.KeepFooter())
	if err := x.prepareSamples(facts); err != nil {
		return fmt.Errorf("%s: %w", x.key, err)
	}
	x.bytes = x.maxBytes - free.left.Load()
	return nil
}

// openTable is a table that is stored under a key.
func (x *metricsIndex) openTable(ctx context.Context, key string, free *allowance) (*tablefile.Table, error) {
	object, err := x.store.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	return tablefile.Source{Key: key, Size: object.Size, Take: free.take,
		Read: func(ctx context.Context, offset, length int64) ([]byte, error) {
			return blob.ReadRange(ctx, x.store, key, offset, length)
		}}.Open(ctx)
}

var errIndexForm = errors.New("not the tables of an index of metrics")

// readSeries reads the names and labels of all series, sorted by name, and in which rows of the samples each has its
// own: series i has those from x.rows[i] up to, without, x.rows[i+1].
func (x *metricsIndex) readSeries(ctx context.Context, t *tablefile.Table) error {
	if err := t.ReadAll(ctx); err != nil {
		return err
	}
	var err error
	if x.names, err = t.Texts("name"); err != nil {
		return err
	}
	if x.labels, err = t.Texts("labels"); err != nil {
		return err
	}
	counts, err := t.Int64s("samples")
	if err != nil {
		return err
	}
	x.rows = make([]int64, 1, len(counts)+1)
	for _, n := range counts {
		last := x.rows[len(x.rows)-1]
		if n < 0 || n > math.MaxInt32-last {
			return errIndexForm
		}
		x.rows = append(x.rows, last+n)
	}
	if !slices.IsSortedFunc(x.names, slices.Compare) {
		return errIndexForm
	}
	return nil
}

// prepareSamples checks that the table of samples is the one that the table of series belongs to, and notes its columns
// and the rows of its groups. The columns of times and values must follow each other, and there must be as many rows as
// the series have.
func (x *metricsIndex) prepareSamples(facts indexFacts) error {
	f := x.samples
	if generation, _ := f.Lookup(generationKey); generation != facts.Generation {
		return errIndexForm
	}
	x.columns.time, x.columns.value = f.ColumnIndex("time"), f.ColumnIndex("value")
	if x.columns.time < 0 || x.columns.value != x.columns.time+1 || int64(f.Rows) != x.rows[len(x.rows)-1] {
		return errIndexForm
	}
	x.groups = make([]int64, 1, len(f.Groups)+1)
	for _, g := range f.Groups {
		x.groups = append(x.groups, x.groups[len(x.groups)-1]+int64(g.Rows))
	}
	return nil
}

// findSeries returns the series that a selection matches, in the order of the index. Like findNumbers of a dictionary
// it looks at ctx before each.
func (x *metricsIndex) findSeries(ctx context.Context, s Selection) (found []foundSeries, err error) {
	for from := 0; from < len(x.names); {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		name := x.names[from]
		// The series of one name follow each other.
		to := from + sort.Search(len(x.names)-from,
			func(i int) bool { return slices.Compare(x.names[from+i], name) > 0 })
		matches, err := s.matchesName(string(name))
		if err != nil {
			return nil, err
		}
		if matches {
			for i := from; i < to; i++ {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				l, err := parseLabels(string(name), x.labels[i])
				if err != nil {
					return nil, err
				}
				if x.rows[i] == x.rows[i+1] { // it has no samples
					continue
				}
				if matches, err := s.matches(l); err != nil {
					return nil, err
				} else if matches {
					found = append(found, foundSeries{labels: l, from: x.rows[i], to: x.rows[i+1]})
				}
			}
		}
		from = to
	}
	return found, nil
}

// foundSeries is a series with its rows in the table of samples.
type foundSeries struct {
	labels   labels.Labels
	from, to int64
}

// parseLabels reads a series' labels from the JSON in the index, which does not have the name.
func parseLabels(name string, text []byte) (labels.Labels, error) {
	byName := make(map[string]string)
	if err := json.Unmarshal(text, &byName); err != nil {
		return labels.EmptyLabels(), fmt.Errorf("labels of %s: %w", name, err)
	}
	byName[model.MetricNameLabel] = name
	return labels.FromMap(byName), nil
}

// selectAll returns the series of each selection, one after the other, with memory from free.
func (x *metricsIndex) selectAll(ctx context.Context, selections []Selection, free *allowance) (found [][]*Series,
	err error) {
	found = make([][]*Series, len(selections))
	err = guard.CatchPanic(x.key, func() error {
		for i, s := range selections {
			matching, err := x.findSeries(ctx, s)
			if err != nil {
				return err
			}
			if found[i], err = x.samplesOf(ctx, matching, s.Mint, s.Maxt, free); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// samplesOf reads the samples of series, several row groups at the same time, with memory from free. Both the row
// groups and the series are in the order of their rows, so each row group is read once. Series without samples from
// mint to maxt (Unix milliseconds) are left out.
func (x *metricsIndex) samplesOf(ctx context.Context, found []foundSeries, mint, maxt int64,
	free *allowance) (series []*Series, err error) {
	gathered := &gatherer{mint: mint, maxt: maxt, free: free}
	for batch := range slices.Chunk(x.groupsOf(found), runtime.GOMAXPROCS(0)) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		read, taken, err := x.readGroups(ctx, batch, free)
		if err != nil {
			return nil, err
		}
		for i, g := range batch {
			first, end := x.groups[g], x.groups[g+1]
			for len(found) > 0 && found[0].from < end {
				s := &found[0]
				from, to := max(s.from, first), min(s.to, end)
				if err := gathered.addRows(read[i].times[from-first:to-first],
					read[i].values[from-first:to-first]); err != nil {
					return nil, err
				}
				if s.to > end {
					break // it continues in the next row group
				}
				if done := gathered.finishSeries(s.labels); done != nil {
					if err := free.take(done.memoryBytes()); err != nil {
						return nil, err
					}
					series = append(series, done)
				}
				found = found[1:]
			}
		}
		free.giveBack(taken)
	}
	return series, nil
}

// readGroups reads row groups at the same time. taken is the memory that they take from free until it is given back;
// after an error it is not, because the query ends.
func (x *metricsIndex) readGroups(ctx context.Context, groups []int, free *allowance) (read []groupRows, taken int64,
	err error) {
	for _, g := range groups {
		n := x.groupBytes(g)
		if err := free.take(n); err != nil {
			return nil, 0, err
		}
		taken += n
	}
	read = make([]groupRows, len(groups))
	parallel, ctx := errgroup.WithContext(ctx)
	for i, g := range groups {
		parallel.Go(func() error {
			return guard.CatchPanic(x.key, func() (err error) {
				read[i], err = x.readGroup(ctx, g)
				return err
			})
		})
	}
	return read, taken, parallel.Wait()
}

// groupsOf returns the numbers of the row groups that have rows of series, in order. The series are in the order of
// their rows.
func (x *metricsIndex) groupsOf(found []foundSeries) (groups []int) {
	for _, s := range found {
		if s.from == s.to {
			continue
		}
		// Group g has the rows from x.groups[g] up to, without, x.groups[g+1].
		g := sort.Search(len(x.groups)-1, func(i int) bool { return x.groups[i+1] > s.from })
		for ; g < len(x.groups)-1 && x.groups[g] < s.to; g++ {
			if len(groups) == 0 || groups[len(groups)-1] != g {
				groups = append(groups, g)
			}
		}
	}
	return groups
}

// groupRows are the times and values of a row group.
type groupRows struct {
	times  []int64
	values []float64
}

// groupBytes returns how many bytes of memory reading row group g takes at most: its rows, and the bytes of both
// columns as they are stored and uncompressed. Sizes that a damaged file claims count as too large for any memory.
func (x *metricsIndex) groupBytes(g int) int64 {
	group := &x.samples.Groups[g]
	n := int64(group.Rows) * indexedRowBytes
	for _, column := range []int{x.columns.time, x.columns.value} {
		c := &group.Chunks[column]
		if c.Plain > math.MaxInt64/4-n {
			return math.MaxInt64
		}
		n += c.Plain + c.To - c.From
	}
	return n
}

// readGroup reads the times and values of row group g, by two requests. Columns that do not have as many rows as the
// group are errIndexForm.
func (x *metricsIndex) readGroup(ctx context.Context, g int) (out groupRows, err error) {
	group := &x.samples.Groups[g]
	times, values := &group.Chunks[x.columns.time], &group.Chunks[x.columns.value]
	for _, c := range []*tablefile.Chunk{times, values} {
		data, err := x.samples.Range(ctx, c.From, c.To)
		if err != nil {
			return out, err
		}
		if c == times {
			out.times, err = c.Int64s(data, make([]int64, 0, group.Rows))
		} else {
			out.values, err = c.Doubles(data, make([]float64, 0, group.Rows))
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", x.key, err)
		}
	}
	if len(out.times) != group.Rows || len(out.values) != group.Rows {
		return out, fmt.Errorf("%s: %w", x.key, errIndexForm)
	}
	return out, nil
}
