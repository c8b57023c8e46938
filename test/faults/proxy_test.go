package faults

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestEveryFaultIsMet: a client without retries meets faults of every kind, and as many as were asked for.
func TestEveryFaultIsMet(t *testing.T) {
	const content = "0123456789"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, content)
	}))
	defer server.Close()
	p := must.Get(New(server.URL, 0.5, 1))(t)
	defer p.Close()
	client := &http.Client{Transport: &http.Transport{}}
	post := func(ctx context.Context) (ok bool) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, strings.NewReader("a body"))
		if err != nil {
			t.Error(err)
			return false
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		return err == nil && response.StatusCode == http.StatusOK && string(got) == content
	}
	failed, stalled := 0, 0
	const requests = 200
	for range requests {
		ctx, giveUp := context.WithCancel(t.Context())
		answered := make(chan bool, 1)
		go func() { answered <- post(ctx) }()
		for waiting := true; waiting; {
			select {
			case ok := <-answered:
				if !ok {
					failed++
				}
				waiting = false
			case <-time.After(5 * time.Millisecond):
				// Only a request that stalls is given up, however long others take.
				if _, counts := p.Counts(); counts[Stall] > stalled {
					stalled++
					giveUp()
				}
			}
		}
		giveUp()
	}
	seen, counts := p.Counts()
	total := 0
	for _, fault := range all {
		says.True(t, counts[fault] != 0, "no %s", fault)
		total += counts[fault]
	}
	says.True(t, seen == requests && total == failed, "%d of %d requests failed; %s", failed, requests, p)
}
