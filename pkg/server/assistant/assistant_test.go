package assistant

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
			if err := handler(w, r); err != nil {
				t.Error(err)
			}
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
		if got := <-ended; !strings.Contains(got, "others waited") {
			t.Errorf("the call that was ended got %q", got)
		}
		cancel()
		for range maxCalls - 1 {
			<-ended
		}
		if most.Load() > maxCalls {
			t.Errorf("%d calls at once", most.Load())
		}
	})
}
