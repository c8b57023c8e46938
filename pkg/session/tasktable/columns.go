package tasktable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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

// The columns of the task table as an index stores them, by name. References are numbers in Stored's Strings,
// Definitions and Profilers, from 1.
var (
	// ScanColumns are those that filters and summaries of whole sessions read; CellColumns are all others of 4 bytes.
	ScanColumns = names(scanColumns)
	CellColumns = names(cellColumns)
	TimeColumns = []string{
		"pending_args_avail_ns", "pending_node_assignment_ns", "submitted_to_worker_ns", "running_ns", "finished_ns",
		"stdout_start", "stdout_end", "stderr_start", "stderr_end",
	}
	BlobColumns = []string{"later", "failure", "profile"}
)

// Columns are consecutive rows of the task table, column by column; the outer slices are in the order of the names
// above.
type Columns struct {
	Scan [][]int32
	// The others are nil if only the scan columns were read.
	IDs   []byte // of tasks, rayid.TaskSize bytes each
	Cells [][]int32
	Times [][]int64
	Blobs []Blobs

	profile []eventjson.ProfileEvent // memory that add uses again
}

// Blobs are byte strings: the i-th one is Data[Ends[i-1]:Ends[i]].
type Blobs struct {
	Data []byte
	Ends []uint32
}

// end takes Data with another byte string at its end.
func (b *Blobs) end(data []byte) {
	b.Data = data
	b.Ends = append(b.Ends, uint32(len(data)))
}

// check reports damage, unless these are rows byte strings that follow one another.
func (b *Blobs) check(rows int) error {
	if len(b.Ends) != rows || !slices.IsSorted(b.Ends) || rows > 0 && int64(b.Ends[rows-1]) > int64(len(b.Data)) {
		return fmt.Errorf("%w: a column of %d byte strings, want %d", ErrDamaged, len(b.Ends), rows)
	}
	return nil
}

// At returns the i-th byte string.
func (b *Blobs) At(i int) []byte {
	var from uint32
	if i > 0 {
		from = b.Ends[i-1]
	}
	return b.Data[from:b.Ends[i]]
}

// intColumn is a column of 4 bytes or less.
type intColumn struct {
	name string
	get  func(p *page, i int) int32
	set  func(p *page, values []int32)
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

func column[T ~int32 | ~uint32 | ~uint16 | ~uint8](name string, kind refKind, of func(*page) *[pageRows]T) intColumn {
	return intColumn{
		name: name, kind: kind,
		get: func(p *page, i int) int32 { return int32(of(p)[i]) },
		set: func(p *page, values []int32) {
			for i, v := range values {
				of(p)[i] = T(v)
			}
		},
	}
}

var scanColumns = []intColumn{
	{
		name: "job",
		get:  func(p *page, i int) int32 { return int32(binary.LittleEndian.Uint32(p.job[i][:])) },
		set: func(p *page, values []int32) {
			for i, v := range values {
				binary.LittleEndian.PutUint32(p.job[i][:], uint32(v))
			}
		},
	},
	column("definition", definitionRefs, func(p *page) *[pageRows]defID { return &p.def }),
	column("repr_name", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.reprName }),
	column("flags", noRef, func(p *page) *[pageRows]rowFlags { return &p.flags }),
	column("state", stateRefs, func(p *page) *[pageRows]taskstate.State { return &p.final }),
}

var cellColumns = []intColumn{
	column("attempt", noRef, func(p *page) *[pageRows]int32 { return &p.attempt }),
	column("parent", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.parent }),
	column("actor", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.actor }),
	column("node", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.node }),
	column("worker", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.worker }),
	column("pid", noRef, func(p *page) *[pageRows]int32 { return &p.pid }),
	column("stdout_file", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.stdoutFile }),
	column("stderr_file", stringRefs, func(p *page) *[pageRows]stringtable.ID { return &p.stderrFile }),
	column("profiler", profilerRefs, func(p *page) *[pageRows]profilerID { return &p.profiler }),
}

func names(columns []intColumn) []string {
	all := make([]string, len(columns))
	for i := range columns {
		all[i] = columns[i].name
	}
	return all
}

