package sink

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// pipes is a listener whose connections are pipes in memory.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// served runs a sink behind an HTTP server on pipes.
func served(t *testing.T, s *Sink) *pipes {
	p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: s}
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = server.Serve(p) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-stopped
		time.Sleep(time.Minute) // by the bubble's clock: connections end some time after
	})
	return p
}

// send announces a body of size bytes, sends first and then the text again and again, each after a pause, and returns
// the answer's status and when it came.
func send(t *testing.T, p *pipes, size, first int, text string, pause time.Duration) (status int, took time.Duration) {
	conn := p.dial()
	sent := make(chan struct{})
	defer func() { _ = conn.Close(); <-sent }()
	start := time.Now()
	_, _ = fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", size)
	go func() {
		defer close(sent)
		_, _ = io.WriteString(conn, strings.Repeat(" ", first))
		for left := size - first; left > 0; left -= len(text) {
			time.Sleep(pause)
			if _, err := io.WriteString(conn, text[:min(len(text), left)]); err != nil {
				return
			}
		}
	}()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("no answer: %v", err)
		return 0, time.Since(start)
	}
	_ = answer.Body.Close()
	return answer.StatusCode, time.Since(start)
}

// TestTricklingBody: connections that announce the largest body and then send hardly anything hold no memory that
// others need, and are cut off.
func TestTricklingBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, &kept{}, nil)
		p := served(t, s)
		var trickles sync.WaitGroup
		for range 20 {
			trickles.Go(func() {
				status, took := send(t, p, DefaultMaxBody, 0, " ", time.Second)
				says.True(t, status == http.StatusRequestTimeout && took <= slowGrace+time.Second,
					"a trickling body is answered %d after %v", status, took)
			})
		}
		good := "[" + strings.Repeat(`{"sessionName":"session_a"},`, 5000) + `{"sessionName":"session_a"}]`
		for range 20 {
			time.Sleep(200 * time.Millisecond)
			client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string,
				string) (net.Conn, error) {
				return p.dial(), nil
			}, DisableKeepAlives: true}}
			answer := must.Get(client.Post("http://x/v1/events", "application/json", strings.NewReader(good)))(t)
			_ = answer.Body.Close()
			says.Equal(t, answer.StatusCode, 200, "a good batch is answered")
		}
		n := s.bodies.taken.Load()
		says.True(t, n <= 20*firstBytes, "%d bytes of memory are taken by bodies of which hardly anything came", n)
		trickles.Wait()
		says.Equal(t, s.bodies.taken.Load(), 0, "bytes of memory are not given back")
		says.Equal(t, testutil.ToFloat64(s.metrics.slow), 20, "slow requests are counted")
	})
}

// TestPace: a body may come slowly, not too slowly, and what came fast earns no time to hold it.
func TestPace(t *testing.T) {
	for name, test := range map[string]struct {
		size   int
		first  int
		chunk  int
		pause  time.Duration
		status int
		most   time.Duration
	}{
		// blank is no JSON
		"steady":                   {1 << 20, 0, 64 << 10, 500 * time.Millisecond, 400, 9 * time.Second},
		"just below the rate":      {8 << 20, 0, 48 << 10, time.Second, 408, 25 * time.Second},
		"much, then hardly more":   {64 << 20, 60 << 20, 1, time.Second, 408, 7 * time.Second},
		"at the rate for too long": {32 << 20, 0, 64 << 10, 900 * time.Millisecond, 408, readTimeout + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSink(t, &kept{}, nil)
				status, took := send(t, served(t, s), test.size, test.first, strings.Repeat(" ", test.chunk),
					test.pause)
				says.True(t, status == test.status && took <= test.most, "answered %d after %v, want %d within %v",
					status, took, test.status, test.most)
				says.Equal(t, s.bodies.taken.Load(), 0, "bytes of memory are not given back")
			})
		})
	}
}

// TestSpares: buffers are kept for the next bodies, but few, none that is large, and none once no body came for
// keepFor.
func TestSpares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpares()
		defer s.idle.Stop()
		for range 100 {
			s.putBuffer(make([]byte, 1<<20))
			s.putBuffer(make([]byte, 0, maxSpare+1))
		}
		time.Sleep(keepFor - time.Second)
		for range maxSpares {
			spare := s.takeAny()
			says.True(t, len(spare) == 0 && cap(spare) == 1<<20, "%d bytes of %d", len(spare), cap(spare))
		}
		says.True(t, s.takeAny() == nil, "one more is kept")
		s.putBuffer(make([]byte, 1<<20))
		time.Sleep(keepFor - time.Second)
		got := s.getBuffer(2 << 20)
		says.True(t, len(got) == 0 && cap(got) >= 2<<20, "%d bytes of %d, want room for 2 MiB", len(got), cap(got))
		s.putBuffer(nil) // an empty body's
		s.putBuffer(make([]byte, 1<<20))
		time.Sleep(keepFor + time.Second)
		says.True(t, s.takeAny() == nil, "kept though no body came")
	})
}

// TestAnnouncedBodies: a body that announces much has no more memory than another before its bytes come, whatever
// buffer was kept for it.
func TestAnnouncedBodies(t *testing.T) {
	const size = 1 << 20
	m := newBodies(3 * size)
	m.spares.putBuffer(make([]byte, size))
	one, two := m.newBody(t.Context(), size-100), m.newBody(t.Context(), size-100)
	must.True(t, one != nil && one.taken == firstBytes && two != nil && two.taken == firstBytes, "%+v, %+v", one, two)
	must.OK(t, m.fillBody(one, strings.NewReader(strings.Repeat("x", size-100)), size-100))
	says.True(t, len(one.bytes) == size-100 && one.taken == size-100 && cap(one.bytes) == size,
		"%d bytes, of %d, take %d", len(one.bytes), cap(one.bytes), one.taken)
	m.releaseBody(one)
	m.releaseBody(two)
	n := m.taken.Load()
	says.True(t, n == 0 && m.memory.TryAcquire(m.max), "%d bytes are still taken", n)
}
