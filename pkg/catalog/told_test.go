package catalog

import (
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestLookup: a cluster's sessions are found without a look at them, and those of an owner by what they say, which
// takes long, so that the log says it. A command's names are looked up among the same sessions, whose entries are made
// once.
func TestLookup(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "nightly-x7k2p", Name: "session_2026-11-20_23-19-45_581717_1"}
	begun(t, store, ref, `{"ownerKind": "RayJob", "ownerName": "nightly"}`, "")
	log, said := logtest.NewNullLogger()
	c := open(store, func(o *Options) { o.Log = log })
	lookup := c.Lookup(t.Context())
	for _, test := range []struct {
		name  string
		looks bool
	}{{"nightly-x7k2p", false}, {ref.Name, false}, {"nightly", true}, {"default/nightly/latest", true}} {
		found, err := Select(lookup, []string{test.name})
		if err != nil || len(found) != 1 || found[0].Ref != ref || found[0].Described != test.looks {
			t.Errorf("%s: %+v, %v", test.name, found, err)
		}
		if told := len(said.AllEntries()) > 0; told != test.looks {
			t.Errorf("%s: told of the look: %v", test.name, told)
		}
	}
	must.OK(t, store.Delete(t.Context(), layout.MarkerKey(root, ref)))
	must.OK(t, c.Refresh(t.Context()))
	if found, err := lookup(Filter{Cluster: ref.Cluster}); err != nil || len(found) != 1 || len(said.AllEntries()) != 1 {
		t.Errorf("the same name again: %v, %v; logged %v", found, err, said.AllEntries())
	}
}