// timeColumns are the columns of 8 bytes, in the order of TimeColumns.
func (c *pageCells) timeColumns() [numCommonStates + 4]*[pageRows]int64 {
	all := [...]*[pageRows]int64{numCommonStates: &c.stdoutStart, &c.stdoutEnd, &c.stderrStart, &c.stderrEnd}
	for i := range c.times {
		all[i] = &c.times[i]
	}
	return all
}

func newColumns() *Columns {
	return &Columns{
		Scan: make([][]int32, len(scanColumns)), Cells: make([][]int32, len(cellColumns)),
		Times: make([][]int64, len(TimeColumns)),
		Blobs: make([]Blobs, len(BlobColumns)),
	}
}

// clear removes all rows and keeps their memory.
func (c *Columns) clear() {
	for i := range c.Scan {
		c.Scan[i] = c.Scan[i][:0]
	}
	c.IDs = c.IDs[:0]
	for i := range c.Cells {
		c.Cells[i] = c.Cells[i][:0]
	}
	for i := range c.Times {
		c.Times[i] = c.Times[i][:0]
	}
	for i := range c.Blobs {
		c.Blobs[i] = Blobs{Data: c.Blobs[i].Data[:0], Ends: c.Blobs[i].Ends[:0]}
	}
}

func (c *Columns) rows() int { return len(c.Scan[0]) }

func (c *Columns) blobBytes() (n int) {
	for i := range c.Blobs {
		n += len(c.Blobs[i].Data)
	}
	return n
}

// add copies a row.
func (c *Columns) add(r Row) {
	i := int(r.i)
	for k := range scanColumns {
		c.Scan[k] = append(c.Scan[k], scanColumns[k].get(r.p, i))
	}
	state, _ := r.state()
	c.Scan[len(scanColumns)-1][c.rows()-1] = int32(state) + 1
	for k := range cellColumns {
		c.Cells[k] = append(c.Cells[k], cellColumns[k].get(r.p, i))
	}
	for k, times := range r.p.timeColumns() {
		c.Times[k] = append(c.Times[k], times[i])
	}
	c.IDs = append(c.IDs, r.p.id[i][:]...)
	later, failed, profile := &c.Blobs[0], &c.Blobs[1], &c.Blobs[2]
	later.end(r.appendLater(later.Data))
	failed.end(r.appendFailure(failed.Data))
	if r.p.profile[i] != 0 {
		c.profile = r.arenas().profileEvents(c.profile[:0], &r.t.strings, r.p.profile[i])
		profile.Data = appendProfiles(profile.Data, c.profile)
	}
	profile.end(profile.Data)
}

// appendLater appends the transitions that have no column, each as a byte for the state and a varint for the time.
func (r Row) appendLater(b []byte) []byte {
	if r.p.rest[r.i] == 0 {
		return b
	}
	for _, tr := range r.later() {
		b = binary.AppendVarint(append(b, byte(tr.state)), tr.time)
	}
	return b
}

// appendFailure appends the attempt's error, if it has one: the type's string ID, when it failed, and the message.
func (r Row) appendFailure(b []byte) []byte {
	if r.p.failure[r.i] == 0 {
		return b
	}
	a := r.arenas()
	f := a.failures.At(int(r.p.failure[r.i] - 1))
	b = binary.AppendVarint(binary.AppendUvarint(b, uint64(f.kind)), f.time)
	return append(b, a.bytes.Get(f.text, int(f.length))...)
}

// ErrDamaged says that an index cannot be read or that its tables contradict each other.
var ErrDamaged = errors.New("the index is damaged")

// ErrOutdated says that an index was made of other objects than are stored now.
var ErrOutdated = errors.New("the index is out of date: it was not made from what is stored now")

// limits are the numbers of values that columns may refer to. A larger reference is damage.
type limits struct {
	strings, definitions, profilers, states int
}

func (l limits) of(k refKind) int {
	switch k {
	case stringRefs:
		return l.strings
	case definitionRefs:
		return l.definitions
	case profilerRefs:
		return l.profilers
	case stateRefs:
		return l.states + 1
	}
	return 1 << 32
}

