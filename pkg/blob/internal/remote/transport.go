// Package remote has the code that the drivers of remote stores share: connections that fail when they stall, the pauses between retries, a
// reader that continues broken downloads, create-only writes, and uploads in parts.
package remote

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
)

// DefaultStall is how long a request may make no progress when nothing else is configured.
const DefaultStall = 30 * time.Second

// Transport is an HTTP transport set by Configure. When a request has ended, its body is not read any more.
func Transport(stall time.Duration) http.RoundTripper {
	transport := &http.Transport{}
	Configure(transport, stall)
	return ownBody{transport}
}

// Configure makes connections fail when nothing was sent or received for the time of stall. A limit for a whole request would have to allow
// for the largest object over the slowest link. Bodies are not decompressed.
func Configure(transport *http.Transport, stall time.Duration) {
	dialer := &net.Dialer{Timeout: min(stall, 10*time.Second), KeepAlive: 30 * time.Second}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return stallConn{conn, stall}, nil
	}
	transport.Proxy = http.ProxyFromEnvironment
	transport.ForceAttemptHTTP2 = true
	transport.DisableCompression = true
	transport.MaxIdleConns = 128
	transport.MaxIdleConnsPerHost = 64
	transport.IdleConnTimeout = min(stall, 90*time.Second)
	transport.TLSHandshakeTimeout = min(stall, 10*time.Second)
	transport.ExpectContinueTimeout = time.Second
}

// stallConn gives every read and write a deadline of its own.
type stallConn struct {
	net.Conn
	stall time.Duration
}

func (c stallConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c stallConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// ownBody keeps a request that has ended from reading its body. A server that is busy answers before it has read the body, and HTTP's own
// transport may then still be reading it while an SDK sends the same body again: both would get only parts of it. (The SDK for S3 does this itself.)
type ownBody struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o ownBody) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return o.base.RoundTrip(request)
	}
	body := &endingBody{ReadCloser: request.Body}
	request = request.WithContext(request.Context()) // a copy: a transport must not change the request
	request.Body = body
	defer body.end()
	return o.base.RoundTrip(request)
}

// endingBody can be read until it is ended.
type endingBody struct {
	io.ReadCloser
	mu    sync.Mutex
	ended bool
}

var errEnded = errors.New("the request has ended")

func (b *endingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errEnded
	}
	return b.ReadCloser.Read(p)
}

// end waits for the read under way.
func (b *endingBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// RetryAfterTransport waits as long as Retry-After asks before it returns a refusal. It is for SDKs that ignore Retry-After when they retry.
type RetryAfterTransport struct{ Base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p RetryAfterTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.Base.RoundTrip(request)
	if err != nil || (response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable) {
		return response, err
	}
	if asked := RetryAfter(response.Header); asked > 0 {
		if err := backoff.Sleep(request.Context(), min(asked, 3*MaxDelay)); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
	}
	return response, nil
}
