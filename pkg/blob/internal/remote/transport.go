// Package remote has the code that the drivers of remote stores share: connections that fail when they stall, the
// pauses between retries, a reader that continues broken downloads, create-only writes, and uploads in parts.
package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Shared are the settings that all drivers of remote stores have.
type Shared struct {
	// CreateBucket allows making the bucket or container where there is none.
	CreateBucket bool
	// Stall is how long a request may make no progress before it is sent again. 0: DefaultStall.
	Stall time.Duration
}

// DefaultStall is how long a request may make no progress when nothing else is configured.
const DefaultStall = 30 * time.Second

// Transport is an HTTP transport set by Configure. When a request has ended, its body is not read any more. A refusal
// is returned after the pause that it asks for (Pause), and no longer asks for one: some SDKs ignore Retry-After,
// others give up when it is long.
func Transport(stall time.Duration) http.RoundTripper {
	transport := &http.Transport{}
	Configure(transport, stall)
	return pausing{ownBody{transport}}
}

// Configure makes connections fail when nothing was sent or received for the time of stall. A limit for a whole request
// would have to allow for the largest object over the slowest link. Bodies are not decompressed.
func Configure(transport *http.Transport, stall time.Duration) {
	stall = cmp.Or(stall, DefaultStall)
	dialer := &net.Dialer{Timeout: min(stall, 10*time.Second), KeepAlive: 30 * time.Second}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &stallConn{Conn: conn, stall: stall}, nil
	}
	transport.Proxy = proxyFor
	transport.ForceAttemptHTTP2 = true
	transport.DisableCompression = true
	transport.MaxIdleConns = 128
	transport.MaxIdleConnsPerHost = 64
	transport.IdleConnTimeout = min(stall, 90*time.Second)
	transport.TLSHandshakeTimeout = min(stall, 10*time.Second)
	transport.ExpectContinueTimeout = time.Second
}

// proxyFor returns the proxy that the environment sets for a request; nil if there is none. Addresses that mean the
// machine itself, which gives pods their credentials (169.254.169.254, 169.254.170.23 on EKS), are asked directly,
// whatever NO_PROXY says: a proxy would ask its own machine.
func proxyFor(request *http.Request) (*url.URL, error) {
	ip, _ := netip.ParseAddr(request.URL.Hostname())
	if ip.IsLinkLocalUnicast() || netip.MustParsePrefix("fd00:ec2::/32").Contains(ip) { // Amazon's by IPv6
		return nil, nil
	}
	return http.ProxyFromEnvironment(request)
}

// stallConn makes reads and writes fail that make no progress. HTTP's transport waits for the answer while it still
// sends the request: until the other side has taken the request, that nothing is received is no stall.
type stallConn struct {
	net.Conn
	stall time.Duration
	asked atomic.Bool // something was sent since something was received
}

// blocked is the time from which a write had to wait until the other side took what was sent before. Shorter writes
// show nothing: the kernel also takes some megabytes for a side that is gone.
const blocked = 10 * time.Millisecond

func (c *stallConn) Read(p []byte) (int, error) {
	if err := c.waitForAnswer(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.asked.Store(false)
	}
	return n, err
}

// Write implements net.Conn. It fails if nothing can be sent for the time of stall. With the beginning of a request,
// and again after each write that was blocked, it starts the time within which the other side has to answer; see
// waitForAnswer.
func (c *stallConn) Write(p []byte) (int, error) {
	began := time.Now()
	if err := c.SetWriteDeadline(began.Add(c.stall)); err != nil {
		return 0, err
	}
	if !c.asked.Swap(true) {
		if err := c.waitForAnswer(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Write(p)
	if err == nil && time.Since(began) >= blocked {
		err = c.waitForAnswer()
	}
	return n, err
}

// waitForAnswer makes reads fail, also one under way, if nothing is received for the time of stall from now on.
func (c *stallConn) waitForAnswer() error { return c.SetReadDeadline(time.Now().Add(c.stall)) }

// ownBody keeps a request that has ended from reading its body. A server that is busy answers before it has read the
// body, and HTTP's own transport may then still be reading it while an SDK sends the same body again: both would get
// only parts of it. (The SDK for S3 does this itself.)
type ownBody struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper. When it returns, the transport can no longer read the request's body, which
// its owner may read for something else then.
func (o ownBody) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || request.Body == http.NoBody {
		return o.base.RoundTrip(request)
	}
	var ended ending
	defer func() { // waits for the read under way, and lets none follow
		ended.mu.Lock()
		defer ended.mu.Unlock()
		ended.ended = true
	}()
	getBody := request.GetBody
	request = request.WithContext(request.Context()) // a copy: a transport must not change the request
	request.Body = &endingBody{request.Body, &ended, request.ContentLength}
	if getBody != nil { // a connection that the server had closed is replaced
		request.GetBody = func() (io.ReadCloser, error) {
			body, err := getBody()
			return &endingBody{body, &ended, request.ContentLength}, err
		}
	}
	return o.base.RoundTrip(request)
}

// ending is whether a request has ended.
type ending struct {
	mu    sync.Mutex
	ended bool
}

// endingBody can be read until its request has ended.
type endingBody struct {
	io.ReadCloser
	of   *ending
	left int64 // bytes, if the length is known
}

var errEnded = errors.New("the request has ended")

// Read implements io.Reader. After the request has ended, it returns errEnded, or io.EOF if all bytes were read.
func (b *endingBody) Read(p []byte) (int, error) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	switch {
	case !b.of.ended:
		n, err := b.ReadCloser.Read(p)
		b.left -= int64(n)
		return n, err
	case b.left == 0:
		return 0, io.EOF // asked for once more after the last byte: with an error the connection would be given up
	}
	return 0, errEnded
}

// pausing makes the pauses that refusals ask for.
type pausing struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper. Before it returns a refusal, it makes the pause that this asks for (Pause).
func (p pausing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.base.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if err := Pause(request.Context(), response.StatusCode, response.Header); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	response.Header.Del(retryAfter)
	return response, nil
}
