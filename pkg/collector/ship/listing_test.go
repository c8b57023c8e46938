package ship

import (
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
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

// TestStreamsAskedForAgain: a stream that was asked for before is listed alone, because more of it may be stored by now. All others are
// answered from the one listing of their folder.
func TestStreamsAskedForAgain(t *testing.T) {
	logs := &Group{Logs: true}
	const node = "log/lab_default/session_1/00000000000000000000000000000000000000000000000000000001/"
	if got := logs.folder(node + "logs/a"); got != node {
		t.Fatalf("the folder is %q", got)
	}
	store := &storetest.Store{}
	put := func(key, data string) {
		t.Helper()
		if err := store.Create(t.Context(), key, strings.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	put(node+"logs/a", "1234")
	put(layout.LogChunkKey(node+"logs/a", 4, layout.Plain), "56")
	put(node+"logs/b", "1")
	l := newListings(store)
	for i, ask := range []struct {
		stream     string
		end, lists int
	}{{"logs/a", 6, 1}, {"logs/b", 1, 1}, {"logs/none", -1, 1}, {"logs/a", 6, 2}, {"logs/c", -1, 2}, {"logs/none", 3, 3}} {
		if i == 5 {
			put(node+"logs/none", "abc")
		}
		found, err := l.find(t.Context(), logs, node+ask.stream, false)
		if err != nil {
			t.Fatal(err)
		}
		end := int64(-1)
		if found != nil {
			end, _ = found.end(node+ask.stream, &lengthLog{})
		}
		if _, lists := store.Requests(); end != int64(ask.end) || lists != ask.lists {
			t.Errorf("question %d, %s: the end is %d after %d listings, want %d after %d", i, ask.stream, end, lists, ask.end, ask.lists)
		}
	}
}
