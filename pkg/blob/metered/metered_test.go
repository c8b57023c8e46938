package metered

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/time/rate"

	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
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
	says.ErrorIs(t, says.Err(s.Stat(ctx, "key")), os.ErrNotExist)
	for _, err := range []error{os.ErrExist, fmt.Errorf("x: %w", blob.ErrThrottled), blob.ErrPermission,
		os.ErrDeadlineExceeded, io.ErrUnexpectedEOF} {
		fault = err
		says.ErrorIs(t, s.Create(ctx, "key", strings.NewReader("x")), err)
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
	says.OK(t,
		testutil.GatherAndCompare(reg, strings.NewReader(want), "rayhistory_storage_bytes_total",
			"rayhistory_storage_failures_total", "rayhistory_storage_operations_total"))
}

// TestPaced: with a limiter each request waits for its turn, also each page of a listing; without one none does, and
// none outlives its context.
func TestPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(storetest.New(), prometheus.NewRegistry())
		for i := range 2*pageObjects + 1 {
			must.OK(t, s.Create(t.Context(), fmt.Sprintf("a/%04d", i), strings.NewReader("x")))
		}
		paced := Paced(t.Context(), rate.NewLimiter(1, 1))
		for name, of := range map[string]struct {
			seconds int
			do      func(ctx context.Context) error
		}{
			"get": {1, func(ctx context.Context) error {
				body, err := s.Get(ctx, "a/0000", 0, -1)
				if err == nil {
					err = body.Close()
				}
				return err
			}},
			"stat":   {1, func(ctx context.Context) error { _, err := s.Stat(ctx, "a/0000"); return err }},
			"put":    {1, func(ctx context.Context) error { return s.Put(ctx, "b", strings.NewReader("x")) }},
			"delete": {1, func(ctx context.Context) error { return s.Delete(ctx, "b") }},
			"a listing of three pages": {3, func(ctx context.Context) error {
				for _, err := range s.List(ctx, "a/", blob.ListOptions{}) {
					if err != nil {
						return err
					}
				}
				return nil
			}},
		} {
			if err := of.do(paced); err != nil { // takes what is free
				t.Fatal(name, err)
			}
			began := time.Now()
			if err := of.do(paced); err != nil || time.Since(began) != time.Duration(of.seconds)*time.Second {
				t.Errorf("%s took %s, want %d s, %v", name, time.Since(began), of.seconds, err)
			}
			began = time.Now()
			if err := of.do(t.Context()); err != nil || time.Since(began) != 0 {
				t.Errorf("%s took %s without a limiter, %v", name, time.Since(began), err)
			}
			ended, cancel := context.WithCancel(paced)
			cancel()
			says.True(t, of.do(ended) != nil, "%s succeeds after its context has ended", name)
		}
	})
}

// TestPacedForOthers: requests of a load that others may join do not wait, but those that come next wait for them, too.
func TestPacedForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(storetest.New(), prometheus.NewRegistry())
		must.OK(t, s.Put(t.Context(), "a", strings.NewReader("x")))
		paced := Paced(t.Context(), rate.NewLimiter(1, 1))
		began := time.Now()
		var v shared.Value[int]
		must.Get(v.Get(paced, func(ctx context.Context) (int, error) {
			for range 3 {
				must.Get(s.Stat(ctx, "a"))(t)
			}
			return 0, nil
		}))(t)
		says.Equal(t, time.Since(began), 0, "others wait")
		must.Get(s.Stat(paced, "a"))(t)
		says.Equal(t, time.Since(began), 3*time.Second, "the next one waits")
	})
}
