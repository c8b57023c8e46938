package tasktable

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// GroupRows is how many rows of the task table are read from an index at a time.
const (
	GroupRows  = groupPages * pageRows
	groupPages = 128
)

// Part selects columns of the task table, a bit for each of the sections in which they are stored.
type Part uint8

const (
	idPart     Part = 1 << iota // IDs of tasks
	originPart                  // what submitted them, actors, numbers of attempts, and when they were created
	ScanPart                    // what filters and summaries of whole sessions read
	ranPart                     // when attempts began to run and finished
	placePart                   // nodes, workers, and transitions that have no column
	restPart

	numSections = iota
	LineagePart = idPart | originPart | ScanPart  // what lineage needs
	runPart     = originPart | ScanPart | ranPart // what RunRow needs
	placedPart  = ScanPart | ranPart | placePart  // what PlacedRow needs
	AllParts    = 1<<numSections - 1
)

// Has reports whether a part includes a section.
func (p Part) Has(section int) bool { return p>>section&1 != 0 }

// section is columns that are stored together. Neighbours are often read together.
type section struct {
	ids   bool
	ints  []intColumn
	times []int // numbers of timeColumns
	blobs []blobColumn
}

var sections = [numSections]section{
	{ids: true},
	{times: []int{0}, ints: []intColumn{
		column("attempt", noRef, func(p *page) *[pageRows]int32 { return &p.attempt }),
		column("parent", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.parent }),
		column("actor", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.actor }),
	}},
	{ints: []intColumn{
		jobColumn,
		column("definition", definitionRefs, func(p *page) *[pageRows]defID { return &p.def }),
		column("repr_name", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.reprName }),
		column("flags", noRef, func(p *page) *[pageRows]rowFlags { return &p.flags }),
		stateColumn,
	}},
	{times: []int{3, 4}},
	{blobs: []blobColumn{rareColumn}, ints: []intColumn{
		column("node", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.node }),
		column("worker", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.worker }),
	}},
	{times: []int{1, 2, 5, 6, 7, 8}, blobs: []blobColumn{failureColumn, profileColumn}, ints: []intColumn{
		column("pid", noRef, func(p *page) *[pageRows]int32 { return &p.pid }),
		column("stdout_file", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.stdoutFile }),
		column("stderr_file", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.stderrFile }),
		column("profiler", profilerRefs, func(p *page) *[pageRows]profilerID { return &p.profiler }),
	}},
}

// timeColumns are the columns of 8 bytes.
func (c *pageCells) timeColumns() [numCommonStates + 4]*[pageRows]int64 {
	all := [...]*[pageRows]int64{numCommonStates: &c.stdoutStart, &c.stdoutEnd, &c.stderrStart, &c.stderrEnd}
	for i := range c.times {
		all[i] = &c.times[i]
	}
	return all
}

// intColumn is a column of 4 bytes or less.
type intColumn struct {
	name string
	get  func(r Row) int32
	set  func(p *page, i int, values []int32) // from row i on
	kind refKind
}

// refKind says what a column's values refer to.
type refKind uint8

const (
	noRef refKind = iota
	stringRefs
	definitionRefs
	profilerRefs
	stateRefs // number of a state, plus one
)

// column describes a stored column of numbers: its name, what its numbers refer to, and in which array of a page they
// are.
func column[T ~int32 | ~uint32 | ~uint16 | ~uint8](
	name string, kind refKind, array func(*page) *[pageRows]T,
) intColumn {
	return intColumn{
		name: name, kind: kind,
		get: func(r Row) int32 { return int32(array(r.p)[r.i]) },
		set: func(p *page, i int, values []int32) {
			to := array(p)[i:][:len(values)]
			for k, v := range values {
				to[k] = T(v)
			}
		},
	}
}

