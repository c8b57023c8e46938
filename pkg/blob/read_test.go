package blob_test

import (
	"errors"
	"os"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestReadJSON(t *testing.T) {
	store := storetest.New()
	for body, want := range map[string]error{
		`{"nodes": 3, "more": "x"}`: nil, `null`: nil, `{}`: nil,
		`{"nodes": "3"}`: blob.ErrMalformed, `{"nodes": 1e400}`: blob.ErrMalformed, `[`: blob.ErrMalformed,
		``: blob.ErrMalformed, `{"more": "longer than the forty bytes that are read"}`: blob.ErrMalformed,
	} {
		store.Objects["key"] = []byte(body)
		var into struct{ Nodes int }
		if err := blob.ReadJSON(t.Context(), store, "key", 40, &into); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", body, err, want)
		}
	}
	if err := blob.ReadJSON(t.Context(), store, "none", 40, new(any)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestReadRange(t *testing.T) {
	store := storetest.New()
	store.Objects["key"] = []byte("0123456789")
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 10, "0123456789"}, {2, 3, "234"}, {8, 5, "89"}, {10, 1, ""}, {0, 0, ""}} {
		if got, err := blob.ReadRange(t.Context(), store, "key", c.offset, c.length); string(got) != c.want || err != nil {
			t.Errorf("%d bytes from %d: %q, %v", c.length, c.offset, got, err)
		}
	}
	if _, err := blob.ReadRange(t.Context(), store, "none", 0, 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
