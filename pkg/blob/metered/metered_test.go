package metered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestContract(t *testing.T) {
	blobtest.Contract{Many: 200, Big: 8 << 20,
		Open: func(t testing.TB) blob.Store { return New(storetest.New(), prometheus.NewRegistry()) }}.Run(t)
}

func TestCounts(t *testing.T) {
	reg := prometheus.NewRegistry()
	var fault error
	s := New(&storetest.Hooked{Store: storetest.New(),
		Before: func(context.Context, storetest.Op, string) error { return fault }}, reg)
	ctx := t.Context()
	must.OK(t, s.Put(ctx, "key", strings.NewReader("0123456789")))
	body := must.Get(s.Get(ctx, "key", 2, 4))(t)
	must.Get(io.ReadAll(body))(t)
	must.OK(t, errors.Join(body.Close(), s.Delete(ctx, "key")))
	if _, err := s.Stat(ctx, "key"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, err := range []error{os.ErrExist, fmt.Errorf("x: %w", blob.ErrThrottled), blob.ErrPermission,
		os.ErrDeadlineExceeded, io.ErrUnexpectedEOF} {
		fault = err
		if got := s.Create(ctx, "key", strings.NewReader("x")); !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, err)
		}
	}
	fault = nil
	for range s.List(ctx, "", blob.ListOptions{}) {
		t.Error("something is left")
	}
	want := `
# HELP rayhistory_storage_bytes_total Bytes of objects read from and written to the store.
# TYPE rayhistory_storage_bytes_total counter
rayhistory_storage_bytes_total{direction="read"} 4
rayhistory_storage_bytes_total{direction="written"} 10
# HELP rayhistory_storage_failures_total Operations that failed after all retries. A missing key, a taken key and a caller that gave up are no failures.
# TYPE rayhistory_storage_failures_total counter
rayhistory_storage_failures_total{operation="create",reason="other"} 1
rayhistory_storage_failures_total{operation="create",reason="permission"} 1
rayhistory_storage_failures_total{operation="create",reason="throttled"} 1
rayhistory_storage_failures_total{operation="create",reason="timeout"} 1
# HELP rayhistory_storage_operations_total Operations of the store; a listing counts once for all of its pages.
# TYPE rayhistory_storage_operations_total counter
rayhistory_storage_operations_total{operation="create"} 5
rayhistory_storage_operations_total{operation="delete"} 1
rayhistory_storage_operations_total{operation="get"} 1
rayhistory_storage_operations_total{operation="list"} 1
rayhistory_storage_operations_total{operation="put"} 1
rayhistory_storage_operations_total{operation="stat"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "rayhistory_storage_bytes_total",
		"rayhistory_storage_failures_total", "rayhistory_storage_operations_total"); err != nil {
		t.Error(err)
	}
}
