package tasktable

import (
	"bytes"
	"context"
	"fmt"
	"runtime"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Stored is the task table in the form that an index stores.
type Stored struct {
	Rows   int
	First  []rayid.Task // the task of each group's first row
	Source RowSource
	// GroupBytes bounds the uncompressed blocks of any group.
	GroupBytes int64

	Strings     [][]byte // without the empty one, which is number 0
	Definitions []eventjson.Definition
	Profilers   []eventjson.Profiler
	States      []string // those that Ray 2.60 does not have
}

// Stored returns the table in the form that an index stores. Rows, which are many, are read from its Source.
func (t *Table) Stored() Stored {
	out := Stored{Rows: t.n, First: t.first, Source: t.source, States: t.states.Newer()}
	if t.InMemory() {
		out.Source = t
	}
	for id := 1; id < t.strings.Len(); id++ {
		out.Strings = append(out.Strings, t.strings.Get(stringtable.ID(id)))
	}
	for id := 1; id < t.defs.Len(); id++ {
		out.Definitions = append(out.Definitions, *t.defs.At(id))
	}
	for id := 1; id < t.profilers.Len(); id++ {
		out.Profilers = append(out.Profilers, *t.profilers.At(id))
	}
	return out
}

// Blocks implements RowSource for a table in memory: it makes one block of the rows of group g, with the sections of
// part.
func (t *Table) Blocks(g int, part Part) ([]Block, error) {
	c := newColumns()
	for n := g * GroupRows; n < min((g+1)*GroupRows, t.n); n++ {
		c.add(t.Row(n, AtEnd))
	}
	var b Block
	var plain []byte
	for s := range sections {
		if !part.Has(s) {
			continue
		}
		var err error
		if b[s], plain, err = c.encode(s, nil, plain); err != nil {
			return nil, err
		}
	}
	return []Block{b}, nil
}

// limits returns the limits of the references of a table's rows.
func (t *Table) limits() limits {
	return limits{strings: t.strings.Len(), definitions: t.defs.Len(), profilers: t.profilers.Len(),
		states: int(taskstate.Known) + len(t.states.Newer())}
}

// Builder returns a builder without rows, in which strings, definitions and profilers have the same IDs as in the
// stored table. What is not as Table.Stored returns it is ErrDamaged.
func (t *Stored) Builder() (*Builder, error) {
	if t.Rows < 0 || len(t.First) != (t.Rows+GroupRows-1)/GroupRows || len(t.States) > taskstate.MaxNewer {
		return nil, fmt.Errorf("%w: %d groups of %d rows", ErrDamaged, len(t.First), t.Rows)
	}
	out := NewBuilder()
	for i, text := range t.Strings {
		if int(out.Strings.Intern(text)) != i+1 {
			return nil, fmt.Errorf("%w: text %d is not new", ErrDamaged, i+1)
		}
	}
	out.States = taskstate.NewRegistry(t.States)
	if err := restoreShared(out.defs, t.Definitions, len(t.Strings)); err != nil {
		return nil, err
	}
	if err := restoreShared(out.profilers, t.Profilers, len(t.Strings)); err != nil {
		return nil, err
	}
	for i := 1; i < len(t.First); i++ {
		if bytes.Compare(t.First[i-1][:], t.First[i][:]) > 0 {
			return nil, fmt.Errorf("%w: its groups are not in order", ErrDamaged)
		}
	}
	return out, nil
}

// shared is what many tasks refer to by its number.
type shared interface {
	comparable
	Texts() []stringtable.ID
}

// restoreShared gives values the numbers that they had when they were stored, 1 and up in their order. strings is how
// many strings are stored, which bounds the IDs of strings in the values.
func restoreShared[V shared, ID ~uint32](into *stringtable.Interned[V, ID], values []V, strings int) error {
	for i, v := range values {
		for _, text := range v.Texts() {
			if int(text) > strings {
				return fmt.Errorf("%w: %T %d has unknown text", ErrDamaged, v, i+1)
			}
		}
		if int(into.Intern(v)) != i+1 {
			return fmt.Errorf("%w: %T %d is not new", ErrDamaged, v, i+1)
		}
	}
	return nil
}

// FreezePaged returns the table of a Stored, whose rows are read on demand. failed is called if they cannot be read: if
// they turn out to be damaged, with ErrDamaged.
func (t *Builder) FreezePaged(from *Stored, ends Ends, failed func(reason error)) *Table {
	out := t.Freeze()
	out.ends = ends
	out.rows = storedRows(from.Source, from.Rows, from.First, out.limits())
	out.reading, out.rows.failed = from.GroupBytes, failed
	return out
}

// PausedAttempt is an entry of shardRows.paused.
type PausedAttempt struct {
	attemptKey
	Time int64 // Unix nanoseconds
}

// PausedAttempts returns the attempts of which events say whether a debugger paused them.
func (t *Table) PausedAttempts() (all []PausedAttempt) {
	for _, paused := range t.paused {
		for key, latest := range paused {
			all = append(all, PausedAttempt{key, latest.time})
		}
	}
	return all
}

// Restore merges stored rows into the builder, which has no rows yet. Groups are read several at a time, and merged in
// their order. otherBytes is what the load holds besides the table, see SpillIfOverBudget.
//
// damage says why the stored rows cannot be read; the builder must not be used then. err is any other error.
func (t *Builder) Restore(ctx context.Context, from *Stored, paused []PausedAttempt, otherBytes int64) (damage,
	err error) {
	for _, p := range paused {
		s := &t.shards[shardOf(&p.ID)]
		if s.paused == nil {
			s.paused = make(map[attemptKey]pausedAt)
		}
		s.paused[p.attemptKey] = pausedAt{time: p.Time} // restoreRow adds whether it was paused
	}
	stored := storedRows(from.Source, from.Rows, from.First, t.withoutRows().limits())
	ahead, g := runtime.GOMAXPROCS(0), 0
	otherBytes += int64(ahead+2) * groupPages * pageMemory // the groups that are being read
	var last attemptKey
	for pages, err := range inOrder(0, len(from.First), ahead, func(g int, into *rowBuffer) ([]*page, error) {
		return stored.readGroup(g, AllParts, into)
	}) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return err, nil
		}
		for n := range stored.rowsOfGroup(g) {
			p, i := pages[n>>pageBits], n&(pageRows-1)
			next := attemptKey{p.id[i], p.attempt[i]}
			if !last.ID.Nil() && compareAttempts(&last.ID, last.Attempt, &next.ID, next.Attempt) >= 0 {
				return fmt.Errorf("%w: its rows are not in order", ErrDamaged), nil
			}
			t.restoreRow(p, i)
			last = next
		}
		if err := t.SpillIfOverBudget(ctx, otherBytes); err != nil {
			return nil, err
		}
		g++
	}
	return nil, nil
}

// restoreRow merges row i of page p, of a table that refers to the same strings, into its shard. Rows must be restored
// in the order in which Ray lists them.
func (t *Builder) restoreRow(p *page, i int) {
	s := &t.shards[shardOf(&p.id[i])]
	s.mu.Lock()
	defer s.mu.Unlock()
	q, j := s.findOrAdd(&p.id[i], p.attempt[i])
	t.mergeRow(s, q, j, p, i)
	s.sorted++
	if p.flags[i]&isPaused != 0 {
		key := attemptKey{p.id[i], p.attempt[i]}
		if latest, known := s.paused[key]; known { // Restore has set its time; without one the flag alone counts
			s.paused[key] = pausedAt{latest.time, true}
		}
	}
}
