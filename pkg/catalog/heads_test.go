package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestFurtherHead: a session that ended long ago is running again within one listing of a further head's marker, and
// after its end has the later one.
func TestFurtherHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		ref := v16("lab", time.Now().UTC().Format("session_2006-01-02_15-04-05_000000_1"))
		write := func(node rayid.Node) {
			put(t, store, layout.ChunkKey(layout.LogKey(root, ref, node, "raylet.out"), time.Now().Unix(),
				layout.Plain), "a line\n")
		}
		end := func() {
			key := layout.MetadataKey(root, ref, layout.End)
			if _, err := store.Stat(t.Context(), key); err == nil {
				key = layout.SnapshotVersionKey(key, time.Now())
			}
			put(t, store, key, fmt.Sprintf(`{"end":%q}`, time.Now().UTC().Format(time.RFC3339)))
		}
		put(t, store, layout.MarkerKey(root, ref), "")
		write(rayid.Node{1})
		time.Sleep(time.Minute)
		end()
		c := started(t, store, withFacts)
		state := func() Entry {
			e, err := c.Find(context.Background(), Selector{Namespace: "default", Name: "lab", Session: ref.Name})
			must.OK(t, err)
			return e
		}
		time.Sleep(9 * time.Hour)
		if e := state(); e.Running {
			t.Fatalf("after its end: %+v", e)
		}
		first := state().End
		put(t, store, layout.RecentHeadKey(root, ref, time.Now()), "")
		time.Sleep(40 * time.Second) // a listing finds the marker before there is anything else of the further head
		write(rayid.Node{2})
		time.Sleep(40 * time.Second)
		if e := state(); !e.Running || !e.End.IsZero() {
			t.Errorf("with a further head: %+v", e)
		}
		for range 20 {
			write(rayid.Node{2})
			time.Sleep(time.Minute)
		}
		end()
		second := time.Now()
		time.Sleep(time.Hour)
		if e := state(); e.Running || !e.End.Equal(second) || second.Equal(first) {
			t.Errorf("after the further head: %+v", e)
		}
	})
}

// TestOneEarlyTime: a copy gave all objects a time before the session began. The list has the end that metadata tells.
func TestOneEarlyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		began := time.Now().AddDate(0, 0, 20).UTC()
		ref := v16("lab", began.Format("session_2006-01-02_15-04-05_000000_1"))
		begun(t, store, ref, fmt.Sprintf(`{"start":%q}`, began.Format(time.RFC3339)),
			fmt.Sprintf(`{"end":%q}`, began.Add(time.Hour).Format(time.RFC3339)))
		time.Sleep(40 * 24 * time.Hour)
		c := started(t, store, withFacts)
		time.Sleep(time.Minute)
		e, err := c.Find(context.Background(), Selector{Namespace: "default", Name: "lab", Session: ref.Name})
		says.True(t, err == nil && !e.Running && e.Start.Equal(began) && e.Duration(time.Now()) == time.Hour,
			"%+v lasted %s: %v", e, e.Duration(time.Now()), err)
	})
}

// TestClocksAhead: times of nodes that are later than the store's are not believed, so no session is longer than it was
// stored.
func TestClocksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		ref := v16("lab", time.Now().AddDate(3, 0, 0).UTC().Format("session_2006-01-02_15-04-05_000000_1"))
		began := time.Now()
		begun(t, store, ref, `{"start":"2262-01-01T00:00:00Z"}`, "")
		time.Sleep(time.Hour)
		put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2263-01-01T00:00:00Z","nodes":3}`)
		c := started(t, store, withFacts)
		time.Sleep(30 * time.Minute)
		e, err := c.Find(context.Background(), Selector{Namespace: "default", Name: "lab", Session: ref.Name})
		says.True(t, err == nil && !e.Running && e.Start.Equal(began) && e.Duration(time.Now()) == time.Hour,
			"%+v lasted %s: %v", e, e.Duration(time.Now()), err)
		var nodes []string
		for _, at := range []string{"1", "946684800000", "9214646400000"} { // 1970, the session's start, 2261
			node := `{"node_id":"` + at + `","start_time_ms":` + at +
				`,"end_time_ms":9214646400001,"resources_total":{"CPU":4}}`
			nodes = append(nodes, node, node) // the second is damage
		}
		f := packs.Facts{Start: e.Start, End: e.End}
		err = new(sources).readHours(jsonstream.New(strings.NewReader(`{"data":{"result":{"result":[`+strings.Join(nodes, ",")+`]}}}`), maxValue), &f)
		says.True(t, err == nil && f.Hours != nil && f.Hours.Node == 2, "three nodes in one hour lived %+v, %v",
			f.Hours, err)
	})
}

// TestLookBeforeTheFirstObject: collectors store a session's marker first. If its objects are listed before the first
// one is stored, they are listed again soon, and the session is not packed as an ended one.
func TestLookBeforeTheFirstObject(t *testing.T) {
	store := storetest.New()
	c := open(store, withFacts, func(o *Options) {
		o.Packs, o.Interval = &packs.Packs{Store: store, Root: root}, time.Second
	})
	ref := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	put(t, store, layout.MarkerKey(root, ref), "")
	e := entriesOf(fresh(t, c))[0]
	says.True(t, e.Described && e.Running, "with only a marker: %+v", e)
	says.Equal(t, len(c.Unpacked()), 0, "a session that has just begun waits to be packed as an ended one")
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
