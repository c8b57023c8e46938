// Package layouttest creates chunks and objects of events for tests, in every compression and under the keys of any
// layout.
package layouttest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Pack is text as a chunk of that compression stores it: one gzip member or zstd frame.
func Pack(t testing.TB, text string, c layout.Compression) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	switch c {
	case layout.Gzip:
		w = gzip.NewWriter(&b)
	case layout.Zstd:
		z := must.Get(zstd.NewWriter(&b))(t)
		w = z
	default:
		return []byte(text)
	}
	must.Get(io.WriteString(w, text))(t)
	must.OK(t, w.Close())
	return b.Bytes()
}

// WriteEvents returns a store's folder that holds events, each a line of the object that key names for the i-th of
// them, compressed as the key ends.
func WriteEvents(t testing.TB, events []string, key func(i int) string) string {
	t.Helper()
	objects := map[string]*bytes.Buffer{}
	for i, e := range events {
		k := key(i)
		if objects[k] == nil {
			objects[k] = &bytes.Buffer{}
		}
		objects[k].WriteString(e + "\n")
	}
	dir := t.TempDir()
	for k, lines := range objects {
		_, _, compression, _ := layout.ParseChunk(k)
		file := filepath.Join(dir, filepath.FromSlash(k))
		must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.OK(t, os.WriteFile(file, Pack(t, lines.String(), compression), 0o644))
	}
	return dir
}
