package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxRead bounds the time of reading one endpoint.
	maxRead = 10 * time.Second
	// seriesBytes is how many bytes of an answer one series may take on average; Ray's take about 350.
	seriesBytes = 1 << 10
	minAnswer   = 4 << 20
)

// client sends requests to ports of this host.
type client struct {
	http  *http.Client
	hosts []string
	limit int64 // bytes of an answer
}

func newClient(o Options) *client {
	return &client{
		http: &http.Client{
			Transport: &http.Transport{
				Proxy: nil, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		// Ray's exporter listens on all addresses, or on the loopback if that is the node's.
		hosts: []string{"127.0.0.1", o.Host},
		limit: max(minAnswer, int64(o.MaxSeries)*seriesBytes),
	}
}

// errTooLong says that an answer is too long for Options.MaxSeries.
var errTooLong = errors.New("the answer is too long and its end is left out; raise --metrics-max-series")

// get asks a port for its metrics.
func (c *client) get(ctx context.Context, port int) (io.ReadCloser, error) {
	var failed error
	for _, host := range c.hosts {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/metrics", nil)
		if err != nil {
			return nil, err
		}
		r.Header.Set("Accept", "text/plain;version=0.0.4")
		resp, err := c.http.Do(r)
		if err != nil {
			failed = errors.Join(failed, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		if resp.StatusCode != http.StatusOK {
			_ = resp.Body.Close()
			return nil, fmt.Errorf("status %d", resp.StatusCode)
		}
		return &limitedBody{ReadCloser: resp.Body, left: c.limit}, nil
	}
	return nil, failed
}

// limitedBody returns errTooLong after a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left int64
}

func (l *limitedBody) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
