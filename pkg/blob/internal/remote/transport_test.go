package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// slowBody is a body whose second read takes long.
type slowBody struct {
	reads   atomic.Int64
	reading atomic.Bool
	answer  chan struct{} // closed when the server is to answer
}

func (b *slowBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	if b.reads.Add(1) == 2 {
		close(b.answer)
		time.Sleep(300 * time.Millisecond)
	}
	return len(p), nil
}

func (b *slowBody) Close() error { return nil }

// TestNoBodyIsReadAfterItsRequest: a server answers before it has read the body. What sends the request again reads the
// same body.
func TestNoBodyIsReadAfterItsRequest(t *testing.T) {
	body := &slowBody{answer: make(chan struct{})}
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		<-body.answer
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
		<-over // a connection that is closed before all of the body was read is reset, and the answer may be lost
		_ = conn.Close()
	}))
	defer server.Close()
	defer close(over)
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL, body))(t)
	request.ContentLength = 64 << 20
	response := must.Get(Transport(DefaultStall).RoundTrip(request))(t)
	reads := body.reads.Load()
	if body.reading.Load() {
		t.Error("the body is still being read")
	}
	_ = response.Body.Close()
	time.Sleep(400 * time.Millisecond)
	if more := body.reads.Load() - reads; response.StatusCode != http.StatusServiceUnavailable || more > 0 {
		t.Errorf("status %d, %d more reads", response.StatusCode, more)
	}
}
