package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// all is everything that a store holds.
func all(t *testing.T, store blob.Store) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for o, err := range store.List(t.Context(), "", blob.ListOptions{}) {
		must.OK(t, err)
		body := blob.Body(t.Context(), store, o)
		data, err := io.ReadAll(body)
		must.OK(t, errors.Join(err, body.Close()))
		found[o.Key] = string(data)
	}
	return found
}

// TestRefusedArchivesChangeNothing: an archive of a session that is stored, or of none, that is wrong in any way at any
// place leaves the store as it was, whether it can be read twice or is a pipe.
func TestRefusedArchivesChangeNothing(t *testing.T) {
	log := func(name string) string { return layout.LogKey("log", ref, rayid.Node{1}, name) }
	marker := entry{layout.MarkerKey("log", ref), "", tar.TypeReg}
	good := []entry{{log("raylet.out"), "one\n", tar.TypeReg}, {log("new.log"), "forged\n", tar.TypeReg},
		{log("other.log"), "forged\n", tar.TypeReg}, marker}
	same := func(*manifest) {}
	with := func(at int, e entry) []entry { return slices.Insert(slices.Clone(good), at, e) }
	whole := func(change func(*manifest), entries []entry) []byte {
		data := must.Get(io.ReadAll(forge(t, change, entries...)))(t)
		return data
	}
	bad := map[string][]byte{
		"more bytes said":      whole(func(m *manifest) { m.Bytes += 99 }, good),
		"fewer bytes said":     whole(func(m *manifest) { m.Bytes -= 7 }, good),
		"more objects said":    whole(func(m *manifest) { m.Objects = 99 }, good),
		"no marker":            whole(same, good[:3]),
		"a marker that is not": whole(same, append(slices.Clone(good[:3]), entry{marker.name, "x", tar.TypeReg})),
		"other content":        whole(same, append([]entry{{log("raylet.out"), "two\n", tar.TypeReg}}, good[1:]...)),
		"other content, last": whole(same, []entry{good[1], good[2], {log("raylet.out"), "two\n", tar.TypeReg},
			marker}),
		"another length": whole(same, []entry{good[1], {log("raylet.out"), "one\none\n", tar.TypeReg}, marker}),
		"more keys":      whole(same, good),
	}
	for i := range len(good) + 1 {
		at := string(rune('0' + i))
		bad["a link at "+at] = whole(same, with(i, entry{log("link"), "", tar.TypeSymlink}))
		bad["a path at "+at] = whole(same, with(i, entry{"log/../x", "x", tar.TypeReg}))
		bad["another session's at "+at] = whole(same,
			with(i, entry{"log/lab_default/session_2026-01-01_00-00-00_000000_1/logs/x", "x", tar.TypeReg}))
	}
	file := whole(same, good)
	for n := 0; n < len(file); n += 7 {
		bad["cut at "+string(rune('a'+n/7))] = file[:n]
		damaged := slices.Clone(file)
		damaged[n] ^= 0x55
		bad["damaged at "+string(rune('a'+n/7))] = damaged
	}
	_, err := Import(t.Context(), bytes.NewReader(file[:len(file)/2]), options(storetest.New(), "log"))
	says.Error(t, err, "cut off, and nothing was stored")
	for _, stored := range []bool{true, false} {
		for name, data := range bad {
			to := storetest.New()
			if stored {
				put(t, to, marker.name, "")
				put(t, to, log("raylet.out"), "one\n")
			}
			before := all(t, to)
			for _, in := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
				got, err := Import(t.Context(), in, options(to, "log"))
				refused := stored || !strings.Contains(name, "other") && name != "another length" &&
					name != "more keys" || strings.Contains(name, "session")
				says.True(t, (!refused || err != nil) && (got.Stored == 0 || err == nil), "%s, stored %t: %+v, %v",
					name, stored, got, err)
				says.True(t, !refused || maps.Equal(before, all(t, to)), "%s, stored %t: the store has changed", name,
					stored)
			}
		}
	}
}

// TestAdding: a stored session gets more objects only if that is wanted, and an import that was interrupted goes on.
func TestAdding(t *testing.T) {
	log := layout.LogKey("log", ref, rayid.Node{1}, "a.log")
	marker := entry{layout.MarkerKey("log", ref), "", tar.TypeReg}
	file, err := io.ReadAll(forge(t, func(*manifest) {}, entry{log, "a", tar.TypeReg},
		entry{log + "b", "b", tar.TypeReg}, marker))
	must.OK(t, err)
	to := storetest.New()
	put(t, to, log, "a")
	if got, err := Import(t.Context(), bytes.NewReader(file), options(to, "log")); err != nil || got.Stored != 2 ||
		got.Kept != 1 {
		t.Errorf("an interrupted import: %+v, %v", got, err)
	}
	must.OK(t, to.Delete(t.Context(), log))
	opts := options(to, "log")
	_, err = Import(t.Context(), bytes.NewReader(file), opts)
	says.True(t, errors.Is(err, os.ErrExist) && strings.Contains(err.Error(), "without 1 of the archive's 3 objects"),
		err)
	opts.Add = true
	if got, err := Import(t.Context(), bytes.NewReader(file), opts); err != nil || got.Stored != 1 || got.Kept != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
