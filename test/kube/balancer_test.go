package kube_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// balancer is what a Service is to its clients: connections go to the ready replicas in turn, whoever they come from.
// As in Kubernetes a replica is found to be ready or not by asking it now and then, and a connection to one that is
// gone is refused.
type balancer struct {
	net.Listener
	mu       sync.Mutex
	replicas map[string]bool // ready, by address
	order    []string
	next     int
}

func newBalancer(t *testing.T, replicas ...string) *balancer {
	t.Helper()
	b := &balancer{Listener: listen(t, "127.0.0.1:0"), replicas: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.accept(ctx, &running) })
	running.Go(func() {
		for ctx.Err() == nil {
			b.probe()
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); _ = b.Close(); running.Wait() })
	for _, r := range replicas {
		b.add(r)
	}
	return b
}

func (b *balancer) add(replica string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order = append(b.order, replica)
	b.replicas[replica] = false
}

// ready counts the replicas that are.
func (b *balancer) ready() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ready := range b.replicas {
		if ready {
			n++
		}
	}
	return n
}

func (b *balancer) probe() {
	b.mu.Lock()
	order := append([]string(nil), b.order...)
	b.mu.Unlock()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	for _, replica := range order {
		resp, err := client.Get("http://" + replica + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		b.mu.Lock()
		b.replicas[replica] = err == nil && resp.StatusCode == http.StatusOK
		b.mu.Unlock()
	}
}

func (b *balancer) choose() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.order {
		b.next++
		if replica := b.order[b.next%len(b.order)]; b.replicas[replica] {
			return replica
		}
	}
	return ""
}

func (b *balancer) accept(ctx context.Context, running *sync.WaitGroup) {
	for {
		conn, err := b.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		running.Go(func() { carry(ctx, conn, b.choose()) })
	}
}

// carry passes bytes on between a connection and an address, in both directions, until one side ends or ctx does.
func carry(ctx context.Context, conn net.Conn, address string) {
	defer func() { _ = conn.Close() }()
	other, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		_ = conn.(*net.TCPConn).SetLinger(0) // reset
		return
	}
	defer func() { _ = other.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close(); _ = other.Close() })()
	go func() {
		_, _ = io.Copy(other, conn)
		_ = other.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, other)
}
