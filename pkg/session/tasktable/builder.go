package tasktable

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Builder is the task table while events come in. It is safe for concurrent use.
type Builder struct {
	// Reserve, if set, says whether a load may hold so many bytes. If it may not, rows are written to a run.
	Reserve func(held int64) bool

	Strings   *stringtable.Table
	defs      *stringtable.Interned[eventjson.Definition, defID]
	profilers *stringtable.Interned[eventjson.Profiler, profilerID]
	States    *taskstate.Registry
	shards    [numShards]shard

	spilling sync.Mutex // guards runs
	runs     []*File    // rows that memory had no room for
}

// NewBuilder makes a builder of a table without rows.
func NewBuilder() *Builder {
	return &Builder{
		Strings: stringtable.New(), States: taskstate.NewRegistry(nil),
		defs:      stringtable.NewInterned[eventjson.Definition, defID](),
		profilers: stringtable.NewInterned[eventjson.Profiler, profilerID](),
	}
}

// defID numbers definitions; 0 is none.
type defID uint32

// profilerID numbers profilers; 0 is none.
type profilerID uint32

// compareDefinitions orders definitions by their strings, not by IDs, so that the order does not depend on that of the
// events.
func (t *Builder) compareDefinitions(a, b eventjson.Definition) int {
	order := t.compareTexts(a.Texts(), b.Texts())
	switch {
	case order != 0 || a.HasCallSite == b.HasCallSite:
		return order
	case a.HasCallSite:
		return 1
	}
	return -1
}

func (t *Builder) compareProfilers(a, b eventjson.Profiler) int {
	return t.compareTexts(a.Texts(), b.Texts())
}

// compareTexts compares two lists of strings by their texts, which all processes order alike, unlike their IDs.
func (t *Builder) compareTexts(a, b []stringtable.ID) int {
	return slices.CompareFunc(a, b, func(a, b stringtable.ID) int {
		return bytes.Compare(t.Strings.Get(a), t.Strings.Get(b))
	})
}

// withoutRows returns a table without rows, with the strings that there are now.
func (t *Builder) withoutRows() *Table {
	return &Table{states: t.States, builder: t, strings: t.Strings.View(), defs: t.defs.View(),
		profilers: t.profilers.View()}
}

// Freeze makes a table of the rows in memory, in the order in which Ray lists them. It frees each shard as soon as its
// rows are copied, so that memory does not double: the builder has no rows then.
func (t *Builder) Freeze() *Table {
	out := t.withoutRows()
	var rows shardRows
	for i := range t.shards {
		taken := out.takeShard(t, i)
		for _, n := range taken.order() {
			q, j := taken.row(int(n))
			p, k := rows.add(&q.id[j], q.attempt[j])
			p.copyRow(k, q, j)
			out.logStartsMissing = out.logStartsMissing || out.rowOf(p, k).logStartMissing()
		}
		taken.free()
		out.paused[i] = taken.paused
	}
	out.rows = rowsInMemory(rows.pages, rows.n)
	return out
}

// Builder returns the builder that the table was made by, with the table's rows, so that events can be added. The rows
// are copied back into its shards. If they are in a File, this file becomes the builder's run, and if memory may not
// hold the copy, they are written to one. The table must not come from an index.
func (t *Table) Builder() (*Builder, error) {
	b := t.builder
	b.runs = nil // of an earlier refresh that failed
	for i := range b.shards {
		b.shards[i].shardRows = shardRows{paused: maps.Clone(t.paused[i])}
	}
	switch {
	case t.source != nil:
		b.runs = []*File{t.source.(*File)}
	case b.Reserve != nil && !b.Reserve(t.MemoryBytes()):
		run, err := newFile()
		if err != nil {
			return nil, err
		}
		for n := range t.n {
			if err := run.add(t.Row(n, AtEnd)); err != nil {
				return nil, err
			}
		}
		b.runs = []*File{run}
		return b, run.complete()
	default:
		for i := range b.shards {
			b.shards[i].arenas = t.arenas[i]
		}
		for n := range t.n {
			p, i := t.row(n)
			s := &b.shards[shardOf(&p.id[i])]
			q, j := s.findOrAdd(&p.id[i], p.attempt[i])
			q.copyRow(j, p, i)
			q.forgetDerivedLog(j)
			s.sorted++ // a table's rows are in order
		}
	}
	return b, nil
}
