package state

import (
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
)

// TestFitTo: Ray 2.55 has no topology of placement groups, 2.56 had it under other names, and a newer one may have more.
func TestFitTo(t *testing.T) {
	list, err := pyjson.ParseObject([]byte(`{"result": [{"placement_group_id": "1", "name": "", "topology_strategy": {}, "label_domain_key": "rack"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	set := RowSet{Difference: Differences(PlacementGroupColumns, list)}
	names := func(detail bool) (names []string) {
		for _, c := range set.columns(PlacementGroupColumns, detail) {
			names = append(names, c.Name)
		}
		return names
	}
	want := "[placement_group_id name creator_job_id state bundles is_detached stats topology_strategy label_domain_key]"
	if got := fmt.Sprint(names(true)); got != want {
		t.Errorf("with detail %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(names(false)), "[placement_group_id name creator_job_id state]"; got != want {
		t.Errorf("without %s, want %s", got, want)
	}
}
