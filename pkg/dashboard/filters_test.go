package dashboard

import (
	"net/http"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestFiltersOnMissingValues: rows of Ray's tables lack what is not set, and no filter keeps a row that lacks its
// column. Jobs have a null there, which differs from every value.
func TestFiltersOnMissingValues(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	a := newAsker(t, load(t, rec.Store(), rec.Session), Options{})
	for _, tt := range []struct {
		list, column string
		kept         bool
	}{
		{"workers", "exit_type", false}, {"workers", "debugger_port", false}, {"actors", "node_id", false},
		{"actors", "placement_group_id", false},
		{"jobs", "job_id", true}, {"jobs", "submission_id", true},
	} {
		lacking := func(filter string) (n int) {
			for _, v := range a.data("/api/v0/" + tt.list + "?detail=1&limit=10000" +
				filter).Object("result").List("result") {
				if v.(*pyjson.Object).Get(tt.column) == nil {
					n++
				}
			}
			return n
		}
		all, want := lacking(""), 0
		if tt.kept {
			want = all
		}
		if got := lacking("&filter_keys=" + tt.column + "&filter_predicates=!%3D&filter_values=7"); all == 0 ||
			got != want {
			t.Errorf("%s whose %s is not 7: %d that have none, want %d of %d", tt.list, tt.column, got, want, all)
		}
	}
}

// TestFilterKeysInCapitals: Ray's own store knows only keys in small letters. It neither refuses values of others nor
// leaves rows out for them.
func TestFilterKeysInCapitals(t *testing.T) {
	a := recorded(t)
	for _, url := range []string{"/api/v0/actors?filter_keys=State", "/api/v0/actors?filter_keys=JOB_ID",
		"/api/v0/nodes?filter_keys=STATE", "/api/v0/nodes?filter_keys=Node_ID"} {
		list := a.data(url + "&filter_predicates=%3D&filter_values=odd").Object("result")
		if list.Int("total") == 0 || list.Int("num_after_truncation") != list.Int("total") ||
			list.Int("num_filtered") != 0 {
			t.Errorf("%s: %s", url, pyjson.Append(nil, list))
		}
	}
}

// TestLivingWorkers: Ray's own store leaves out dead workers, so they do not count as listed, if the filter is written
// as it expects.
func TestLivingWorkers(t *testing.T) {
	a := recorded(t)
	for value, leftOut := range map[string]bool{"True": true, "true": false, "1": false} {
		list := a.data("/api/v0/workers?filter_keys=is_alive&filter_predicates=%3D&filter_values=" +
			value).Object("result")
		total, listed, matching := list.Int("total"), list.Int("num_after_truncation"), list.Int("num_filtered")
		if matching == 0 || matching == total || leftOut && listed != matching || !leftOut && listed != total {
			t.Errorf("is_alive=%s: %d of %d listed, %d match", value, listed, total, matching)
		}
	}
}

// TestFilterWithoutValue: Ray fails; an unfiltered list would look like the answer.
func TestFilterWithoutValue(t *testing.T) {
	a := recorded(t)
	for _, url := range []string{"/api/v0/nodes?filter_keys=state&filter_predicates=%3D",
		"/api/v0/tasks/summarize?filter_values=x"} {
		if w := a.get(url); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", url, w.Code, w.Body)
		}
	}
}
