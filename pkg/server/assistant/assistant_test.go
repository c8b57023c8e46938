package assistant

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/response"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// TestCallersTakeTurns: calls that nobody answers hold so many slots and no more, and end for a caller who waits, with
// an error that says so.
func TestCallersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at, most atomic.Int64
		handler := Handler("1", func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			if r.RemoteAddr != "10.0.0.2:1" {
				<-r.Context().Done()
			}
			_, _ = fmt.Fprint(w, "[]")
		}, silent.Logger())
		ctx, cancel := context.WithCancel(t.Context())
		call := func(ctx context.Context, from string) string {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_sessions","arguments":{}}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.RemoteAddr = from
			w := httptest.NewRecorder()
			says.OK(t, handler(w, r))
			return w.Body.String()
		}
		ended := make(chan string, maxCalls)
		for range maxCalls {
			go func() { ended <- call(ctx, "10.0.0.1:1") }()
		}
		synctest.Wait()
		began := time.Now()
		if got := call(t.Context(), "10.0.0.2:1"); !strings.Contains(got, "sessions") || time.Since(began) > callWait {
			t.Errorf("another caller got %s after %s", got, time.Since(began))
		}
		got := <-ended
		says.True(t, strings.Contains(got, "others waited"), "the call that was ended got %q", got)
		cancel()
		for range maxCalls - 1 {
			<-ended
		}
		says.True(t, most.Load() <= maxCalls, "%d calls at once", most.Load())
	})
}

// TestSlowMessagesTakeNoTurn: a call takes a slot when all of it is there, and may not be large.
func TestSlowMessagesTakeNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := Handler("1", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "[]") },
			silent.Logger())
		call := func(body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", body)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			w := httptest.NewRecorder()
			must.OK(t, handler(w, r))
			return w
		}
		for range maxCalls {
			never, end := io.Pipe()
			defer func() { _ = end.CloseWithError(io.ErrUnexpectedEOF) }()
			go call(never)
		}
		synctest.Wait()
		began := time.Now()
		message := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`
		if w := call(strings.NewReader(message)); w.Code != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("%d %s after %s", w.Code, w.Body, time.Since(began))
		}
		response.Is(t, call(strings.NewReader(message+strings.Repeat(" ", maxMessage))), http.StatusBadRequest, "",
			"a large one")
	})
}
