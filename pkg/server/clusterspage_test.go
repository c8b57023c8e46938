package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/pkg/layout"
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
		f.ask(t, http.MethodGet, "/clusters?"+query).wants(t, http.StatusBadRequest)
	}
}

// TestLongListIsNotHeld: what /clusters sends is made row by row, however many sessions there are and however slowly a
// client reads.
func TestLongListIsNotHeld(t *testing.T) {
	const sessions = 300
	f := start(t, func(_ *Options, store *gatedStore) {
		for i := range sessions {
			put(t, store, layout.MarkerKey(root, layout.Session{Namespace: "default", Cluster: "lab",
				Name: fmt.Sprintf("session_2026-11-18_00-00-00_%06d_1", i)}), "")
		}
	})
	f.waitDescribed(t)
	w := &parts{ResponseRecorder: httptest.NewRecorder()}
	f.Config.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/clusters", nil))
	var rows []any
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil || len(rows) != sessions+2 ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d sessions, %v, %v", len(rows), w.Header(), err)
	}
	if w.largest > w.Body.Len()/10 {
		t.Errorf("%d bytes at once, of %d", w.largest, w.Body.Len())
	}
}

// parts records the size of the largest part of an answer.
type parts struct {
	*httptest.ResponseRecorder
	largest int
}

func (p *parts) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.ResponseRecorder.Write(b)
}
