package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/value"
	"golang.org/x/sync/semaphore"

	"github.com/rayhistory/historyserver/internal/cache"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/collector/samples"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// ErrTooMuch says that a query needs more series or samples than may be in memory.
var ErrTooMuch = errors.New("the query reads more metrics than fit in memory: ask for fewer series or a shorter " +
	"time, or raise --max-metrics-memory")

var errTooManySamples = fmt.Errorf("too many samples: %w", ErrTooMuch)

// Database is the metrics of one session, for queries. It keeps what it read in memory, if that fits. Safe for
// concurrent use.
type Database struct {
	store chunks.Store
	list  func(context.Context) ([]Hour, error) // the stored hours
	// listingValid is how long a listing is valid; 0: the session has ended, so for finalListingAge, or until chunks
	// are missing (isListingFinal).
	listingValid time.Duration
	maxBytes     int64
	names        *dictionary

	// openIndex opens the index of the metrics of these hours; it returns nil if there is none. A nil openIndex means
	// that no index is used.
	openIndex func(ctx context.Context, hours []Hour) (*metricsIndex, error)

	listing        *semaphore.Weighted // held while hours are listed and the index is opened
	listed         time.Time
	hours          []Hour
	lookedForIndex time.Time     // for the index of these hours; zero: not yet
	index          *metricsIndex // nil: the hours are read, and the index is looked for again after retryIndex
	unfit          error         // why the existing index could not be used then

	indexBytes atomic.Int64
	interval   shared.Value[time.Duration] // see Interval

	blocks    *cache.Cache[hourKey, loaded]
	keepsNone atomic.Bool // no hours: they do not fit
}

type hourKey struct {
	node  rayid.Node
	start int64
}

// loaded is an hour in memory, made when so many bytes of it were stored.
type loaded struct {
	stored  int64
	block   *block
	damaged []error
	err     error
}

// NewDatabase makes the database of a session whose hours list returns. list is called again after listingValid; 0 is
// for an ended session, of which workers may store their last minute after its end. maxBytes limits the memory for what
// was read.
func NewDatabase(store chunks.Store, list func(context.Context) ([]Hour, error), listingValid time.Duration,
	maxBytes int64) *Database {
	return &Database{
		store: store, list: list, listingValid: listingValid, maxBytes: maxBytes, names: newDictionary(maxBytes / 4),
		listing: semaphore.NewWeighted(1),
		blocks: cache.New[hourKey](math.MaxInt64, cache.Forever, func(l loaded) int64 {
			return l.block.memoryBytes()
		}),
	}
}

// Bytes returns how much memory it takes between queries.
func (d *Database) Bytes() int64 {
	return d.blocks.Cost() + d.names.memoryBytes() + d.indexBytes.Load()
}

