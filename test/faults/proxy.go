// Package faults is a proxy that stands between a client and an HTTP server and does what networks and busy services
// do: it loses answers, breaks connections, refuses and stalls. Which request meets which fault is drawn from a seed.
package faults

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one kind of trouble.
type Fault string

const (
	// Stall never answers, and does not pass the request on.
	Stall Fault = "stall"
	// ResetRequest breaks the connection in the middle of the request's body; the server gets none of it.
	ResetRequest Fault = "reset request"
	// Refuse429, Refuse500 and Refuse503 answer without passing the request on; the first and the last ask for a pause
	// (Retry-After).
	Refuse429 Fault = "429"
	Refuse500 Fault = "500"
	Refuse503 Fault = "503"
	// LoseAnswer lets the server do what it is asked and breaks the connection instead of answering.
	LoseAnswer Fault = "lost answer"
	// ResetAnswer breaks the connection in the middle of the answer's body.
	ResetAnswer Fault = "reset answer"
	// Truncate ends the connection in order, but before as many bytes as Content-Length promised.
	Truncate Fault = "truncated"
	// WrongLength promises and sends fewer bytes than the object has, all in order: nothing but the content shows it.
	WrongLength Fault = "wrong length"
)

var all = []Fault{Stall, ResetRequest, Refuse429, Refuse500, Refuse503, LoseAnswer, ResetAnswer, Truncate, WrongLength}

// mostInARow is how many faults in a row one request meets at most: clients give up some time.
const mostInARow = 2

// Proxy passes requests on to a server, and some not.
type Proxy struct {
	// URL is where clients find the proxy.
	URL string
	// Refusal gives the body of a refusal as the protocol at hand wants it.
	Refusal func(status int) string
	// Deny says which requests are refused with 403, before any fault.
	Deny func(*http.Request) bool
	// MaxBody is how many bytes a request's body may have, more are refused with 413 before any fault; 0 is no limit.
	MaxBody int64
	// Spare says which requests do not meet a fault, because the server is known to do what is wrong when they come
	// again.
	Spare func(*http.Request, Fault) bool
	// Host replaces the host that requests name, for servers that insist on their own; empty passes it on, since it may
	// be signed.
	Host string

	target *url.URL
	client *http.Transport
	server *httptest.Server
	stop   chan struct{}

	mu       sync.Mutex
	random   *rand.Rand
	share    float64
	row      map[string]int // faults in a row, by request
	counts   map[Fault]int
	requests int
}

// New starts a proxy for the server at target; share is the part of requests that meets a fault, from 0 to 1.
func New(target string, share float64, seed uint64) (*Proxy, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Refusal: func(int) string { return "" },
		Deny:    func(*http.Request) bool { return false },
		Spare:   func(*http.Request, Fault) bool { return false },
		target:  u, stop: make(chan struct{}),
		// A client that waits for a server's consent to a large body must get to wait: a server that refuses at once
		// breaks the connection to one that goes on sending, and its answer may be lost with it.
		client: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64,
			ExpectContinueTimeout: 10 * time.Second},
		random: rand.New(rand.NewPCG(seed, seed)), share: share, row: map[string]int{}, counts: map[Fault]int{},
	}
	p.server = httptest.NewServer(p)
	p.URL = p.server.URL
	return p, nil
}

// Close stops the proxy.
func (p *Proxy) Close() {
	close(p.stop)
	p.server.CloseClientConnections()
	p.server.Close()
	p.client.CloseIdleConnections()
}

// Counts tells how many requests came and what faults were injected.
func (p *Proxy) Counts() (requests int, faults map[Fault]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, maps.Clone(p.counts)
}

// String is Counts in a line.
func (p *Proxy) String() string {
	requests, faults := p.Counts()
	total := 0
	var parts []string
	for _, fault := range slices.Sorted(maps.Keys(faults)) {
		total += faults[fault]
		parts = append(parts, fmt.Sprintf("%s %d", fault, faults[fault]))
	}
	return fmt.Sprintf("%d faults in %d requests: %s", total, requests, strings.Join(parts, ", "))
}

