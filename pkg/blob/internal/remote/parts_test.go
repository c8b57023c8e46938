package remote

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// recorder is an upload that keeps its parts.
type recorder struct {
	objects map[string][]byte
	parts   [][]byte
	copied  int // bytes
}

func (r *recorder) Send(_ context.Context, part []byte) error {
	r.parts = append(r.parts, bytes.Clone(part))
	return nil
}

func (r *recorder) Copy(_ context.Context, source blob.Object, from, n int64) error {
	r.parts = append(r.parts, r.objects[source.Key][from:from+n])
	r.copied += int(n)
	return nil
}

func (r *recorder) get(_ context.Context, key, _ string, offset, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(r.objects[key][offset:])), nil
}

func assemble(t *testing.T, sizes []int64, limits Limits) *recorder {
	t.Helper()
	r := &recorder{objects: map[string][]byte{}}
	var sources []blob.Object
	var whole []byte
	for i, size := range sizes {
		key := string(rune('a' + i))
		r.objects[key] = bytes.Repeat([]byte(key), int(size))
		whole = append(whole, r.objects[key]...)
		sources = append(sources, blob.Object{Key: key, Size: size})
	}
	if err := Assemble(t.Context(), r, r.get, sources, limits); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Join(r.parts, nil); !bytes.Equal(got, whole) {
		t.Errorf("sizes %v: made %q, want %q", sizes, got, whole)
	}
	fitted := limits.fit(int64(len(whole)))
	if int64(len(r.parts)) > limits.Parts {
		t.Errorf("sizes %v: %d parts, at most %d are allowed", sizes, len(r.parts), limits.Parts)
	}
	for i, part := range r.parts {
		if n := int64(len(part)); n == 0 || n > max(fitted.Sent, fitted.Copied) || (n < fitted.Least && i < len(r.parts)-1) {
			t.Errorf("sizes %v: part %d of %d has %d bytes, limits are %+v", sizes, i, len(r.parts), n, fitted)
		}
	}
	return r
}

func TestAssemble(t *testing.T) {
	limits := Limits{Least: 5, Sent: 16, Copied: 50, Parts: 100}
	for _, test := range []struct {
		sizes  []int64
		parts  int
		copied int
	}{
		{nil, 0, 0},
		{[]int64{0, 0}, 0, 0},
		{[]int64{3}, 1, 0},
		{[]int64{5}, 1, 5},
		{[]int64{0, 20, 0, 20, 0}, 2, 40},
		{[]int64{120}, 3, 120},            // 50 + 50 + 20
		{[]int64{102}, 3, 100},            // the rest is too small to copy and sent
		{[]int64{1, 20}, 2, 16},           // 1+4 sent, 16 copied
		{[]int64{6, 1, 20}, 3, 22},        // 6 copied, 1+4 sent, 16 copied
		{[]int64{4, 4, 4, 4, 4, 4}, 2, 0}, // 16 + 8
		{[]int64{20, 1}, 2, 20},           // the last part may be small
	} {
		r := assemble(t, test.sizes, limits)
		if len(r.parts) != test.parts || r.copied != test.copied {
			t.Errorf("sizes %v: %d parts and %d bytes copied, want %d and %d", test.sizes, len(r.parts), r.copied, test.parts, test.copied)
		}
	}
}

func TestAssembleWithinLimits(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		sizes := make([]int64, source.IntN(26))
		for i := range sizes {
			sizes[i] = source.Int64N(1 << source.IntN(9))
		}
		assemble(t, sizes, Limits{Least: 5, Sent: 16, Copied: 50, Parts: 10})
	}
}

func TestSendAll(t *testing.T) {
	for _, size := range []int{0, 1, 15, 16, 17, 1000} {
		r := &recorder{}
		if err := SendAll(t.Context(), r, bytes.NewReader(make([]byte, size)), int64(size), Limits{Least: 5, Sent: 16, Copied: 50, Parts: 10}); err != nil {
			t.Fatal(err)
		}
		if got := len(bytes.Join(r.parts, nil)); got != size || len(r.parts) > 10 {
			t.Errorf("%d bytes became %d parts with %d", size, len(r.parts), got)
		}
	}
	if err := SendAll(t.Context(), &recorder{}, bytes.NewReader(nil), 5, Limits{Sent: 16, Parts: 10}); err == nil {
		t.Error("a body shorter than said is no error")
	}
}
