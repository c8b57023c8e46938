package ship

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestFullDiskStopsNoShipping: compressed chunks are stored though the disk takes no more notes of them, neither at the
// start nor later.
func TestFullDiskStopsNoShipping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &memory{key: base + "a"}
		r := newRig(t, func(o *Options) {
			o.Groups[0].Compression, o.PushInterval = layout.Zstd, time.Second
			o.Dir = filepath.Join(o.Dir, "full")
			// The file cannot be rewritten: there is no room beside it.
			must.OK(t, os.MkdirAll(filepath.Join(o.Dir, fmt.Sprintf(".chunks.jsonl.%d.tmp", os.Getpid()), "in it"), 0o700))
		}, a)
		r.lengths.file = must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
		for range 3 {
			a.write("a line\n")
			time.Sleep(2 * time.Second)
			r.once(t, 1)
		}
		says.OK(t, r.Flush(t.Context()))
		joined, overlap := decompress(t, r.store, a.key)
		says.True(t, joined == string(a.data) && overlap == 0, "stored %q with %d bytes twice", joined, overlap)
		warned := 0
		for _, e := range r.logged.AllEntries() {
			if err, ok := e.Data["error"].(error); ok && (errors.Is(err, syscall.EEXIST) ||
				errors.Is(err, syscall.ENOSPC)) {
				warned++
			}
		}
		says.Equal(t, warned, 1, "warnings of the full disk")
	})
}

// TestNotesAge: a log that is used for months holds the notes of a week, in memory and in its file.
func TestNotesAge(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	l := must.Get(openLengthLog(t.TempDir(), now))(t)
	for hour := range 24 * 10 {
		for i := range 2 {
			must.OK(t, l.addNote(now.Add(time.Duration(hour)*time.Hour),
				note{Stream: fmt.Sprintf("%d-%d", hour, i), Length: 2, Size: 1}))
		}
	}
	n := len(l.notes)
	says.True(t, n >= 24*7*2 && n <= (24*7+2)*2, "%d streams are remembered", n)
	says.True(t, l.fileLines <= 2*len(l.notes)+leastRewrite, "%d lines of %d notes", l.fileLines, len(l.notes))
	_, ok := l.lengthOf("239-1", 0, 1)
	says.True(t, ok, "the last note is forgotten")
}

// TestNotesAreBounded: more streams than that are not remembered, whatever their age.
func TestNotesAreBounded(t *testing.T) {
	l := &lengthLog{notes: make(map[string][]note)}
	for i := range 2*maxNoted + 7 {
		l.keepNote(note{Stream: fmt.Sprint(i), Time: int64(i)})
		l.pruneNotes(time.Unix(int64(i), 0))
	}
	n := len(l.notes)
	says.True(t, n <= maxNoted && n >= maxNoted/2, "%d streams are remembered", n)
	says.True(t, l.notes[fmt.Sprint(2*maxNoted)] != nil, "a new stream is forgotten")
}

// TestTornLine: a note that was written in part spoils neither the ones before nor the ones after.
func TestTornLine(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_800_000_000, 0)
	l := must.Get(openLengthLog(dir, now))(t)
	must.OK(t, l.addNote(now, note{Stream: "a", Length: 5, Size: 1}))
	must.Get(l.file.WriteString(`{"whole":"torn`))(t)
	_ = l.recordFailure(now, syscall.ENOSPC)
	now = now.Add(rewritePause)
	must.OK(t, l.addNote(now, note{Stream: "b", Length: 7, Size: 1}))
	again := must.Get(openLengthLog(dir, now))(t)
	a, _ := again.lengthOf("a", 0, 1)
	b, _ := again.lengthOf("b", 0, 1)
	says.True(t, a == 5 && b == 7, "lengths %d and %d", a, b)
}

// TestEndOfShortCompressedChunk: a compressed chunk that is stored in more bytes than it has does not move the end
// behind a plain one that follows it. Keys are listed in byte order, so a first chunk with an ending comes after the
// later ones.
func TestEndOfShortCompressedChunk(t *testing.T) {
	lengths := &lengthLog{notes: map[string][]note{}}
	first := tail{offset: 0, size: 20, compression: layout.Zstd} // of 7 bytes
	first.addChunk(7, 5, layout.Plain)
	later := tail{offset: 7, size: 5, compression: layout.Plain}
	later.addChunk(0, 20, layout.Zstd)
	for name, listed := range map[string]tail{"in order": first, "by key": later} {
		says.Equal(t, listed.streamEnd(&Group{}, "a", lengths), 12, "%s: the end", name)
	}
}

// TestStreamsAskedForAgain: a stream that was asked for before is listed alone, because more of it may be stored by
// now. All others are answered from the one listing of their folder.
func TestStreamsAskedForAgain(t *testing.T) {
	logs := &Group{Logs: true}
	const node = "log/lab_default/session_1/00000000000000000000000000000000000000000000000000000001/"
	got := logs.listingPrefix(node + "logs/a")
	must.True(t, got == node, "the folder is %q", got)
	store := &storetest.Store{}
	put := func(key, data string) {
		t.Helper()
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(data)))
	}
	put(node+"logs/a", "1234")
	put(layout.LogChunkKey(node+"logs/a", 4, layout.Plain), "56")
	put(node+"logs/b", "1")
	l := newListings(store)
	for i, ask := range []struct {
		stream     string
		end, lists int
	}{{"logs/a", 6, 1}, {"logs/b", 1, 1}, {"logs/none", -1, 1}, {"logs/a", 6, 2}, {"logs/c", -1, 2},
		{"logs/none", 3, 3}} {
		if i == 5 {
			put(node+"logs/none", "abc")
		}
		found := must.Get(l.lastChunk(t.Context(), logs, node+ask.stream, false))(t)
		end := int64(-1)
		if found != nil {
			end = found.streamEnd(logs, node+ask.stream, &lengthLog{})
		}
		if _, lists := store.Requests(); end != int64(ask.end) || lists != ask.lists {
			t.Errorf("question %d, %s: the end is %d after %d listings, want %d after %d", i, ask.stream, end, lists,
				ask.end, ask.lists)
		}
	}
}

// TestListingsOfPastSessions: the listing of a folder that nothing is asked of is forgotten, and made again if it is.
func TestListingsOfPastSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &Group{Logs: true}
		log := func(session int) string {
			return fmt.Sprintf("log/lab_default/session_%d/%056d/logs/raylet.out", session, 1)
		}
		store := &storetest.Store{}
		must.OK(t, store.Create(t.Context(), log(0), strings.NewReader("12")))
		l := newListings(store)
		const sessions = 100
		for session := range sessions {
			must.Get(l.lastChunk(t.Context(), logs, log(session), false))(t)
			time.Sleep(stateAge / 10)
		}
		says.True(t, len(l.folders) <= 10, "the listings of %d folders are kept", len(l.folders))
		must.OK(t, store.Create(t.Context(), layout.LogChunkKey(log(0), 2, layout.Plain), strings.NewReader("345")))
		tail := must.Get(l.lastChunk(t.Context(), logs, log(0), false))(t)
		says.True(t, tail != nil && tail.streamEnd(logs, log(0), &lengthLog{}) == 5, "the log ends at %+v", tail)
		_, lists := store.Requests()
		says.True(t, lists == sessions+1, "%d listings", lists)
	})
}
