package tasktable

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"unsafe"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

func TestProfileEventsAreOrderedAndBounded(t *testing.T) {
	texts := stringtable.New()
	name := texts.Intern([]byte("a"))
	var s shard
	id := rayid.Task{1}
	p, i := s.find(&id, 0)
	var b []eventjson.ProfileEvent
	for n := range 2 * maxProfileEvents {
		e := eventjson.ProfileEvent{Start: int64(n), End: int64(4*maxProfileEvents - n), Name: name}
		b = append(b, e)
	}
	for range 3 {
		s.addProfile(p, i, b)
	}
	// known, but in another event
	s.addProfile(p, i, []eventjson.ProfileEvent{{Start: 5, End: int64(4*maxProfileEvents - 5), Name: name}})
	before := p.profile[i]
	s.addProfile(p, i, b)
	if p.profile[i] != before {
		t.Error("a repeated event was stored again")
	}
	view := texts.View()
	for moment, last := range map[int64]int64{math.MaxInt64: 4 * maxProfileEvents, 3333: 3333} {
		got := s.profileEvents(nil, &view, p.profile[i], moment)
		if len(got) != maxProfileEvents {
			t.Fatalf("%d profile events until %d, want %d", len(got), moment, maxProfileEvents)
		}
		for n, e := range got {
			if want := last - maxProfileEvents + 1 + int64(n); e.End != want || e.Start != 4*maxProfileEvents-want {
				t.Fatalf("event %d until %d is from %d to %d, want one that ends at %d", n, moment, e.Start, e.End, want)
			}
		}
	}
}

// TestFullTablesSaySo: no load goes on with strings that were not stored.
func TestFullTablesSaySo(t *testing.T) {
	tables := NewBuilder()
	if err := tables.Fit(t.Context(), 0); err != nil {
		t.Error(err)
	}
	tables.Strings = stringtable.NewBounded(1)
	for range 2 {
		tables.Strings.Intern(make([]byte, 1<<16))
		tables.Strings.Intern([]byte("new"))
	}
	if err := tables.Fit(t.Context(), 0); !errors.Is(err, errFull) {
		t.Errorf("texts are full: %v", err)
	}
	tables = NewBuilder()
	tables.shards[7].bytes.Full = true
	if err := tables.Fit(t.Context(), 0); !errors.Is(err, errFull) {
		t.Errorf("a shard is full: %v", err)
	}
}

// TestHashesCannotBeChosen: IDs whose parts cancel out in a hash that anybody can work out.
func TestHashesCannotBeChosen(t *testing.T) {
	seen := map[uint32]bool{}
	const n = 10_000
	for i := range uint64(n) {
		var id rayid.Task
		binary.LittleEndian.PutUint64(id[0:], i*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(id[8:], i)
		seen[hashAttempt(&id, 0)] = true
	}
	if len(seen) < n*9/10 {
		t.Errorf("%d IDs have %d hashes", n, len(seen))
	}
}

// TestPausedAreCounted: what is kept besides rows counts as memory as well.
func TestPausedAreCounted(t *testing.T) {
	const n = 10_000
	held := func(flags eventjson.TaskFlags) (building, finished int64) {
		b := NewBuilder()
		for i := range uint64(n) {
			u := eventjson.TaskUpdate{Flags: flags}
			binary.BigEndian.PutUint64(u.ID[:], i)
			b.MergeTask(&u)
		}
		building = b.shared() + b.rowBytes()
		return building, b.Freeze().MemoryBytes()
	}
	building, finished := held(0)
	pausedBuilding, pausedFinished := held(eventjson.HasPaused)
	if least := int64(n * unsafe.Sizeof(attemptKey{})); pausedBuilding-building < least ||
		pausedFinished-finished < least {
		t.Errorf("%d and %d bytes are counted for %d entries, want at least %d", pausedBuilding-building,
			pausedFinished-finished, n, least)
	}
}
