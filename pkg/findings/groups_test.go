package findings

import (
	"strings"
	"testing"
)

// TestInGroup: a task that waits in a placement group which itself waits becomes part of the group's finding. The names
// of the task's resources contain the group's ID.
func TestInGroup(t *testing.T) {
	const id = "5cef340ec3122844cba853e18f1406000000"
	f := &finding{}
	d := demands{b: &builder{groups: []*group{{id: strings.Repeat("a", 36), finding: &finding{}}, {id: id, finding: f},
		{id: strings.Repeat("b", 36)}}}}
	d.inGroup("1 CPU_group_0_"+id+", 0.001 bundle_group_"+id, Entity{Type: "task", ID: "17", Name: "train"})
	if len(f.Entities) != 1 || f.Entities[0].ID != "17" || len(f.Evidence) != 1 ||
		!strings.Contains(f.Evidence[0].Text, "train") || len(d.b.groups[0].finding.Entities) > 0 {
		t.Errorf("%+v", f.Finding)
	}
}

// TestFit: with a strict strategy, the strategy also decides whether a group could be placed.
func TestFit(t *testing.T) {
	one := map[string]float64{"CPU": 1}
	d := demands{b: &builder{}, fits: map[string]string{"3 CPU": "the most that one node has is 2 CPU", "1 CPU": "",
		"1 CPU on a node with the labels zone=b": "no node has such labels"}}
	for strategy, want := range map[string]bool{"PACK": true, "SPREAD": true, "STRICT_PACK": false,
		"STRICT_SPREAD": false} {
		g := &group{strategy: strategy, bundles: []map[string]float64{one, one, one}}
		if d.fit(g) != want {
			t.Errorf("%s: %t", strategy, !want)
		}
	}
	if d.fit(&group{bundles: []map[string]float64{one, one}, labels: []map[string]string{nil, {"zone": "b"}}}) {
		t.Error("a group fits though no node has the labels of its second bundle")
	}
	if d.fit(&group{}) {
		t.Error("a group of which nothing is known fits")
	}
}