// draw decides what a request meets, "" for nothing.
func (p *Proxy) draw(r *http.Request) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	request := r.Method + " " + r.URL.Path + " " + r.Header.Get("Range")
	if p.row[request] >= mostInARow || p.random.Float64() >= p.share {
		delete(p.row, request)
		return ""
	}
	fault := all[p.random.IntN(len(all))]
	if p.Spare(r, fault) {
		return ""
	}
	p.row[request]++
	return fault
}

func (p *Proxy) count(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[fault]++
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.Deny(r) {
		p.refuse(w, r, http.StatusForbidden)
		return
	}
	if p.MaxBody > 0 {
		if r.ContentLength > p.MaxBody {
			p.refuse(w, r, http.StatusRequestEntityTooLarge)
			return
		}
		// Of a body whose length is not told so much is read at most, as proxies do that buffer.
		body, err := io.ReadAll(io.LimitReader(r.Body, p.MaxBody+1))
		if err != nil {
			reset(w)
			return
		}
		if int64(len(body)) > p.MaxBody {
			p.refuse(w, r, http.StatusRequestEntityTooLarge)
			return
		}
		if r.ContentLength != 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
	}
	fault := p.draw(r)
	switch fault {
	case Stall:
		p.count(fault)
		select {
		case <-r.Context().Done():
		case <-p.stop:
		}
		reset(w)
		return
	case ResetRequest:
		p.count(fault)
		_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength/2)
		reset(w)
		return
	case Refuse429, Refuse500, Refuse503:
		p.count(fault)
		status, _ := strconv.Atoi(string(fault))
		p.refuse(w, r, status)
		return
	}
	response, err := p.forward(r)
	if err != nil {
		reset(w) // the server's own trouble, or the client's end
		return
	}
	defer response.Body.Close()
	p.answer(w, r, response, fault)
}

func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, status int) {
	// A server that refuses a large body does not read it all.
	_, _ = io.CopyN(io.Discard, r.Body, 64<<10)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if status == http.StatusRequestEntityTooLarge {
		// A proxy does not know the server's protocol.
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><head><title>413 Request Entity Too Large</title></head></html>")
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, p.Refusal(status))
	}
}

// forward passes a request on as it came, but for Accept-Encoding, to which proxies before stores add: its host is part
// of what is signed.
func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Header.Set("Accept-Encoding", strings.Join(append(out.Header["Accept-Encoding"], "gzip(gfe)"), ","))
	out.URL.Scheme, out.URL.Host = p.target.Scheme, p.target.Host
	out.RequestURI = ""
	if p.Host != "" {
		out.Host = p.Host
	}
	if r.ContentLength == 0 {
		out.Body = nil // else it would be sent in chunks
	}
	return p.client.RoundTrip(out)
}

func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, response *http.Response, fault Fault) {
	body, length := io.Reader(response.Body), response.ContentLength
	if fault != "" && length < 0 && r.Method != http.MethodHead {
		// Sent in chunks: its length is known when it is here.
		whole, err := io.ReadAll(body)
		if err != nil {
			reset(w)
			return
		}
		body, length = bytes.NewReader(whole), int64(len(whole))
		response.Header.Set("Content-Length", strconv.FormatInt(length, 10))
	}
	send := length
	switch {
	case fault == LoseAnswer:
		p.count(fault)
		_, _ = io.Copy(io.Discard, body)
		reset(w)
		return
	case length < 2 || r.Method == http.MethodHead: // nothing to cut, or not known
		fault = ""
	case fault != "":
		p.count(fault)
		send = length / 2
	}
	header := w.Header()
	maps.Copy(header, response.Header)
	if fault == WrongLength {
		header.Set("Content-Length", strconv.FormatInt(send, 10))
	}
	w.WriteHeader(response.StatusCode)
	if fault == "" {
		_, _ = io.Copy(w, body)
		return
	}
	_, _ = io.CopyN(w, body, send)
	switch fault {
	case ResetAnswer:
		_ = http.NewResponseController(w).Flush()
		reset(w)
	case Truncate:
		_ = http.NewResponseController(w).Flush()
		if conn := hijack(w); conn != nil {
			_ = conn.Close()
		}
	}
}

// reset breaks a connection so that the other end sees a reset.
func reset(w http.ResponseWriter) {
	conn := hijack(w)
	if conn == nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Time{})
	return conn
}