var jobColumn = intColumn{
	name: "job",
	get:  func(r Row) int32 { return int32(binary.LittleEndian.Uint32(r.p.job[r.i][:])) },
	set: func(p *page, i int, values []int32) {
		for k, v := range values {
			binary.LittleEndian.PutUint32(p.job[i+k][:], uint32(v))
		}
	},
}

// stateColumn has the number of the state at the end plus one; the state is computed if it was not yet.
var stateColumn = func() intColumn {
	c := column("state", stateRefs, func(p *page) *[pageRows]taskstate.State { return &p.final })
	c.get = func(r Row) int32 {
		state, _ := r.state()
		return int32(state) + 1
	}
	return c
}()

// blobColumn is a column of byte strings.
type blobColumn struct {
	references  func(*pageCells) *[pageRows]arenaRef // where the cells refer to
	appendValue func(b []byte, r Row, scratch *[]eventjson.ProfileEvent) []byte
	// decodeInto decodes one that is not empty into arenas, and returns the reference.
	decodeInto func(l limits, a *arenas, blob []byte) (arenaRef, error)
}

// rareColumn has the transitions that have no column, each as a byte for the state and a varint for the time.
var rareColumn = blobColumn{
	references: func(c *pageCells) *[pageRows]arenaRef { return &c.rare },
	appendValue: func(b []byte, r Row, _ *[]eventjson.ProfileEvent) []byte {
		if r.p.rare[r.i] == 0 {
			return b
		}
		for tr := range r.rareTransitions() {
			b = binary.AppendVarint(append(b, byte(tr.state)), tr.time)
		}
		return b
	},
	decodeInto: func(l limits, a *arenas, transitions []byte) (head arenaRef, err error) {
		for len(transitions) > 0 {
			time, size := binary.Varint(transitions[1:])
			if size <= 0 || int(transitions[0]) >= l.states {
				return 0, fmt.Errorf("%w: a transition cannot be read", ErrDamaged)
			}
			head = refTo(a.transitions.Add(rareTransition{time: time, next: head,
				state: taskstate.State(transitions[0])}))
			transitions = transitions[1+size:]
		}
		return head, nil
	},
}

// failureColumn has errors: the type's string ID, when the attempt failed, and the message.
var failureColumn = blobColumn{
	references: func(c *pageCells) *[pageRows]arenaRef { return &c.failure },
	appendValue: func(b []byte, r Row, _ *[]eventjson.ProfileEvent) []byte {
		if r.p.failure[r.i] == 0 {
			return b
		}
		a := r.arenas()
		f := a.failures.At(r.p.failure[r.i].index())
		b = binary.AppendVarint(binary.AppendUvarint(b, uint64(f.kind)), f.time)
		return append(b, a.bytes.Get(f.text, int(f.length))...)
	},
	decodeInto: func(l limits, a *arenas, failed []byte) (arenaRef, error) {
		kind, size := binary.Uvarint(failed)
		if size <= 0 || kind >= uint64(l.strings) {
			return 0, fmt.Errorf("%w: an error cannot be read", ErrDamaged)
		}
		time, more := binary.Varint(failed[size:])
		if more <= 0 {
			return 0, fmt.Errorf("%w: an error has no time", ErrDamaged)
		}
		text := failed[size+more:]
		return refTo(a.failures.Add(failure{time: time, kind: stringtable.ID(kind), text: a.bytes.Put(text),
			length: uint32(len(text))})), nil
	},
}

// profileColumn has profile events, see appendProfiles.
var profileColumn = blobColumn{
	references: func(c *pageCells) *[pageRows]arenaRef { return &c.profile },
	appendValue: func(b []byte, r Row, scratch *[]eventjson.ProfileEvent) []byte {
		if r.p.profile[r.i] == 0 {
			return b
		}
		*scratch = r.arenas().profileEvents((*scratch)[:0], &r.t.strings, r.p.profile[r.i], r.at)
		return appendProfiles(b, *scratch)
	},
	decodeInto: func(l limits, a *arenas, profile []byte) (arenaRef, error) {
		for rest, before, e := profile, int64(0), (eventjson.ProfileEvent{}); len(rest) > 0; {
			var ok bool
			if rest, before, ok = readProfile(rest, before, &e); !ok ||
				int64(max(e.Name, e.Extra)) >= int64(l.strings) {
				return 0, fmt.Errorf("%w: a profile event cannot be read", ErrDamaged)
			}
		}
		return a.putProfile(0, profile), nil
	},
}

