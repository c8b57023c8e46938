package catalog

import (
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestLookBeforeTheFirstObject: collectors store a session's marker first. If its objects are listed before the first
// one is stored, they are listed again soon, and the session is not packed as an ended one.
func TestLookBeforeTheFirstObject(t *testing.T) {
	store := storetest.New()
	c := open(store, withFacts, func(o *Options) {
		o.Packs, o.Interval = &packs.Packs{Store: store, Root: root}, time.Second
	})
	ref := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	put(t, store, layout.MarkerKey(root, ref), "")
	if e := entriesOf(fresh(t, c))[0]; !e.Described || !e.Running {
		t.Errorf("with only a marker: %+v", e)
	}
	if len(c.Unpacked()) != 0 {
		t.Error("a session that has just begun waits to be packed as an ended one")
	}
	put(t, store, layout.MetadataKey(root, ref, layout.Start), `{"ownerKind":"rayjob","ownerName":"nightly"}`)
	must.Happen(t, "a session with only a marker is read again", func() bool {
		c.mu.Lock()
		c.schedule.reset()
		c.mu.Unlock()
		next, ok := c.nextDue() // not before a while that depends on how long reading took
		return ok && next == ref
	})
	c.describe(t.Context(), ref)
	if e := entriesOf(c.Cached())[0]; e.OwnerName != "nightly" || e.Objects != 1 {
		t.Errorf("with an object: %+v", e)
	}
}