// fill copies columns of 4 bytes into pages and checks their references.
func (l limits) fill(pages []*page, columns []intColumn, values [][]int32) error {
	if len(values) != len(columns) {
		return fmt.Errorf("%w: %d columns, want %d", ErrDamaged, len(values), len(columns))
	}
	for c := range columns {
		limit := l.of(columns[c].kind)
		for _, v := range values[c] {
			if columns[c].kind != noRef && int(uint32(v)) >= limit {
				return fmt.Errorf("%w: %s %d of %d", ErrDamaged, columns[c].name, v, limit)
			}
		}
		for p := range pages {
			columns[c].set(pages[p], chunkOf(values[c], p, pageRows))
		}
	}
	return nil
}

// chunkOf returns the k-th chunk of values, such as a page's of a group's column.
func chunkOf[T any](values []T, k, size int) []T {
	return values[k*size : min(len(values), (k+1)*size)]
}

// check reports damage, unless these are the columns of part, of so many rows.
func (c *Columns) check(rows int, part Part) error {
	cells, times, blobs := 0, 0, 0
	if part != ScanPart {
		cells, times, blobs = part.Cells(), part.Times(), part.Blobs()
	}
	if len(c.Scan) != len(scanColumns) || len(c.Cells) < cells || len(c.Times) < times || len(c.Blobs) < blobs {
		return fmt.Errorf("%w: columns are missing", ErrDamaged)
	}
	for _, values := range slices.Concat(c.Scan, c.Cells[:cells]) {
		if len(values) != rows {
			return fmt.Errorf("%w: a column of %d values, want %d", ErrDamaged, len(values), rows)
		}
	}
	for _, values := range c.Times[:times] {
		if len(values) != rows {
			return fmt.Errorf("%w: a column of %d times, want %d", ErrDamaged, len(values), rows)
		}
	}
	if part != ScanPart && len(c.IDs) != rows*rayid.TaskSize {
		return fmt.Errorf("%w: columns are missing", ErrDamaged)
	}
	for i := range c.Blobs[:blobs] {
		if err := c.Blobs[i].check(rows); err != nil {
			return err
		}
	}
	return nil
}

// fillBlobs decodes the byte strings of rows, or those of PlacePart, into arenas of their pages.
func (l limits) fillBlobs(pages []*page, blobs []Blobs, rows int) error {
	arenas := new(arenas)
	for p := range pages {
		pages[p].arenas = arenas
	}
	for n := range rows {
		if err := l.fillBlob(pages[n>>pageBits].pageCells, n&(pageRows-1), arenas, blobs, n); err != nil {
			return err
		}
	}
	return nil
}

func (l limits) fillBlob(cells *pageCells, i int, arenas *arenas, blobs []Blobs, n int) error {
	cells.rest[i], cells.failure[i], cells.profile[i] = 0, 0, 0
	for later := blobs[0].At(n); len(later) > 0; {
		time, size := binary.Varint(later[1:])
		if size <= 0 || int(later[0]) >= l.states {
			return fmt.Errorf("%w: a transition cannot be read", ErrDamaged)
		}
		cells.rest[i] = uint32(arenas.transitions.Add(laterTransition{time: time, next: cells.rest[i],
			state: taskstate.State(later[0])})) + 1
		later = later[1+size:]
	}
	if len(blobs) == PlacePart.Blobs() {
		return nil
	}
	if failed := blobs[1].At(n); len(failed) > 0 {
		kind, size := binary.Uvarint(failed)
		if size <= 0 || kind >= uint64(l.strings) {
			return fmt.Errorf("%w: an error cannot be read", ErrDamaged)
		}
		time, more := binary.Varint(failed[size:])
		if more <= 0 {
			return fmt.Errorf("%w: an error has no time", ErrDamaged)
		}
		text := failed[size+more:]
		f := failure{time: time, kind: stringtable.ID(kind), text: arenas.bytes.Put(text), length: uint32(len(text))}
		cells.failure[i] = uint32(arenas.failures.Add(f)) + 1
	}
	if profile := blobs[2].At(n); len(profile) > 0 {
		for rest, before, e := profile, int64(0), (eventjson.ProfileEvent{}); len(rest) > 0; {
			var ok bool
			if rest, before, ok = readProfile(rest, before, &e); !ok ||
				int64(max(e.Name, e.Extra)) >= int64(l.strings) {
				return fmt.Errorf("%w: a profile event cannot be read", ErrDamaged)
			}
		}
		cells.profile[i] = arenas.putProfile(0, profile)
	}
	return nil
}
