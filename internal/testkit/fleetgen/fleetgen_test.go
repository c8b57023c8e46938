package fleetgen

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
)

// TestGeneratedFleetIsListed: all that is generated is listed, what packs tell included.
func TestGeneratedFleetIsListed(t *testing.T) {
	store := storetest.New()
	o := Options{Sessions: 50, Objects: 5, Days: 7, End: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	must.OK(t, o.Write(t.Context(), store, "log"))
	c := catalog.New(catalog.Options{
		Store: store, Root: "log", Log: silent.Logger(), Registerer: prometheus.NewRegistry(),
		Packs: &packs.Packs{Store: store, Root: "log"},
	})
	l, err := c.ReadAll(t.Context())
	must.True(t, err == nil && l.Len() == o.Sessions, "%d sessions, %v", l.Len(), err)
	p, err := l.Part(catalog.Query{Filter: catalog.Filter{Words: []string{"raysubmit_00000045", "memory"}}, Now: o.End,
		Limit: 10})
	says.True(t, err == nil && p.Found == 1 && p.Entries[0].Outcome == "failed" && p.Entries[0].Ref == o.Facts(45).Ref,
		"%+v, %v", p, err)
}
