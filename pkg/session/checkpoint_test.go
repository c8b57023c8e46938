package session

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// heldIndex is the tables of a session as they were once.
type heldIndex struct {
	t      *testing.T
	tables *Tables
}

func (h heldIndex) Open(context.Context, layout.Session, Sources, func(int64) bool) (*Tables, error) {
	return h.tables, nil
}

func (h heldIndex) Reject(_ layout.Session, _ string, reason error) {
	h.t.Errorf("rejected: %v", reason)
}

// TestCheckpointInRuns: wherever runs of an index's rows end, no row is lost and none is there twice.
func TestCheckpointInRuns(t *testing.T) {
	const tasks = 3*tasktable.GroupRows - 100
	var text strings.Builder
	for n := range tasks {
		text.WriteString(definitionEvent(n) + "\n" + finishedEvent(n) + "\n")
	}
	b := newBucket()
	b.objects[testWhole] = []byte(text.String())
	want := loadBucket(t, b)
	b.objects[layout.ChunkKey(testWhole, int64(text.Len()), layout.Plain)] = []byte(lines(tasks, tasks+1))
	more := int64(1 << 20)
	if race.Enabled {
		more = 4 << 20
	}
	for room := int64(6 << 20); room < 16<<20; room += more {
		got := must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{
			Index: heldIndex{t, want.Tables()}, Concurrency: 1, Reserve: func(held int64) bool { return held <= room },
		}))(t)
		if got.Tasks.InMemory() || got.Tasks.Len() != tasks+1 || got.source.counts.Events != 2*tasks+2 {
			t.Fatalf("room for %d bytes: rows in memory: %v; %d rows, want %d; %d events", room, got.Tasks.InMemory(),
				got.Tasks.Len(), tasks+1, got.source.counts.Events)
		}
		for n, m := 0, 0; n < want.Tasks.Len(); n, m = n+1, m+1 {
			if got.Tasks.Row(m, 0).ID() == taskID(tasks) {
				m++
			}
			x, y := got.Tasks.Row(m, 0), want.Tasks.Row(n, 0)
			must.True(t, x.ID() == y.ID() && x.State() == y.State() && string(x.Name()) == string(y.Name()),
				"room for %d bytes: row %d is %s, %s, want %s, %s", room, m, x.ID(), x.State(), y.ID(), y.State())
		}
	}
}

// damagedRows are rows of which some bytes are not what they were.
type damagedRows struct {
	tasktable.RowSource
	damage func([]tasktable.Block)
}

func (d damagedRows) Blocks(g int, part tasktable.Part) ([]tasktable.Block, error) {
	blocks, err := d.RowSource.Blocks(g, part)
	if err == nil {
		d.damage(blocks)
	}
	return blocks, err
}

// rejecting is an index that notes why it was rejected.
type rejecting struct {
	tables *Tables
	reason error
}

func (r *rejecting) Open(context.Context, layout.Session, Sources, func(int64) bool) (*Tables, error) {
	return r.tables, nil
}

func (r *rejecting) Reject(_ layout.Session, _ string, reason error) { r.reason = reason }

// TestDamagedCheckpoint: from an index that contradicts itself nothing is taken; the events are replayed.
func TestDamagedCheckpoint(t *testing.T) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 300))
	was := loadBucket(t, b)
	b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 300))), layout.Plain)] = []byte(lines(300, 310))
	for name, tt := range map[string]struct {
		damage   func(*Tables)
		rejected bool
	}{
		"nothing": {func(*Tables) {}, false},
		"a byte of the rows": {func(tables *Tables) {
			tables.Source = damagedRows{tables.Source, func(b []tasktable.Block) { b[0][0][len(b[0][0])/2]++ }}
		}, true},
		"a row that is not there": {func(tables *Tables) { tables.Rows++ }, true},
		"a panic": {func(tables *Tables) {
			tables.Source = damagedRows{tables.Source, func([]tasktable.Block) { panic("index out of range") }}
		}, true},
		"no JSON":        {func(tables *Tables) { tables.Checkpoint = tables.Checkpoint[1:] }, true},
		"other entities": {func(tables *Tables) { tables.Nodes = append(tables.Nodes, entities.Node{}) }, true},
		"read too far": {func(tables *Tables) {
			tables.Checkpoint = bytes.Replace(tables.Checkpoint, []byte(`":`+strconv.Itoa(len(lines(0, 300)))),
				[]byte(`":99999999`), 1)
		}, false},
		"read less": {func(tables *Tables) {
			tables.Checkpoint = bytes.Replace(tables.Checkpoint, []byte(`":`+strconv.Itoa(len(lines(0, 300)))),
				[]byte(`":-5`), 1)
		}, false},
		"other objects": {func(tables *Tables) { tables.Objects[0].Size++ }, false},
		"one that's gone": {func(tables *Tables) { tables.Objects = append(tables.Objects, blob.Object{Key: "gone"}) },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			tables := was.Tables()
			tt.damage(tables)
			index := &rejecting{tables: tables}
			got := must.Get(Load(t.Context(), b, layout.DefaultRoot, testSession, Options{Index: index}))(t)
			if all := finished(got); len(all) != 310 || got.source.counts.Events != 620 {
				t.Errorf("%d tasks finished, want 310; %d events, want 620", len(all), got.source.counts.Events)
			}
			told := slices.ContainsFunc(got.Warnings,
				func(w string) bool { return strings.HasPrefix(w, "the session's index was not used") })
			if told != tt.rejected || len(got.Warnings) > 1 || len(got.Damage()) > 0 || len(got.Tables().Warnings) > 0 {
				t.Errorf("warnings %q, of them %d damage, %d for the next index", got.Warnings, len(got.Damage()),
					len(got.Tables().Warnings))
			}
			says.True(t, (index.reason != nil) == tt.rejected && (got.IndexedBytes() > 0) == (name == "nothing"),
				"rejected because %v; %d bytes from the index", index.reason, got.IndexedBytes())
		})
	}
}
