package visible

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/fleetgen"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// TestNotStoredOfMany: what is said of a session that is not stored does not need a copy of the whole list.
func TestNotStoredOfMany(t *testing.T) {
	store := storetest.New()
	fleet := fleetgen.Options{Sessions: 8 * maxAlike, End: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	must.OK(t, fleet.Write(t.Context(), store, layout.DefaultRoot))
	c := catalog.New(catalog.Options{Store: store, Root: layout.DefaultRoot, Log: silent.Logger(),
		Registerer: prometheus.NewRegistry()})
	must.OK(t, c.Refresh(t.Context()))
	v := Sessions{Catalog: c, Access: must.Get(access.New(access.Config{}, nil, silent.Logger()))(t)}
	ask := func(name string) { // none is near it
		_ = v.NotStored(t.Context(), catalog.Selector{Namespace: "team-1", Name: name, Session: "latest"})
	}
	ask("nothing-like-it") // what searches need is made once
	const most = 4 << 20   // bytes
	used := storetest.Allocated(func() { ask("rayjobqqqqqq") })
	says.True(t, used <= most, "%d bytes for a name of which all sessions have one half", used)
}
