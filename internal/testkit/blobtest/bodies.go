package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/seekable"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sizes of objects to join: below and above the size from which objects are sent in parts, and many small ones.
var sizes = map[string][]int{
	"small":       {1, 0, 10, 1000},
	"one":         {6 << 20},
	"none":        {},
	"empty":       {0, 0},
	"around 5MiB": {5<<20 - 1, 5 << 20, 5<<20 + 1, 1, 5 << 20, 3},
	"last large":  {1, 2, 17 << 20},
	"first large": {17 << 20, 2, 1},
	"many":        slices.Repeat([]int{700_001}, 40),
}

func (c Contract) concatenate(t subject, s blob.Store) {
	for name, sizes := range sizes {
		t.sub(name, func(t subject) {
			var whole bytes.Buffer
			var sources []blob.Object
			for i, size := range sizes {
				key := fmt.Sprintf("%s.@%020d", name, whole.Len())
				if i == 0 {
					key = name // the first chunk lies where the whole is to be
				}
				if size == 0 {
					key = fmt.Sprintf("%s empty %d", name, i)
				}
				part := content(size, uint64(i))
				whole.Write(part)
				must.OK(t, s.Create(t.Context(), key, bytes.NewReader(part)))
				o := must.Get(s.Stat(t.Context(), key))(t)
				sources = append(sources, o)
			}
			target := name
			if c.ForgetsUploads && c.Faults {
				// Started over, the upload would read its own result as its first source.
				target += " whole"
			}
			must.OK(t, Concatenate(t.Context(), s, target, sources))
			if got := read(t, s, target); got != whole.String() {
				t.Errorf("%d bytes, want %d; equal up to %d", len(got), whole.Len(), equalUpTo(got, whole.String()))
			}
			if len(sources) > 1 && sources[0].Size > 0 && target == name {
				// The first source was just replaced: what it was listed as is no more.
				if err := Concatenate(t.Context(), s, name+" again", sources); err == nil {
					t.Error("joins an object that changed since it was listed")
				}
				if _, err := s.Stat(t.Context(), name+" again"); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a failed concatenation leaves an object: %v", err)
				}
			}
		})
	}
}

// Concatenate stores objects one after the other as one object, as compaction does: see pkg/maintenance/compact.
func Concatenate(ctx context.Context, s blob.Store, key string, sources []blob.Object) error {
	var size int64
	stream := &chunks.Stream{Key: key, Kind: layout.Log}
	for _, o := range sources {
		stream.Chunks = append(stream.Chunks, chunks.Chunk{Object: o, Offset: size, Compression: layout.Plain})
		size += o.Size
	}
	body := seekable.New(size, func(offset int64) (io.ReadCloser, error) {
		return chunks.NewReader(ctx, s, stream, chunks.Options{From: offset, Exact: true}), nil
	})
	defer body.Close()
	if size > 16<<20 {
		return s.Put(ctx, key, body)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return s.Put(ctx, key, bytes.NewReader(data))
}

// bigObject writes and reads an object that is larger than every buffer.
func (c Contract) bigObject(t subject, s blob.Store) { c.transferBig(t, s, nil) }

// Memory writes and reads an object, of c.Big bytes or 80 MiB, and fails if the heap grows meanwhile by more than 32
// MiB. It measures the whole process, so nothing else may run in it: neither the test nor those around it are parallel.
func (c Contract) Memory(t *testing.T) {
	const most = 32 << 20
	c.setDefaults()
	s := c.Open(t)
	held := func() int64 {
		runtime.GC() // twice, for pools keep what they had through one
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	start, peak, at := held(), int64(0), 0
	c.transferBig(subject{t, &complaint{}}, s, func() {
		if at++; at%4 == 0 {
			peak = max(peak, held())
		}
	})
	says.True(t, peak-start <= most, "%d MiB of memory for an object of %d MiB", (peak-start)>>20, c.Big>>20)
	t.Logf("%d MiB of memory for an object of %d MiB", (peak-start)>>20, c.Big>>20)
}

// transferBig creates an object of c.Big bytes and compares what is read with what was written. It calls sample, if
// there is one, about every MiB.
func (c Contract) transferBig(t subject, s blob.Store, sample func()) {
	t.Helper()
	must.OK(t, s.Create(t.Context(), "big", &generated{size: c.Big, sample: sample}))
	got := must.Get(s.Get(t.Context(), "big", 0, -1))(t)
	defer got.Close()
	want := &generated{size: c.Big, sample: sample}
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for at := int64(0); at < c.Big; {
		n := must.Get(io.ReadFull(want, a[:min(c.Big-at, int64(len(a)))]))(t)
		if _, err := io.ReadFull(got, b[:n]); err != nil {
			t.Fatalf("at byte %d: %v", at, err)
		}
		if !bytes.Equal(a[:n], b[:n]) {
			t.Fatalf("other content between bytes %d and %d", at, at+int64(n))
		}
		at += int64(n)
	}
	if n, err := got.Read(a); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
}

// pattern is what generated bodies repeat: of a prime length, so that no part that lies at a round offset equals
// another.
var pattern = content(1_000_003, 7)

// generated is a body of any size in little memory.
type generated struct {
	size, at int64
	sample   func() // called about every MiB, if there is one
	sampled  int64
}

func (g *generated) Read(p []byte) (int, error) {
	if g.at >= g.size {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), g.size-g.at)], pattern[g.at%int64(len(pattern)):])
	g.at += int64(n)
	if g.sample != nil && g.at-g.sampled > 1<<20 {
		g.sampled = g.at
		g.sample()
	}
	return n, nil
}

func (g *generated) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += g.at
	case io.SeekEnd:
		offset += g.size
	}
	g.at, g.sampled = offset, offset
	return offset, nil
}

// content is size bytes that seed alone determines.
func content(size int, seed uint64) []byte {
	source := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	data := make([]byte, size)
	_, _ = source.Read(data) // never fails
	return data
}

func equalUpTo(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func create(t subject, s blob.Store, key, content string) {
	t.Helper()
	must.OK(t, s.Create(t.Context(), key, strings.NewReader(content)))
}

func read(t subject, s blob.Store, key string) string {
	t.Helper()
	return readRange(t, s, key, 0, -1)
}

func readRange(t subject, s blob.Store, key string, offset, length int64) string {
	t.Helper()
	body := must.Get(s.Get(t.Context(), key, offset, length))(t)
	data, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func list(t subject, s blob.Store, prefix string, opts blob.ListOptions) []blob.Object {
	t.Helper()
	var objects []blob.Object
	for o, err := range s.List(context.WithoutCancel(t.Context()), prefix, opts) {
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

func wantKeys(t subject, s blob.Store, prefix string, opts blob.ListOptions, want ...string) {
	t.Helper()
	var got []string
	for _, o := range list(t, s, prefix, opts) {
		got = append(got, o.Key)
	}
	if !slices.Equal(got, want) {
		if len(got)+len(want) > 100 {
			t.Errorf("list %q %+v: %d keys, want %d", prefix, opts, len(got), len(want))
			return
		}
		t.Errorf("list %q %+v:\n got %q\nwant %q", prefix, opts, got, want)
	}
}