// lockListing waits for the listing of others, at most until ctx ends.
func (d *Database) lockListing(ctx context.Context) error {
	if d.listing.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Hours returns the stored hours, in order of time. They are listed again when the last list is too old. After a new
// list the index is looked for again. The list must not be changed.
func (d *Database) Hours(ctx context.Context) ([]Hour, error) {
	if err := d.lockListing(ctx); err != nil {
		return nil, err
	}
	defer d.listing.Release(1)
	valid := cmp.Or(d.listingValid, maxListingAge)
	if d.isListingFinal() {
		valid = finalListingAge
	}
	if !d.listed.IsZero() && time.Since(d.listed) < valid {
		return d.hours, nil
	}
	hours, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	d.hours, d.listed, d.lookedForIndex = hours, time.Now(), time.Time{}
	return hours, nil
}

// isListingFinal says whether the listing has all that is expected to be stored of an ended session. d.listing must be
// held.
func (d *Database) isListingFinal() bool {
	return d.listingValid == 0 && len(d.hours) > 0 && !slices.ContainsFunc(d.hours, func(h Hour) bool {
		return h.stored.Add(lifetime.LateWrites).After(d.listed)
	})
}

// markOutdated makes the next query list the hours again.
func (d *Database) markOutdated(ctx context.Context) error {
	if err := d.lockListing(ctx); err != nil {
		return err
	}
	defer d.listing.Release(1)
	d.listed = time.Time{}
	return nil
}

// retryIndex is how long no index is looked for after there was none, or none that could be read: an ended session gets
// its index after the first query, and stores recover.
const retryIndex = time.Minute

// validIndex returns the index if there is a valid one. Otherwise unfit is why an existing one is not used, nil if
// there is none. It looks for an index once after each new list of hours and, if it has found none, again and again
// after retryIndex.
func (d *Database) validIndex(ctx context.Context) (index *metricsIndex, unfit, err error) {
	hours, err := d.Hours(ctx)
	if err != nil || d.openIndex == nil {
		return nil, nil, err
	}
	if err := d.lockListing(ctx); err != nil {
		return nil, nil, err
	}
	defer d.listing.Release(1)
	if len(hours) > 0 && (d.lookedForIndex.IsZero() || d.index == nil && time.Since(d.lookedForIndex) >= retryIndex) {
		opened, err := d.openIndex(ctx, hours)
		if err != nil && ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		d.setIndex(opened, unfitIndex(err))
	}
	return d.index, d.unfit, nil
}

// abandonIndex stops using the index, which is unfit.
func (d *Database) abandonIndex(ctx context.Context, unfit error) error {
	if err := d.lockListing(ctx); err != nil {
		return err
	}
	defer d.listing.Release(1)
	d.setIndex(nil, unfit)
	return nil
}

// setIndex sets what was found out about the index. d.listing must be held.
func (d *Database) setIndex(index *metricsIndex, unfit error) {
	d.lookedForIndex, d.index, d.unfit = time.Now(), index, unfit
	d.indexBytes.Store(0)
	if index != nil {
		d.indexBytes.Store(index.bytes)
		d.blocks.Clear() // what was read before there was an index
	}
}

func unfitIndex(reason error) error {
	if reason == nil {
		return nil
	}
	return fmt.Errorf("the index of the session's metrics cannot be used; the server reads its chunks: %w", reason)
}

// Select returns the series of each selection, in no order, and the reasons why some could not be read. The series
// count in memory. They are read from the index or, if there is none that can be used, from the hours' chunks. The
// error is ErrTooMuch, the store's or the context's.
func (d *Database) Select(ctx context.Context, memory *QueryMemory, selections ...Selection) (found [][]*Series,
	damaged []error, err error) {
	index, unfit, err := d.validIndex(ctx)
	if err != nil {
		return nil, nil, err
	}
	if index != nil {
		err = d.withQueryMemory(memory, func(free *allowance) error {
			found, err = index.selectAll(ctx, selections, free)
			return err
		})
		if err == nil || errors.Is(err, ErrTooMuch) || ctx.Err() != nil {
			return found, nil, err
		}
		unfit = unfitIndex(err)
		if err = d.abandonIndex(ctx, unfit); err != nil {
			return nil, nil, err
		}
	}
	found, damaged, err = d.selectOfHours(ctx, memory, selections)
	if unfit != nil {
		damaged = append(damaged, unfit)
	}
	return found, damaged, err
}

// selectOfHours is Select from the hours' chunks, which are read once for all selections. If chunks were joined since
// they were listed, they are listed and read once more.
func (d *Database) selectOfHours(ctx context.Context, memory *QueryMemory, selections []Selection) (found [][]*Series,
	damaged []error, err error) {
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range selections {
		mint, maxt = min(mint, s.Mint), max(maxt, s.Maxt)
	}
	limit := max(0, d.maxBytes-memory.bytes) // bytes that the query may still take
	wants := func(name string) bool {
		return slices.ContainsFunc(selections, func(s Selection) bool {
			if ctx.Err() != nil {
				return false
			}
			matches, err := s.matchesName(name)
			return matches || err != nil // findNumbers returns the error
		})
	}
	changeMemory := newAllowance(limit)
	blocks, damaged, err := d.loadHours(ctx, mint, maxt, changeMemory, wants)
	if err == nil && slices.ContainsFunc(damaged, chunks.Changed) { // chunks were joined since they were listed
		if err := d.markOutdated(ctx); err != nil {
			return nil, nil, err
		}
		changeMemory = newAllowance(limit)
		blocks, damaged, err = d.loadHours(ctx, mint, maxt, changeMemory, wants)
	}
	if err != nil {
		return nil, damaged, err
	}
	// What the blocks take that the database does not keep. While they were built, a change took changeBytes.
	own := (limit - changeMemory.left.Load()) * blockChangeBytes / changeBytes
	err = d.withQueryMemory(memory, func(free *allowance) error {
		if err := free.take(own); err != nil {
			return err
		}
		if found, err = d.findInBlocks(ctx, blocks, selections, memory.Copies, free); memory.Copies {
			free.giveBack(own) // copies do not hold the blocks
		}
		return err
	})
	return found, damaged, err
}

// findInBlocks returns the series of each selection that blocks have, and takes their memory from free. They refer to
// the blocks; if copies is set, they are copies that do not.
func (d *Database) findInBlocks(ctx context.Context, blocks hourBlocks, selections []Selection, copies bool,
	free *allowance) ([][]*Series, error) {
	found := make([][]*Series, len(selections))
	for i, selection := range selections {
		numbers, err := d.names.findNumbers(ctx, selection)
		if err != nil {
			return nil, err
		}
		copier := &copier{free: free, times: make(map[*int64][]int64)}
		for _, number := range numbers {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			s := d.collectSeries(number, blocks, selection.Mint, selection.Maxt)
			if s == nil {
				continue
			}
			if err := free.take(s.memoryBytes()); err != nil {
				return nil, err
			}
			if copies {
				if err := copier.copySeries(s); err != nil {
					return nil, err
				}
			}
			found[i] = append(found[i], s)
		}
	}
	return found, nil
}

// Metrics returns what targets say about their metrics (type and help), by name: all of an index, otherwise those of
// the hours that were read so far.
func (d *Database) Metrics(ctx context.Context) (map[string]samples.Metric, error) {
	if err := d.lockListing(ctx); err != nil {
		return nil, err
	}
	index := d.index
	d.listing.Release(1)
	if index != nil {
		metrics := make(map[string]samples.Metric, len(index.metrics))
		for _, m := range index.metrics {
			metrics[m.Name] = m
		}
		return metrics, nil
	}
	d.names.mu.RLock()
	defer d.names.mu.RUnlock()
	return maps.Clone(d.names.metrics), nil
}

// collectSeries collects the parts of the series with a number from the blocks, which are in the order of nodes and
// times, and puts a part with the end of the series where its target was gone: not read again in time. It leaves out
// parts without samples from mint to maxt (Unix milliseconds); nil if there are no others.
func (d *Database) collectSeries(number uint32, hours hourBlocks, mint, maxt int64) *Series {
	key := d.names.seriesOf(number)
	s := &Series{labels: key.labels}
	add := func(p part) {
		if p.times[0] <= maxt && p.times[len(p.times)-1] >= mint {
			s.parts = append(s.parts, p)
		}
	}
	var exposed *blockTarget // of the block before, if that exposed the series at its end
	// endIfGone ends the series if its target was gone before it was read again, at the time next.
	endIfGone := func(next int64) {
		if exposed != nil && exposed.goneAt() < next {
			add(part{times: []int64{exposed.goneAt()}, ended: true})
			exposed = nil
		}
	}
	for i, b := range hours.blocks {
		if i > 0 && b.Node != hours.blocks[i-1].Node {
			endIfGone(hours.until) // no further block is of the node before
			exposed = nil
		}
		target := b.block.targetByID(key.target)
		if target == nil || len(target.times) == 0 {
			continue
		}
		endIfGone(target.times[0])
		p := part{times: target.times}
		p.at, p.values = b.block.changesOf(number)
		// An hour begins with all exposed series: one without a change at its first read is no longer exposed.
		p.ended = exposed != nil && (len(p.at) == 0 || p.at[0] != 0)
		if exposed = nil; len(p.at) > 0 && !value.IsStaleNaN(p.values[len(p.values)-1]) { // its last value is no end
			exposed = target
		}
		if len(p.at) > 0 || p.ended {
			add(p)
		}
	}
	endIfGone(hours.until)
	if len(s.parts) == 0 {
		return nil
	}
	slices.SortStableFunc(s.parts, func(a, b part) int { return cmp.Compare(a.times[0], b.times[0]) })
	return s
}