// ErrDamaged says that an index cannot be read or that its tables contradict each other.
var ErrDamaged = errors.New("the index is damaged")

// ErrOutdated says that an index was made of other objects than are stored now.
var ErrOutdated = errors.New("the index is out of date: it was not made from what is stored now")

// limits are the numbers of values that columns may refer to. A larger reference is damage.
type limits struct {
	strings, definitions, profilers, states int
}

// limitOf returns the limit of a kind of references: a valid reference is less than it. For any other kind it is 0.
func (l limits) limitOf(k refKind) int {
	return [...]int{
		stringRefs: l.strings, definitionRefs: l.definitions, profilerRefs: l.profilers,
		stateRefs: l.states + 1, // 0 is no state, see stateColumn
	}[k]
}

// checkReferences returns ErrDamaged if a value of a column refers to something that is not there.
func (l limits) checkReferences(c *intColumn, values []int32) error {
	if c.kind == noRef {
		return nil
	}
	limit := l.limitOf(c.kind)
	for _, v := range values {
		if int(uint32(v)) >= limit {
			return fmt.Errorf("%w: %s %d of %d", ErrDamaged, c.name, v, limit)
		}
	}
	return nil
}

// columns are rows to be stored, column by column.
type columns struct {
	rows      int
	blobBytes int
	sections  [numSections]struct {
		ids     []byte // of tasks, rayid.TaskSize bytes each
		ints    [][]int32
		times   [][]int64
		blobs   [][]byte   // those of all rows, one after the other
		lengths [][]uint32 // of each row's
	}

	profile []eventjson.ProfileEvent // scratch
}

// newColumns makes empty columns of all sections.
func newColumns() *columns {
	c := &columns{}
	for s := range sections {
		from, to := &sections[s], &c.sections[s]
		to.ints, to.times = make([][]int32, len(from.ints)), make([][]int64, len(from.times))
		to.blobs, to.lengths = make([][]byte, len(from.blobs)), make([][]uint32, len(from.blobs))
	}
	return c
}

// clear removes all rows and keeps their memory.
func (c *columns) clear() {
	c.rows, c.blobBytes = 0, 0
	for s := range c.sections {
		section := &c.sections[s]
		section.ids = section.ids[:0]
		truncateAll(section.ints)
		truncateAll(section.times)
		truncateAll(section.blobs)
		truncateAll(section.lengths)
	}
}

// truncateAll empties lists and keeps their memory.
func truncateAll[T any](all [][]T) {
	for i := range all {
		all[i] = all[i][:0]
	}
}

// add appends a row's values to the columns of all sections.
func (c *columns) add(r Row) {
	times := r.p.timeColumns()
	for s := range sections {
		from, to := &sections[s], &c.sections[s]
		if from.ids {
			to.ids = append(to.ids, r.p.id[r.i][:]...)
		}
		for k := range from.ints {
			to.ints[k] = append(to.ints[k], from.ints[k].get(r))
		}
		for k, column := range from.times {
			to.times[k] = append(to.times[k], times[column][r.i])
		}
		for k := range from.blobs {
			before := len(to.blobs[k])
			to.blobs[k] = from.blobs[k].appendValue(to.blobs[k], r, &c.profile)
			n := len(to.blobs[k]) - before
			to.lengths[k] = append(to.lengths[k], uint32(n))
			c.blobBytes += n
		}
	}
	c.rows++
}

// firstTask is the task of the first row.
func (c *columns) firstTask() rayid.Task { return rayid.Task(c.sections[0].ids[:rayid.TaskSize]) }
