package tasktable

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// storedColumns are rows of a table that a test may change before they are read again. It implements RowSource.
type storedColumns struct{ *columns }

func (s storedColumns) Blocks(int, Part) ([]Block, error) {
	var b Block
	for n := range b {
		var err error
		if b[n], _, err = s.encode(n, nil, nil); err != nil {
			return nil, err
		}
	}
	return []Block{b}, nil
}

// TestDamagedRows: rows that contradict each other or refer to what is not there are told as damage.
func TestDamagedRows(t *testing.T) {
	const idSection, placeSection, restSection = 0, 4, 5
	for name, damage := range map[string]func(c *columns){
		"":                   func(*columns) {},
		"in another order":   func(c *columns) { copy(c.sections[idSection].ids[24:48], c.sections[idSection].ids[48:72]) },
		"another first task": func(c *columns) { c.sections[idSection].ids[0] = 0xff },
		"IDs are missing":    func(c *columns) { c.sections[idSection].ids = c.sections[idSection].ids[24:] },
		"a text that is not there": func(c *columns) {
			c.sections[placeSection].ints[0][7] = 1 << 20
		},
		"a negative reference": func(c *columns) { c.sections[placeSection].ints[1][7] = -1 },
		"a state that is not there": func(c *columns) {
			c.sections[placeSection].blobs[0][0] = 0xff
		},
		"a byte string of less than nothing": func(c *columns) {
			c.sections[restSection].lengths[1][2] = 1 << 31
		},
		"byte strings beyond the end": func(c *columns) { c.sections[restSection].lengths[1][2]++ },
		"bytes of no row":             func(c *columns) { c.sections[restSection].lengths[1][2]-- },
		"profile events without end": func(c *columns) {
			profiles := &c.sections[restSection]
			profiles.blobs[1] = append(profiles.blobs[1], 0x80)
			profiles.lengths[1][len(profiles.lengths[1])-1]++
		},
		"too many rows": func(c *columns) { c.rows++ },
	} {
		b := NewBuilder()
		for n := range 300 {
			u := eventjson.TaskUpdate{Node: b.Strings.Intern([]byte("node")),
				Transitions: []eventjson.Transition{{State: taskstate.Failed, Time: int64(n)}},
				Profile:     []eventjson.ProfileEvent{{Start: 1, End: int64(n)}}}
			binary.BigEndian.PutUint32(u.ID[:], uint32(n))
			b.MergeTask(&u)
		}
		table := b.Freeze()
		table.Finish(Ends{})
		source := storedColumns{newColumns()}
		for n := range table.Len() {
			source.add(table.Row(n, 0))
		}
		damage(source.columns)
		stored := table.Stored()
		stored.Source = source
		restored := must.Get(stored.Builder())(t)
		unreadable, err := restored.Restore(t.Context(), &stored, nil, 0)
		says.True(t, err == nil && errors.Is(unreadable, ErrDamaged) == (name != ""), "%q: read with %v, %v", name,
			unreadable, err)
		if name == "" {
			got, want := tableText(t, restored.Freeze()), tableText(t, table)
			says.True(t, slices.Equal(got, want), "restored %d rows are not the %d stored", len(got), len(want))
		}
	}
}

// TestRowsHaveWhatTheyAnswer: a row of which not all columns are read answers as the whole one, whatever it is asked.
func TestRowsHaveWhatTheyAnswer(t *testing.T) {
	b, random := NewBuilder(), rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b.MergeTask(someUpdate(b, random))
	}
	table := b.Freeze()
	table.Finish(Ends{})
	stored := table.Stored()
	read := func() *Table { return must.Get(stored.Builder())(t).FreezePaged(&stored, Ends{}, func(error) {}) }
	parts, whole := read(), read()
	asked := 0
	check := func(n int, r reflect.Value) {
		for m := range r.NumMethod() {
			name := r.Type().Method(m).Name
			got, want := r.Method(m).Call(nil), reflect.ValueOf(whole.Row(n, AtEnd)).MethodByName(name).Call(nil)
			for i := range got {
				if asked++; !reflect.DeepEqual(got[i].Interface(), want[i].Interface()) {
					t.Errorf("row %d: %s.%s is %v, want %v: read the column that it needs with this part", n,
						r.Type().Name(), name, got[i], want[i])
				}
			}
		}
	}
	must.OK(t, Each(parts, Query{}, func(n int, r RunRow) { check(n, reflect.ValueOf(r)) }))
	must.OK(t, Each(parts, Query{}, func(n int, r PlacedRow) { check(n, reflect.ValueOf(r)) }))
	says.True(t, asked >= 500, "only %d answers", asked)
}

