package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestTimeline: the drawing has the form that the page asks for, and wrong questions are refused.
func TestTimeline(t *testing.T) {
	f := start(t, func(o *Options, _ *gatedStore) { o.Routes = o.Dashboard.Routes() })
	f.waitDescribed(t)
	for query, want := range map[string]int{
		"": 200, "?pixels=300&colour=outcome": 200, "?from=2026-11-20T23:20:00Z&to=2026-11-20T23:21:00Z": 200,
		"?node_id=" + strings.Repeat("f", 56): 200, "?from=10m+ago": 200,
		"?colour=blue": 400, "?pixels=-1": 400, "?pixels=x": 400, "?from=lunch": 400,
		"?from=200&to=100": 400, "?width=3": 400,
	} {
		got := f.ask(t, http.MethodGet, lab+name+"/api/history/timeline"+query, asProgram)
		var answer struct {
			Data struct {
				From, To float64
				Pixels   int
				Nodes    []any
			}
		}
		err := json.Unmarshal([]byte(got.body), &answer)
		if got.status != want || want == 200 && (err != nil || answer.Data.To <= answer.Data.From ||
			answer.Data.Pixels == 0 || answer.Data.Nodes == nil) {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}
