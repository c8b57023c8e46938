package faults

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestEveryFaultIsMet: a client without retries meets faults of every kind, and as many as were asked for.
func TestEveryFaultIsMet(t *testing.T) {
	const content = "0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, content)
	}))
	defer server.Close()
	p, err := New(server.URL, 0.5, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	client := &http.Client{Timeout: 50 * time.Millisecond, Transport: &http.Transport{}}
	failed := 0
	const requests = 200
	for range requests {
		response, err := client.Post(p.URL, "text/plain", strings.NewReader("a body"))
		if err != nil {
			failed++
			continue
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || string(got) != content {
			failed++
		}
	}
	seen, counts := p.Counts()
	total := 0
	for _, fault := range all {
		if counts[fault] == 0 {
			t.Errorf("no %s", fault)
		}
		total += counts[fault]
	}
	if seen != requests || total != failed {
		t.Errorf("%d of %d requests failed; %s", failed, requests, p)
	}
}
