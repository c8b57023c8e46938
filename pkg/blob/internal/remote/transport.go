// Package remote holds what the drivers of remote stores share: connections that notice a stall, the pace of retries, and a reader
// that survives broken downloads.
package remote

import (
	"context"
	"net"
	"net/http"
	"time"
)

// DefaultStall is how long a request may make no progress when nothing else is configured.
const DefaultStall = 30 * time.Second

// Transport is an HTTP transport set by Configure.
func Transport(stall time.Duration) *http.Transport {
	transport := &http.Transport{}
	Configure(transport, stall)
	return transport
}

// Configure makes a transport's connections fail once nothing was sent or received for stall, in either direction: a limit to a whole
// request would have to allow for the largest object over the slowest link. Bodies arrive as they are stored: nothing is decompressed
// on the way.
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

// Patient waits as long as a refusal's Retry-After asks before it hands the answer on, for SDKs that retry at a pace of their own.
type Patient struct{ Base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (p Patient) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.Base.RoundTrip(request)
	if err != nil || (response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable) {
		return response, err
	}
	if asked := RetryAfter(response.Header); asked > 0 {
		if err := Sleep(request.Context(), min(asked, 3*MaxDelay)); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
	}
	return response, nil
}
