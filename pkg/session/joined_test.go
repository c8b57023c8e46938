package session

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestReaderFindsWhatWasJoined: chunks that compaction took away since they were listed are read from the joined object.
func TestReaderFindsWhatWasJoined(t *testing.T) {
	store, err := local.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	put := func(key, body string) {
		if err := store.Put(t.Context(), key, strings.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	var listed []chunk
	for i, line := range []string{"one\n", "two\n", "six\n"} {
		key := layout.ChunkKey("whole", int64(4*i), layout.Plain)
		put(key, line)
		o, err := store.Stat(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, chunk{object: o, offset: int64(4 * i)})
	}
	fetchers := newFetchers(store)
	defer fetchers.stop()
	r := &wholeReader{
		ctx: t.Context(), store: store, chunks: listed[:1:1], ahead: newAhead(t.Context(), fetchers), progress: &Progress{},
		warn: func(format string, args ...any) { t.Errorf("warns: %s", fmt.Sprintf(format, args...)) },
	}
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	put("whole", "one\ntwo\nsix\n")
	for _, c := range listed[1:] {
		if err := store.Delete(t.Context(), c.object.Key); err != nil {
			t.Fatal(err)
		}
	}
	r.chunks = listed[1:]
	rest, err := io.ReadAll(r)
	if string(got)+string(rest) != "one\ntwo\nsix\n" || err != nil {
		t.Errorf("reads %q and %q, %v", got, rest, err)
	}
}
