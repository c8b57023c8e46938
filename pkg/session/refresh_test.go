package session

import (
	"slices"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestRefreshAfterTheEnd: workers ship their last seconds after the head's collector stored the session's end; who watched sees them.
func TestRefreshAfterTheEnd(t *testing.T) {
	small := func(int64) bool { return false } // no memory: rows go into a file
	for name, room := range map[string]func(int64) bool{"in memory": nil, "in a file": small} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			b.objects[testWhole] = []byte(lines(0, 10))
			log := layout.LogKey(layout.DefaultRoot, testSession, testNode, "worker.out")
			b.objects[log] = []byte("first\n")
			s, err := Load(t.Context(), b, layout.DefaultRoot, testSession, Options{MayHold: room})
			if err != nil {
				t.Fatal(err)
			}
			refresh := func() {
				t.Helper()
				if s, err = s.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			tags := map[string]bool{s.Fingerprint(): true}
			changed := func(what string) {
				t.Helper()
				if refresh(); tags[s.Fingerprint()] {
					t.Errorf("%s: the fingerprint did not change", what)
				}
				tags[s.Fingerprint()] = true
			}
			b.objects[layout.MetadataKey(layout.DefaultRoot, testSession, layout.End)] = []byte("{}")
			changed("the end")
			if !s.Ended {
				t.Fatal("the session has not ended")
			}

			b.objects[layout.LogChunkKey(log, 6, layout.Plain)] = []byte("last\n")
			refresh()
			f, err := s.Logs.Open(t.Context(), testNode, "worker.out")
			if err != nil || f.Size() != 11 {
				t.Errorf("the log has %d bytes (%v), want 11", f.Size(), err)
			}
			b.objects[layout.ChunkKey(testWhole, int64(len(lines(0, 10))), layout.Plain)] = []byte(lines(10, 12))
			changed("late events")
			if got := finished(s); !slices.Equal(got, span(0, 12)) {
				t.Errorf("finished tasks %v, want 0 to 11", got)
			}
			b.objects[layout.SnapshotKey(layout.DefaultRoot, testSession, "/nodes")] = []byte("{}")
			changed("a late snapshot")
			if urls := s.Snapshots.URLs("/nodes"); len(urls) != 1 {
				t.Errorf("snapshots %v, want that of /nodes", urls)
			}
			before := s
			if refresh(); s != before {
				t.Error("a refresh made another session though nothing was stored")
			}
		})
	}
}