// TestStoredColumns: these are the columns of rows as indexes have them.
func TestStoredColumns(t *testing.T) {
	const want = "task | 0 attempt parent actor | job definition repr_name flags state | 3 4 | node worker 1 text | " +
		"1 2 5 6 7 8 pid stdout_file stderr_file profiler 2 texts"
	var got []string
	for _, s := range sections {
		var columns []string
		if s.ids {
			columns = append(columns, "task")
		}
		for _, at := range s.times { // the number of the state that was entered then, or of an offset
			columns = append(columns, strconv.Itoa(at))
		}
		for _, c := range s.ints {
			columns = append(columns, c.name)
		}
		if n := len(s.blobs); n > 0 {
			columns = append(columns, human.Count(n, "text"))
		}
		got = append(got, strings.Join(columns, " "))
	}
	if got := strings.Join(got, " | "); got != want {
		t.Errorf("the columns of rows are\n%s, and were\n%s\nRaise formatVersion in pkg/session/index/doc.go, and write "+
			"them here", got, want)
	}
}

// TestNumbers: numbers are decoded as they were encoded, whatever they are.
func TestNumbers(t *testing.T) {
	const most = 1<<63 - 1
	for _, values := range [][]int64{{0}, {5, 5, 5}, {-1, 255}, {-most - 1, most, 0}, {1 << 40, 1<<40 + 256}} {
		d := &decoder{rowBuffer: &rowBuffer{}, rows: len(values), data: appendNumbers(nil, values)}
		got, err := readNumbers[int64](d, nil)
		says.True(t, err == nil && slices.Equal(got, values) && len(d.data) == 0, "%d are %d, %v", values, got, err)
		for n := range len(appendNumbers(nil, values)) {
			d := &decoder{rowBuffer: &rowBuffer{}, rows: len(values), data: appendNumbers(nil, values)[:n]}
			if got, err := readNumbers[int64](d, nil); err == nil {
				t.Errorf("%d of the bytes of %d are read as %d", n, values, got)
			}
		}
	}
	for _, values := range [][]int32{{-1, 1<<31 - 1, -1 << 31}, {7, 9, 8}} {
		d := &decoder{rowBuffer: &rowBuffer{}, rows: len(values), data: appendNumbers(nil, values)}
		if got, err := readNumbers[int32](d, nil); err != nil || !slices.Equal(got, values) {
			t.Errorf("%d are %d, %v", values, got, err)
		}
	}
}

// changedSection is a RowSource one section of which has other bytes.
type changedSection struct {
	RowSource
	section int
	plain   []byte
}

func (s changedSection) Blocks(g int, part Part) ([]Block, error) {
	blocks, err := s.RowSource.Blocks(g, part)
	if err != nil {
		return nil, err
	}
	rows, _, _, err := readHeader(blocks[0][s.section])
	if err != nil {
		return nil, err
	}
	blocks[0][s.section], err = compress(nil, rows, s.plain)
	return blocks, err
}

// FuzzRows: whatever a section of an index's rows holds, rows are read or refused.
func FuzzRows(f *testing.F) {
	b := NewBuilder()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b.MergeTask(someUpdate(b, random))
	}
	table := b.Freeze()
	table.Finish(Ends{})
	stored := table.Stored()
	blocks := must.Get(table.Blocks(0, AllParts))(f)
	for s, section := range blocks[0] {
		d := must.Get(newDecoder(section, &rowBuffer{}))(f)
		f.Add(uint8(s), d.data)
	}
	f.Fuzz(func(t *testing.T, section uint8, plain []byte) {
		changed := stored
		changed.Source = changedSection{stored.Source, int(section) % numSections, plain}
		interners := must.Get(changed.Builder())(t)
		got := interners.FreezePaged(&changed, Ends{}, func(error) {})
		for n := range got.Len() {
			r := got.Row(n, 0)
			r.States(nil)
			r.Failure()
			r.LogInfo()
			r.Profile(&Profile{})
		}
		_, _ = got.Summarize(Query{Limit: 10}, false)
		err := got.Err()
		says.True(t, err == nil || errors.Is(err, ErrDamaged), err)
	})
}
