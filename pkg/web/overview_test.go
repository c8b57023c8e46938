package web

import (
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/fleet"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestClocksOfNodes: what nodes cost and jobs took goes by the nodes' clocks, also if these are ahead of the store's.
func TestClocksOfNodes(t *testing.T) {
	began := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	ended := began.Add(time.Hour)
	const ahead = 15 * time.Minute
	o := Overview{
		Frame: Frame{Head: &Head{Start: began, End: ended}}, Entry: catalog.Entry{Start: began, End: ended},
		Began: began, Ended: ended.Add(ahead),
		Nodes:  []*moment.Node{{Start: began.Add(ahead).UnixNano()}},
		Report: &findings.Report{Jobs: []findings.Job{{JobID: "01000000"}}},
		OfJobs: []moment.Job{{ID: "01000000", Start: began.Add(2 * ahead).UnixNano()}},
		Prices: &fleet.Prices{Currency: "USD", Price: fleet.Price{Node: 2}},
	}
	if cost, took := o.Cost(), o.Jobs()[0].Took; cost != "2.00 USD" || took != time.Hour-ahead {
		t.Errorf("%s, %s", cost, took)
	}
}
