package blob_test

import (
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestPrefixContract(t *testing.T) {
	blobtest.Contract{Many: 200, Big: 8 << 20, Open: func(t testing.TB) blob.Store {
		whole := storetest.New()
		for _, key := range []string{"a", "team/b", "team/x", "z"} {
			must.OK(t, whole.Create(t.Context(), key, strings.NewReader("not below the prefix")))
		}
		return blob.Renamed(whole, "", "team/history/")
	}}.Run(t)
}

func TestFolderContract(t *testing.T) {
	blobtest.Contract{Many: 200, Big: 8 << 20, Open: func(t testing.TB) blob.Store {
		return blob.Renamed(blob.Renamed(storetest.New(), "log/", ""), "", "log/")
	}}.Run(t)
}

func TestFolderHoldsNothingElse(t *testing.T) {
	whole := storetest.New()
	store := blob.Renamed(whole, "log/", "")
	must.OK(t, store.Create(t.Context(), "log/a/b", strings.NewReader("x")))
	says.OK(t, says.Err(whole.Stat(t.Context(), "a/b")))
	for _, prefix := range []string{"", "log/", "log/a"} {
		for o, err := range store.List(t.Context(), prefix, blob.ListOptions{}) {
			says.True(t, err == nil && o.Key == "log/a/b", "%q lists %q, %v", prefix, o.Key, err)
		}
	}
	says.ErrorIs(t, says.Err(store.Stat(t.Context(), "a/b")), os.ErrNotExist, "a key outside of the folder")
	says.True(t, store.Put(t.Context(), "a/c", strings.NewReader("x")) != nil, "a key outside of the folder is written")
}

func TestBody(t *testing.T) {
	s := storetest.New()
	for _, content := range []string{"", "some text"} {
		must.OK(t, s.Put(t.Context(), "a", strings.NewReader(content)))
		o := must.Get(s.Stat(t.Context(), "a"))(t)
		body := blob.Body(t.Context(), s, o)
		defer body.Close()
		says.OK(t, iotest.TestReader(body, []byte(content)))
		for _, other := range []int64{-1, 1} {
			changed := blob.Object{Key: "a", Size: o.Size + other}
			says.ErrorIs(t, says.Err(io.ReadAll(blob.Body(t.Context(), s, changed))), io.ErrUnexpectedEOF,
				"of %d bytes that were listed as %d", o.Size, changed.Size)
		}
	}
}

func TestReadJSON(t *testing.T) {
	store := storetest.New()
	for body, want := range map[string]error{
		`{"nodes": 3, "more": "x"}`: nil, `null`: nil, `{}`: nil,
		`{"nodes": "3"}`: blob.ErrMalformed, `{"nodes": 1e400}`: blob.ErrMalformed, `[`: blob.ErrMalformed,
		``: blob.ErrMalformed, `{"more": "longer than the forty bytes that are read"}`: blob.ErrMalformed,
	} {
		store.Objects["key"] = []byte(body)
		var into struct{ Nodes int }
		says.ErrorIs(t, blob.ReadJSON(t.Context(), store, "key", 40, &into), want, "%q", body)
	}
	says.ErrorIs(t, blob.ReadJSON(t.Context(), store, "none", 40, new(any)), os.ErrNotExist)
}

func TestReadRange(t *testing.T) {
	store := storetest.New()
	store.Objects["key"] = []byte("0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 10, "0123456789"}, {2, 3, "234"}, {8, 5, "89"}, {10, 1, ""}, {0, 0, ""}} {
		got, err := blob.ReadRange(t.Context(), store, "key", c.offset, c.length)
		says.True(t, string(got) == c.want && err == nil, "%d bytes from %d: %q, %v", c.length, c.offset, got, err)
	}
	says.ErrorIs(t, says.Err(blob.ReadRange(t.Context(), store, "none", 0, 1)), os.ErrNotExist)
}
