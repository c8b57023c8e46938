package tasktable

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// partsRead is a RowSource that notes which parts are asked for.
type partsRead struct {
	RowSource
	mu    sync.Mutex // groups are read together
	parts map[Part]bool
}

func (r *partsRead) Blocks(g int, part Part) ([]Block, error) {
	r.mu.Lock()
	r.parts[part] = true
	r.mu.Unlock()
	return r.RowSource.Blocks(g, part)
}

// Rows that are read on demand are selected as those in memory are, and filters read no more columns than they need
// where not all can be kept.
func TestFiltersOfStoredRows(t *testing.T) {
	b := NewBuilder()
	names := [][]byte{[]byte("load"), []byte("train"), []byte("save")}
	for n := range 2*GroupRows + 300 {
		var u eventjson.TaskUpdate
		binary.BigEndian.PutUint32(u.ID[:], uint32(n/2)*2654435761) // IDs are in no order
		u.Attempt = int32(n % 2)
		u.Definition = &eventjson.Definition{Kind: b.Strings.Intern([]byte(eventjson.TypeActor)),
			Name: b.Strings.Intern(names[n%7%3])}
		u.Actor = b.Strings.Intern(slices.Repeat([]byte{byte(n%5) + 1}, rayid.ActorSize))
		u.Parent = b.Strings.Intern(slices.Repeat([]byte{byte(n%11) + 1}, rayid.TaskSize))
		u.Node = b.Strings.Intern(slices.Repeat([]byte{byte(n%3) + 1}, rayid.NodeSize))
		u.Transitions = []eventjson.Transition{{State: []taskstate.State{taskstate.Finished, taskstate.Failed}[n%13/12],
			Time: int64(n) + 1}}
		b.MergeTask(&u)
	}
	whole := b.Freeze()
	whole.Finish(Ends{})
	stored := whole.Stored()

	id := func(b byte, size int) string { return hex.EncodeToString(slices.Repeat([]byte{b}, size)) }
	actor := Filter{Key: "actor_id", Value: id(3, rayid.ActorSize), SentLowerCase: true}
	failed := Filter{Key: "state", Value: "failed"}
	for _, test := range []struct {
		name    string
		filters []Filter
		part    Part // that is read of rows that cannot be kept
	}{
		{"state", []Filter{failed}, ScanPart},
		{"actor", []Filter{actor}, LineagePart},
		{"actor and state", []Filter{failed, actor}, LineagePart},
		{"not the parent", []Filter{{Key: "parent_task_id", Value: id(2, rayid.TaskSize), Not: true}}, LineagePart},
		{"attempt", []Filter{{Key: "attempt_number", Value: "1"}, {Key: "name", Value: "TRAIN"}}, LineagePart},
		{"node", []Filter{{Key: "node_id", Value: id(1, rayid.NodeSize)}, actor}, AllParts},
	} {
		q := Query{Filters: test.filters, Limit: 100}
		want := must.Get(whole.Select(q))(t)
		must.True(t, want.Matching != 0 && want.Matching != whole.Len(), "%s: the filter keeps %d of %d rows",
			test.name, want.Matching, whole.Len())
		for _, kept := range []bool{true, false} {
			read := &partsRead{RowSource: stored.Source, parts: map[Part]bool{}}
			from := stored
			from.Source = read
			interners := must.Get(from.Builder())(t)
			paged := interners.FreezePaged(&from, Ends{}, func(reason error) { t.Error(reason) })
			if !kept {
				paged.maxHeld = 0
			}
			got := must.Get(paged.Select(q))(t)
			says.True(t, got.Listed == want.Listed && got.Matching == want.Matching &&
				slices.Equal(got.Rows, want.Rows), "%s, kept %t: %d listed, %d matching, rows %v; want %d, %d, %v",
				test.name, kept, got.Listed, got.Matching, got.Rows, want.Listed, want.Matching, want.Rows)
			says.True(t, kept || len(read.parts) == 1 && read.parts[test.part], "%s: read parts %v, want %v", test.name,
				read.parts, test.part)
		}
	}
}

// Children finds the rows of several parents in one pass, as a filter finds those of each.
func TestChildren(t *testing.T) {
	b := NewBuilder()
	parent := func(k byte) []byte { return slices.Repeat([]byte{k}, rayid.TaskSize) }
	for n := range 3 * GroupRows {
		var u eventjson.TaskUpdate
		binary.BigEndian.PutUint32(u.ID[:], uint32(n)*2654435761)
		u.Definition = &eventjson.Definition{Kind: b.Strings.Intern([]byte("NORMAL_TASK"))}
		u.Parent = b.Strings.Intern(parent(byte(n % 11)))
		b.MergeTask(&u)
	}
	whole := b.Freeze()
	whole.Finish(Ends{})
	stored := whole.Stored()
	read := &partsRead{RowSource: stored.Source, parts: map[Part]bool{}}
	stored.Source = read
	paged := must.Get(stored.Builder())(t).FreezePaged(&stored, Ends{}, func(err error) { t.Error(err) })
	paged.maxHeld = 0

	const most = 40
	absent := string(parent(99))
	got, err := paged.Children([]string{string(parent(2)), string(parent(7)), absent}, most, nil)
	must.True(t, err == nil && len(got) == 3 && len(got[absent]) == 0, "children of %d parents, %d of none, %v",
		len(got), len(got[absent]), err)
	for _, k := range []byte{2, 7} {
		want := must.Get(whole.Select(Query{Limit: most,
			Filters: []Filter{{Key: "parent_task_id", Value: hex.EncodeToString(parent(k))}}}))(t)
		if len(want.Rows) != most || !slices.EqualFunc(want.Rows, got[string(parent(k))],
			func(x int32, y int) bool { return int(x) == y }) {
			t.Errorf("parent %d: rows %v, want %v", k, got[string(parent(k))], want.Rows)
		}
	}
	says.True(t, len(read.parts) == 1 && read.parts[LineagePart], "read parts %v, want only those of lineage",
		read.parts)
	stop := errors.New("stop")
	says.Equal(t, says.Err(paged.Children(nil, most, func() error { return stop })), stop, "stopped")
}

// Filters that fail answer as Ray does, which looks at one row after the other.
func TestNarrowFailsAtTheFirstRow(t *testing.T) {
	failAt := func(row int32) (predicate, error) {
		failed := errors.New("a filter's error")
		return eachRow(func(r Row) (bool, error) {
			if r.i == row {
				return false, failed
			}
			return true, nil
		}), failed
	}
	even := eachRow(func(r Row) (bool, error) { return r.i%2 == 0, nil })
	five, atFive := failAt(5)
	two, atTwo := failAt(2)
	for _, test := range []struct {
		name       string
		predicates []predicate
		kept       []uint8
		err        error
	}{
		{"none", []predicate{even}, []uint8{0, 2, 4, 6}, nil},
		{"at 5", []predicate{five, even}, []uint8{0, 2, 4}, atFive},
		{"at 5, which another filter leaves out", []predicate{even, five}, []uint8{0, 2, 4, 6}, nil},
		{"at 5 by the first filter, at 2 by the second", []predicate{five, two}, []uint8{0, 1}, atTwo},
		{"at 2 by the first filter", []predicate{two, five}, []uint8{0, 1}, atTwo},
	} {
		kept, err := narrow(test.predicates, Row{}, []uint8{0, 1, 2, 3, 4, 5, 6})
		says.True(t, slices.Equal(kept, test.kept) && err == test.err, "%s: %v, %v; want %v, %v", test.name, kept, err,
			test.kept, test.err)
	}
}
