package ship

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestEndOfShortCompressedChunk: a compressed chunk that is stored in more bytes than it has does not move the end behind a plain one that
// follows it. Keys are listed in byte order, so a first chunk with an ending comes after the later ones.
func TestEndOfShortCompressedChunk(t *testing.T) {
	lengths := &lengthLog{notes: map[string][]note{}}
	first := tail{offset: 0, size: 20, compression: layout.Zstd} // of 7 bytes
	first.add(7, 5, layout.Plain)
	later := tail{offset: 7, size: 5, compression: layout.Plain}
	later.add(0, 20, layout.Zstd)
	for name, listed := range map[string]tail{"in order": first, "by key": later} {
		if end, exact := listed.end("a", lengths); end != 12 || !exact {
			t.Errorf("%s: the end is %d, exact: %v; want 12", name, end, exact)
		}
	}
}
