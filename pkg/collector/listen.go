package collector

import (
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
)

// Loopback is the pod itself, by IPv4 and IPv6: Ray's exporter may be configured with localhost, 127.0.0.1 or ::1.
const Loopback = "localhost"

// listen opens a port on an address: an IP address, "" for all addresses, or Loopback. Port 0 is any free port.
func listen(address string, port int) ([]net.Listener, error) {
	if address != Loopback {
		l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	first, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil && !noFamily(err) {
		return nil, err
	}
	var listeners []net.Listener
	if err == nil {
		listeners = append(listeners, first)
		port = portOf(first)
	}
	second, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		listeners = append(listeners, second)
	case len(listeners) == 0:
		return nil, err
	case !noFamily(err):
		return nil, errors.Join(err, first.Close())
	}
	return listeners, nil
}

// noFamily says whether the machine lacks such addresses: IPv4 or IPv6 may be disabled.
func noFamily(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EPROTONOSUPPORT)
}

func portOf(l net.Listener) int {
	if tcp, ok := l.Addr().(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// maxConnections bounds the connections at the port for metrics, which any pod can open: each takes memory.
const maxConnections = 256

// limitedListener closes connections beyond a limit at once.
type limitedListener struct {
	net.Listener
	limit int64
	open  atomic.Int64
}

func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			return &countedConn{Conn: conn, close: sync.OnceValue(func() error {
				l.open.Add(-1)
				return conn.Close()
			})}, nil
		}
		l.open.Add(-1)
		_ = conn.Close()
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	close func() error
}

func (c *countedConn) Close() error { return c.close() }

func closeAll(listeners []net.Listener) (err error) {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}
