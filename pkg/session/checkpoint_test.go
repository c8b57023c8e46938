package session

import (
	"context"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// heldIndex is the tables of a session as they were once.
type heldIndex struct {
	t      *testing.T
	tables *Tables
}

func (h heldIndex) Open(context.Context, layout.Session, Sources) (*Tables, error) {
	return h.tables, nil
}

func (h heldIndex) Reject(_ layout.Session, _ string, reason error) {
	h.t.Errorf("rejected: %v", reason)
}

// TestCheckpointInPasses: wherever passes over an index begin and end, no row is lost and none is there twice.
func TestCheckpointInPasses(t *testing.T) {
	const tasks = 3*GroupRows - 100
	var text strings.Builder
	for n := range tasks {
		text.WriteString(definitionEvent(n) + "\n" + finishedEvent(n) + "\n")
	}
	b := newBucket()
	b.objects[testWhole] = []byte(text.String())
	want := loadBucket(t, b)
	b.objects[layout.ChunkKey(testWhole, int64(text.Len()), layout.Plain)] = []byte(lines(tasks, tasks+1))
	for room := int64(6 << 20); room < 16<<20; room += 1 << 20 {
		got, err := Load(t.Context(), b, layout.DefaultRoot, testSession, Options{
			Index: heldIndex{t, want.Tables()}, Concurrency: 1, Room: func(held int64) bool { return held <= room },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.Tasks.InMemory() || got.Tasks.Len() != tasks+1 || got.source.counts.Events != 2*tasks+2 {
			t.Fatalf("room for %d bytes: rows in memory: %v; %d rows, want %d; %d events", room, got.Tasks.InMemory(), got.Tasks.Len(), tasks+1, got.source.counts.Events)
		}
		for n, m := 0, 0; n < want.Tasks.Len(); n, m = n+1, m+1 {
			if got.Tasks.Row(m, 0).ID() == taskID(tasks) {
				m++
			}
			if x, y := got.Tasks.Row(m, 0), want.Tasks.Row(n, 0); x.ID() != y.ID() || x.State() != y.State() || string(x.Name()) != string(y.Name()) {
				t.Fatalf("room for %d bytes: row %d is %s, %s, want %s, %s", room, m, x.ID(), x.State(), y.ID(), y.State())
			}
		}
	}
}
