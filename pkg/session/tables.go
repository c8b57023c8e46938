package session

import (
	"bytes"
	"context"
	"fmt"

	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// Index is where the tables of sessions may lie ready, so that events need not be replayed.
type Index interface {
	// Open gives the tables of a session that were made of just these sources, or else, with another Fingerprint and a Checkpoint, those that
	// were made when other objects were stored; nil if there are none. Indexes that cannot be used are none; errors are ctx's only.
	Open(ctx context.Context, ref layout.Session, sources Sources) (*Tables, error)
	// Reject tells that tables that Open gave turned out to be damaged: it does not give them again.
	Reject(ref layout.Session, fingerprint string, reason error)
}

// Sources are the stored objects that a session's tables were made of.
type Sources struct {
	// Fingerprint changes with them: it covers keys, sizes and ETags of events, snapshots and facts, and the names of logs. It is empty
	// where they were not listed: only an index of a session that had settled when it was made is given then.
	Fingerprint string
	// Index are the objects of an index that were listed with them.
	Index []blob.Object
}

// Tables are all that a session's events tell, in a form to be stored. Logs and snapshots are not among them.
type Tables struct {
	Fingerprint string // of the sources they were made of

	Rows   int          // of the task table
	First  []rayid.Task // the task of each group's first row
	Source RowSource

	Texts       [][]byte // without the empty one, which is number 0
	Definitions []Definition
	Profilers   []Profiler
	States      []string // those that Ray 2.60 does not have

	Actors          []Actor
	Nodes           []Node
	Jobs            []Job
	Submissions     []Submission
	Workers         []Worker
	PlacementGroups []PlacementGroup

	Start, End int64
	Warnings   []string
	Damage     int // of them, see Session.Damage

	// Objects are the events that the tables were made of.
	Objects []blob.Object
	// Checkpoint is what Load needs to add to the tables what was stored since, JSON of this package's own; nil if that cannot be done.
	Checkpoint []byte
}

// Definition is what tasks of the same kind have in common, as references to texts.
type Definition struct {
	Kind, Language, Name, Function, Resources, Labels, Fallback, RuntimeEnv, CallSite uint32
	HasCallSite                                                                       bool
	Group                                                                             uint32
}

// Profiler is a process that sent profile events, as references to texts.
type Profiler struct{ Kind, ID, IP uint32 }

// Fingerprint is that of the sources the session was read from.
func (s *Session) Fingerprint() string { return s.fingerprint }

// Tables gives the session's tables.
func (s *Session) Tables() *Tables {
	t := s.Tasks
	out := &Tables{
		Rows: t.n, Source: tableRows{t}, States: t.states.newer(),
		Actors: s.Actors, Nodes: s.Nodes, Jobs: s.Jobs, Submissions: s.Submissions, Workers: s.Workers, PlacementGroups: s.PlacementGroups,
		Start: s.Start, End: s.End, Warnings: s.Warnings, Damage: s.damage, Objects: s.objects(), Checkpoint: s.encodeCheckpoint(),
	}
	if t.paged != nil {
		out.First = t.paged.first
	} else {
		for n := 0; n < t.n; n += GroupRows {
			out.First = append(out.First, t.Row(n, 0).ID())
		}
	}
	for id := 1; id < t.texts.refs.n; id++ {
		out.Texts = append(out.Texts, t.texts.get(textID(id)))
	}
	for id := 1; id < t.defs.n; id++ {
		d := t.defs.at(id)
		out.Definitions = append(out.Definitions, Definition{
			Kind: uint32(d.kind), Language: uint32(d.language), Name: uint32(d.name), Function: uint32(d.function), Resources: uint32(d.resources),
			Labels: uint32(d.labels), Fallback: uint32(d.fallback), RuntimeEnv: uint32(d.runtimeEnv), CallSite: uint32(d.callSite),
			HasCallSite: d.hasCallSite, Group: uint32(d.group),
		})
	}
	for id := 1; id < t.profilers.n; id++ {
		p := t.profilers.at(id)
		out.Profilers = append(out.Profilers, Profiler{uint32(p.kind), uint32(p.id), uint32(p.ip)})
	}
	return out
}

// tableRows gives the rows of a table in memory as an index stores them.
type tableRows struct{ t *Tasks }

// Columns implements RowSource.
func (r tableRows) Columns(g int, _ Part) (*TaskColumns, error) {
	out := newTaskColumns()
	r.t.appendColumns(out, g*GroupRows, min((g+1)*GroupRows, r.t.n))
	return out, r.t.Err()
}

// fromTables makes a session of an index.
func (s *source) fromTables(ctx context.Context, ref layout.Session, inv *inventory, from *Tables) (*Session, error) {
	tables, err := from.interned()
	if err != nil {
		return nil, err
	}
	out := &Session{
		Ref: ref, Logs: inv.logs, Snapshots: inv.snapshots, Foreign: inv.foreign, Ended: inv.ended, Start: from.Start, End: from.End,
		Actors: from.Actors, Nodes: from.Nodes, Jobs: from.Jobs, Submissions: from.Submissions, Workers: from.Workers,
		PlacementGroups: from.PlacementGroups, Warnings: from.Warnings, damage: min(max(0, from.Damage), len(from.Warnings)), source: s, fingerprint: inv.sources.Fingerprint, stored: inv.seal.last,
	}
	jobs, deaths, err := out.ends(ctx, tables.texts)
	if err != nil {
		return nil, err
	}
	out.Tasks = tables.freeze()
	out.Tasks.jobEnds, out.Tasks.deaths = jobs, deaths
	out.Tasks.n, out.Tasks.paged = from.Rows, newPagedRows(from.Source, from.Rows, from.First, from.limits())
	out.Tasks.paged.damaged = func(reason error) { s.opts.Index.Reject(ref, out.fingerprint, reason) }
	s.seal, s.indexed = inv.seal, true
	return out, nil
}

// limits are those of the rows' references.
func (t *Tables) limits() limits {
	return limits{
		texts: len(t.Texts) + 1, definitions: len(t.Definitions) + 1, profilers: len(t.Profilers) + 1,
		states: int(numTaskStates) + len(t.States),
	}
}

// interned puts what rows refer to back under the same numbers.
func (t *Tables) interned() (*taskTables, error) {
	if len(t.First) != (t.Rows+GroupRows-1)/GroupRows || len(t.States) > maxNewStates {
		return nil, fmt.Errorf("%w: %d groups of %d rows", ErrDamaged, len(t.First), t.Rows)
	}
	out := newTaskTables()
	for i, text := range t.Texts {
		if int(out.texts.intern(text)) != i+1 {
			return nil, fmt.Errorf("%w: text %d is not new", ErrDamaged, i+1)
		}
	}
	out.states.more = t.States
	for i, d := range t.Definitions {
		for _, ref := range []uint32{d.Kind, d.Language, d.Name, d.Function, d.Resources, d.Labels, d.Fallback, d.RuntimeEnv, d.CallSite, d.Group} {
			if int(ref) > len(t.Texts) {
				return nil, fmt.Errorf("%w: definition %d", ErrDamaged, i+1)
			}
		}
		id := out.defs.intern(definition{
			kind: textID(d.Kind), language: textID(d.Language), name: textID(d.Name), function: textID(d.Function), resources: textID(d.Resources),
			labels: textID(d.Labels), fallback: textID(d.Fallback), runtimeEnv: textID(d.RuntimeEnv), callSite: textID(d.CallSite),
			hasCallSite: d.HasCallSite, group: textID(d.Group),
		})
		if int(id) != i+1 {
			return nil, fmt.Errorf("%w: definition %d is not new", ErrDamaged, i+1)
		}
	}
	for i, p := range t.Profilers {
		if max(int(p.Kind), int(p.ID), int(p.IP)) > len(t.Texts) {
			return nil, fmt.Errorf("%w: profiler %d", ErrDamaged, i+1)
		}
		if id := out.profilers.intern(profiler{kind: textID(p.Kind), id: textID(p.ID), ip: textID(p.IP)}); int(id) != i+1 {
			return nil, fmt.Errorf("%w: profiler %d is not new", ErrDamaged, i+1)
		}
	}
	for i := 1; i < len(t.First); i++ {
		if bytes.Compare(t.First[i-1][:], t.First[i][:]) > 0 {
			return nil, fmt.Errorf("%w: its groups are not in order", ErrDamaged)
		}
	}
	return out, nil
}

// newer lists the states that Ray 2.60 does not have.
func (t *taskStates) newer() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return append([]string(nil), t.more...)
}

// Indexed says that the tables come from an index.
func (s *Session) Indexed() bool { return s.source.indexed }
