package session

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestForgedOffset: where a chunk says that it begins makes neither parts nor memory.
func TestForgedOffset(t *testing.T) {
	b := newBucket()
	b.objects[testWhole] = []byte(lines(0, 10))
	b.objects[layout.ChunkKey(testWhole, 1<<62, layout.Plain)] = []byte(lines(10, 20))
	s := loadBucket(t, b)
	if all := finished(s); len(all) != 20 {
		t.Errorf("%d tasks finished, want 20", len(all))
	}
	if len(s.Warnings) != 1 {
		t.Errorf("warnings %q", s.Warnings)
	}
}
