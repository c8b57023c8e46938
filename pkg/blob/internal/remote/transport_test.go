package remote

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestOwnAddresses: where the environment names a proxy, a machine's own addresses are asked directly.
func TestOwnAddresses(t *testing.T) {
	const proxy = "http://proxy:3128"
	if os.Getenv("HTTP_PROXY") != proxy { // net/http reads the environment once
		again := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestOwnAddresses$")
		again.Env = append(os.Environ(), "HTTP_PROXY="+proxy, "HTTPS_PROXY="+proxy, "NO_PROXY=", "http_proxy=",
			"https_proxy=", "no_proxy=")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	for address, want := range map[string]string{
		"http://169.254.169.254/latest/api/token": "", "http://169.254.170.23/v1/credentials": "",
		"http://[fd00:ec2::23]/v1/credentials": "", "http://minio:9000/": proxy, "http://10.0.0.1:9000/": proxy,
		"https://[fd00:1::1]/": proxy,
	} {
		got := ""
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))(t)
		if url := must.Get(proxyFor(request))(t); url != nil {
			got = url.String()
		}
		says.Equal(t, got, want, "%s: by proxy", address)
	}
}

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
	says.True(t, !body.reading.Load(), "the body is still being read")
	_ = response.Body.Close()
	time.Sleep(400 * time.Millisecond)
	if more := body.reads.Load() - reads; response.StatusCode != http.StatusServiceUnavailable || more > 0 {
		t.Errorf("status %d, %d more reads", response.StatusCode, more)
	}
}

type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestPauses: a refusal is returned after the pause that it asks for, of which an operation that must end soon makes a
// part only. What asks SDKs for more is gone.
func TestPauses(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		asked  string
		left   time.Duration // until the operation must end; 0: it need not
		want   time.Duration
	}{
		"busy":               {503, "9", 0, 9 * time.Second},
		"too many requests":  {429, "9", 0, 9 * time.Second},
		"long":               {429, "120", 0, maxPause},
		"long, near the end": {429, "120", 20 * time.Second, 5 * time.Second},
		"short, far from it": {503, "1", 20 * time.Second, time.Second},
		"no wish":            {503, "", 20 * time.Second, 0},
		"missing":            {404, "9", 0, 0},
		"stored":             {200, "9", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				began := time.Now()
				transport := pausing{answering(func(r *http.Request) *http.Response {
					answer := &http.Response{StatusCode: test.status, Header: http.Header{}, Body: http.NoBody, Request: r}
					answer.Header.Set(retryAfter, test.asked)
					return answer
				})}
				request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost", http.NoBody))(t)
				response := must.Get(transport.RoundTrip(request))(t)
				_ = response.Body.Close()
				if took := time.Since(began); took != test.want || response.Header.Get(retryAfter) != "" {
					t.Errorf("a pause of %s, then %v", took, response.Header)
				}
			})
		})
	}
}

// TestPauseEnds: whoever gives up waits no longer.
func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, cancel)
		err := Pause(ctx, http.StatusServiceUnavailable, http.Header{retryAfter: {"9"}})
		says.True(t, err != nil && time.Since(began) == time.Second, "%v after %s", err, time.Since(began))
	})
}
