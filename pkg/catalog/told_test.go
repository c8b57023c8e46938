package catalog

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// Times that metadata tells but no session can have are not believed: answers that hold them could not be written as
// JSON.
func TestTimesThatCannotBe(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
	for key, body := range map[string]string{
		layout.MarkerKey("log", ref):                 "",
		layout.MetadataKey("log", ref, layout.Start): `{"start":"0000-01-01T00:00:00+01:00"}`,
		layout.MetadataKey("log", ref,
			layout.End): `{"start":"0000-01-01T00:00:00+01:00","end":"9999-12-31T23:59:59-01:00","nodes":-3}`,
	} {
		must.OK(t, store.Create(t.Context(), key, strings.NewReader(body)))
	}
	list, err := New(Options{Store: store, Root: "log", Log: silent.Logger(), Registerer: prometheus.NewRegistry(),
		Quiet: time.Minute}).Look(t.Context())
	must.OK(t, err)
	for e := range list.All() {
		if _, err := json.Marshal([]time.Time{e.Start, e.End}); err != nil || e.Start.Year() != 2026 ||
			e.End.IsZero() || e.End.After(e.LastWrite) || e.Nodes != 0 {
			t.Errorf("start %s, end %s, %d nodes: %v", e.Start, e.End, e.Nodes, err)
		}
		return
	}
	t.Error("there is no session")
}

// TestLookup: a cluster's sessions are found without a look at them, and those of an owner by what they say, which
// takes long, so that the log says it. A command's names are looked up among the same sessions, whose entries are made
// once.
func TestLookup(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "nightly-x7k2p", Name: "session_2026-11-20_23-19-45_581717_1"}
	must.OK(t, store.Create(t.Context(), layout.MarkerKey("log", ref), strings.NewReader("")))
	must.OK(t, store.Create(t.Context(), layout.MetadataKey("log", ref, layout.Start),
		strings.NewReader(`{"ownerKind": "RayJob", "ownerName": "nightly"}`)))
	log, said := logtest.NewNullLogger()
	c := New(Options{Store: store, Root: "log", Log: log, Registerer: prometheus.NewRegistry()})
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
	must.OK(t, store.Delete(t.Context(), layout.MarkerKey("log", ref)))
	must.OK(t, c.Refresh(t.Context()))
	if found, err := lookup(Filter{Cluster: ref.Cluster}); err != nil || len(found) != 1 || len(said.AllEntries()) != 1 {
		t.Errorf("the same name again: %v, %v; logged %v", found, err, said.AllEntries())
	}
}
