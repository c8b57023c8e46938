package ship

import (
	"testing"

	"github.com/rayhistory/historyserver/pkg/collector/internal/storetest"
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

// TestForgetDoesNotWait: that old streams are forgotten stops nothing while the store takes minutes to list their folder.
func TestForgetDoesNotWait(t *testing.T) {
	logs := &Group{Logs: true}
	const node = "log/lab_default/session_1/00000000000000000000000000000000000000000000000000000001/"
	if got := logs.folder(node + "logs/a"); got != node {
		t.Fatalf("the folder is %q", got)
	}
	store := &storetest.Store{}
	l := &listings{store: store, folders: make(map[string]*folder)}
	store.ListFault = func(string) error {
		l.forget(logs, node+"logs/old")
		return nil
	}
	if _, err := l.find(t.Context(), logs, node+"logs/a", false); err != nil {
		t.Fatal(err)
	}
	// Of the streams that the listing did not show, any may be the forgotten one: each is listed alone.
	if _, lists := store.Requests(); lists != 2 {
		t.Errorf("%d listings, want 2", lists)
	}
}
