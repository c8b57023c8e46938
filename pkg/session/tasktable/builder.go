package tasktable

import (
	"bytes"
	"cmp"
	"maps"
	"sync"

	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// Builder is the task table while events come in. It is safe for concurrent use.
type Builder struct {
	Strings   *stringtable.Table
	defs      *stringtable.Interned[eventjson.Definition, defID]
	profilers *stringtable.Interned[eventjson.Profiler, profilerID]
	States    *taskstate.Registry
	shards    [numShards]shard

	// Only the shards [begin, end) are kept in this pass; fitting guards both.
	fitting    sync.Mutex
	begin, end int
}

func NewBuilder() *Builder {
	return &Builder{end: numShards, Strings: stringtable.New(),
		defs:      stringtable.NewInterned[eventjson.Definition, defID](),
		profilers: stringtable.NewInterned[eventjson.Profiler, profilerID](), States: taskstate.NewRegistry(nil)}
}

// defID numbers definitions; 0 is none.
type defID uint32

// profilerID numbers profilers; 0 is none.
type profilerID uint32

// compareDefinitions orders definitions by their strings, not by IDs, so that the order does not depend on that of the
// events.
func (t *Builder) compareDefinitions(a, b eventjson.Definition) int {
	text := func(x, y stringtable.ID) int { return bytes.Compare(t.Strings.Get(x), t.Strings.Get(y)) }
	return cmp.Or(text(a.Name, b.Name), text(a.Function, b.Function), text(a.Kind, b.Kind),
		text(a.Language, b.Language),
		text(a.Resources, b.Resources), text(a.Labels, b.Labels), text(a.Fallback, b.Fallback),
		text(a.RuntimeEnv, b.RuntimeEnv),
		text(a.CallSite, b.CallSite), text(a.Group, b.Group))
}

func (t *Builder) compareProfilers(a, b eventjson.Profiler) int {
	return cmp.Or(bytes.Compare(t.Strings.Get(a.Kind), t.Strings.Get(b.Kind)),
		bytes.Compare(t.Strings.Get(a.ID), t.Strings.Get(b.ID)),
		bytes.Compare(t.Strings.Get(a.IP), t.Strings.Get(b.IP)))
}

// Freeze makes a table of the rows. It frees each shard as soon as its rows are copied, so that memory does not double.
func (t *Builder) Freeze() *Table {
	out := &Table{states: t.States, interners: t}
	for i := range t.shards {
		s := &t.shards[i]
		for _, n := range s.order() {
			p, at := s.row(int(n))
			out.add(p, at)
		}
		out.arenas[i], out.paused[i] = s.arenas, s.paused
		s.pages, s.slots, s.n, s.sorted = nil, nil, 0, 0
	}
	out.strings, out.defs, out.profilers = t.Strings.View(), t.defs.View(), t.profilers.View()
	return out
}

// Builder copies the rows back into shards, for more events to be merged.
func (t *Table) Builder() *Builder {
	b := t.interners
	b.begin, b.end = 0, numShards // rows that did not fit may have been dropped before
	for i := range b.shards {
		b.shards[i].shardRows = shardRows{arenas: t.arenas[i], paused: maps.Clone(t.paused[i])}
	}
	for n := range t.n {
		p, i := t.row(n)
		s := &b.shards[shardOf(&p.id[i])]
		q, j := s.find(&p.id[i], p.attempt[i])
		q.copyRow(j, p, i)
		q.forgetDerivedLog(j)
		s.sorted++
	}
	return b
}
