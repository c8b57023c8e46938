package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestPagesOfClusters: /clusters comes in parts that are the whole, and says what is wrong with its parameters.
func TestPagesOfClusters(t *testing.T) {
	f := start(t, nil)
	f.waitDescribed(t)
	sessions := func(query string) (all []string, link string) {
		got := f.ask(t, http.MethodGet, "/clusters"+query)
		var rows []struct{ Session string }
		if err := json.Unmarshal([]byte(got.body), &rows); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", query, got.status, err, got.body)
		}
		for _, r := range rows {
			all = append(all, r.Session)
		}
		return all, got.header.Get("Link")
	}
	all, link := sessions("")
	if len(all) != 2 || link != "" {
		t.Fatalf("%v, %s", all, link)
	}
	first, link := sessions("?limit=1")
	next, _, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	second, end := sessions(next)
	if len(first) != 1 || len(second) != 1 || first[0] != all[0] || second[0] != all[1] || end != "" {
		t.Errorf("parts %v and %v of %v, at last %q", first, second, all, end)
	}
	if none, _ := sessions("?q=nothing"); none == nil && len(none) != 0 {
		t.Errorf("%v", none)
	}
	for _, query := range []string{"limit=0", "from=yesterday", "limit=x", "limit=-1", "continue=!", "continue=AAAA"} {
		if got := f.ask(t, http.MethodGet, "/clusters?"+query); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got.status)
		}
	}
}
