package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/catalog/lifetime"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

const root = "log"

// bucket is a store, and a catalog over it.
func bucket() (*storetest.Store, *Catalog) {
	store := storetest.New()
	return store, open(store)
}

// open is a catalog over a store, with options that change sets.
func open(store blob.Reader, change ...func(*Options)) *Catalog {
	o := Options{Store: store, Root: root, Log: silent.Logger(), Registerer: prometheus.NewRegistry()}
	for _, set := range change {
		set(&o)
	}
	return New(o)
}

// started is a catalog that lists by itself until the test ends.
func started(t *testing.T, store blob.Reader, change ...func(*Options)) *Catalog {
	c := open(store, change...)
	c.Start()
	t.Cleanup(c.Close)
	return c
}

func withFacts(o *Options) { o.Facts = true }

// begun stores the marker of a session, and the metadata of its start and its end unless they are empty.
func begun(t *testing.T, store blob.Creator, ref layout.Session, start, end string) {
	t.Helper()
	put(t, store, layout.MarkerKey(root, ref), "")
	for kind, body := range map[string]string{layout.Start: start, layout.End: end} {
		if body != "" {
			put(t, store, layout.MetadataKey(root, ref, kind), body)
		}
	}
}

func put(t *testing.T, store blob.Creator, key, body string) {
	t.Helper()
	must.OK(t, store.Create(t.Context(), key, bytes.NewReader([]byte(body))))
}

func v16(cluster, name string) layout.Session {
	return layout.Session{Namespace: "default", Cluster: cluster, Name: name}
}

// fresh is the catalog's list after one round of what Start does.
func fresh(t *testing.T, c *Catalog) Listing {
	t.Helper()
	must.OK(t, c.Refresh(t.Context()))
	c.describeAll(t.Context())
	return c.List(t.Context())
}

func entriesOf(l Listing) []Entry { return slices.Collect(l.All()) }

func TestListHasMetadataOfBothLayouts(t *testing.T) {
	store, c := bucket()
	withMetadata := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	begun(t, store, withMetadata, `{"ownerKind":"rayjob","ownerName":"nightly","start":"2026-11-20T23:19:40Z"}`,
		`{"rayVersion":"2.60.0","end":"2026-11-20T23:40:00Z","nodes":3}`)
	put(t, store, layout.IndexKey(root, withMetadata, "tasks"), "12345")
	newer := layout.Session{Version: layout.V17, Namespace: "prod", Cluster: "svc-x", OwnerKind: "rayservice",
		OwnerName: "svc", Name: "session_2026-11-19_08-00-00_000000_7"}
	put(t, store, layout.MarkerKey(root, newer), "")
	put(t, store, layout.SnapshotKey(root, newer, "/api/v0/cluster_metadata"),
		`{"result":true,"data":{"rayVersion":"2.55.1"}}`)
	empty := v16("gone", "session_2026-11-18_00-00-00_000000_1")
	put(t, store, layout.MarkerKey(root, empty), "")
	put(t, store, root+"/metadir/not-a-cluster/session_x", "")
	store.Age(time.Hour)

	l := fresh(t, c)
	must.True(t, l.Err == nil && len(entriesOf(l)) == 3, "%d entries, error %v", len(entriesOf(l)), l.Err)
	first := entriesOf(l)[0]
	if first.Ref != withMetadata || first.OwnerKind != RayJob || first.OwnerName != "nightly" ||
		first.RayVersion != "2.60.0" || first.Nodes != 3 || first.Running {
		t.Errorf("session with metadata: %+v", first)
	}
	says.Equal(t, first.Duration(time.Now()), 20*time.Minute+20*time.Second, "duration")
	second := entriesOf(l)[1]
	if second.Ref != newer || second.OwnerKind != RayService || second.OwnerName != "svc" ||
		second.RayVersion != "2.55.1" || second.Running || !second.End.Equal(second.LastWrite) {
		t.Errorf("session of the newer layout: %+v", second)
	}
	if third := entriesOf(l)[2]; third.Ref != empty || third.Objects != 0 || !third.Described || third.Running ||
		third.Duration(time.Now()) != 0 {
		t.Errorf("marker without data: %+v", third)
	}
}

func TestRunningUntilQuietOrEndMarker(t *testing.T) {
	store, c := bucket()
	ref := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	put(t, store, layout.MarkerKey(root, ref), "")
	store.Age(time.Hour)
	put(t, store, layout.LogKey(root, ref, rayid.Node{1}, "raylet.out"), "{}")
	e := entriesOf(fresh(t, c))[0]
	says.True(t, e.Running && e.End.IsZero(), "just written: %+v", e)
	put(t, store, layout.MetadataKey(root, ref, layout.End), `{"end":"2026-11-20T23:40:00Z"}`)
	c.describe(t.Context(), ref)
	if e := entriesOf(c.Cached())[0]; e.Running || e.End.IsZero() {
		t.Errorf("with an end marker: %+v", e)
	}
}

// TestEndedSessionGrowsForAWhile: workers store their last seconds after the end, and a store's times may be cut to
// seconds.
func TestEndedSessionGrowsForAWhile(t *testing.T) {
	store, c := bucket()
	ref := v16("lab", "session_2026-11-20_23-19-45_581717_22125")
	begun(t, store, ref, "", `{"end":"2026-11-20T23:40:00Z"}`)
	store.Age(time.Hour)
	last := entriesOf(fresh(t, c))[0].LastWrite
	for since, want := range map[time.Duration]bool{-time.Second: true, 300 * time.Millisecond: true,
		lifetime.LateWrites - time.Second: true, lifetime.LateWrites + time.Second: false} {
		says.Equal(t, c.Growing(ref, last.Add(since)), want, "read %s after the last write: growing", since)
	}
}

// TestMetadataThatCannotBe: damaged metadata is ignored. Times that no session can have are not believed: answers that
// hold them could not be written as JSON.
func TestMetadataThatCannotBe(t *testing.T) {
	const year0 = `{"start":"0000-01-01T00:00:00+01:00"`
	for start, end := range map[string]string{
		`{"start":"yesterday"`: `[1]`, year0 + `}`: year0 + `,"end":"9999-12-31T23:59:59-01:00","nodes":-3}`,
	} {
		store, c := bucket()
		begun(t, store, v16("lab", "session_2026-11-20_23-19-45_581717_22125"), start, end)
		store.Age(time.Hour)
		e := entriesOf(fresh(t, c))[0]
		_, err := json.Marshal([]time.Time{e.Start, e.End})
		if err != nil || !e.Described || e.Running || e.Objects != 2 || e.Nodes != 0 || e.End.IsZero() ||
			!e.Start.Equal(time.Date(2026, 11, 20, 23, 19, 45, 0, time.UTC)) || e.End.After(e.LastWrite) {
			t.Errorf("%s, %s: %+v, %v", start, end, e, err)
		}
	}
}

func TestFind(t *testing.T) {
	store, c := bucket()
	old, last := v16("lab", "session_2026-11-19_00-00-00_000000_1"), v16("lab", "session_2026-11-20_00-00-00_000000_1")
	job := layout.Session{Version: layout.V17, Namespace: "default", Cluster: "nightly-x2k", OwnerKind: "rayjob",
		OwnerName: "nightly", Name: old.Name}
	for _, ref := range []layout.Session{old, last, job} {
		put(t, store, layout.MarkerKey(root, ref), "")
	}
	fresh(t, c)
	for _, tc := range []struct {
		selector Selector
		ref      layout.Session
		err      error
	}{
		{selector: Selector{Namespace: "default", Name: "lab", Session: old.Name}, ref: old},
		{selector: Selector{Namespace: "default", Name: "lab", Session: Latest}, ref: last},
		{selector: Selector{Namespace: "default", Name: "lab", Session: Live}, ref: last},
		{selector: Selector{Namespace: "default", Kind: "rayjob", Name: "nightly", Session: Latest}, ref: job},
		{selector: Selector{Namespace: "default", Kind: "RayJob", Name: "nightly-x2k", Session: Latest}, ref: job},
		{selector: Selector{Namespace: "default", Kind: "rayservice", Name: "nightly", Session: Latest},
			err: ErrNoSession},
		{selector: Selector{Namespace: "other", Name: "lab", Session: Latest}, err: ErrNoSession},
		{selector: Selector{Namespace: "default", Name: "lab", Session: "session_2020-01-01_00-00-00_000000_1"},
			err: ErrNoSession},
		{selector: Selector{Namespace: "..", Name: "lab", Session: Latest}, err: layout.ErrForeign},
		{selector: Selector{Namespace: "default", Name: "lab", Session: "session_/../x"}, err: layout.ErrForeign},
	} {
		e, err := c.Find(t.Context(), tc.selector)
		says.True(t, e.Ref == tc.ref && errors.Is(err, tc.err), "Find(%+v) = %v, %v; want %v, %v", tc.selector, e.Ref,
			err, tc.ref, tc.err)
	}
}

// TestSessionInBothLayoutsIsListedOnce, as what its address opens, whatever else the two collectors say of it.
func TestSessionInBothLayoutsIsListedOnce(t *testing.T) {
	for _, start := range []string{"2026-11-19T23:59:59Z", "2026-11-20T00:00:00Z", "2026-11-20T00:00:00.5Z"} {
		store, c := bucket()
		ours := v16("lab", "session_2026-11-20_00-00-00_000000_1")
		theirs := layout.Session{Version: layout.V17, Namespace: "default", Cluster: "lab", OwnerKind: "raycluster",
			Name: ours.Name}
		begun(t, store, theirs, "", "")
		begun(t, store, ours, `{"start":"`+start+`"}`, "")
		l := fresh(t, c)
		opens := must.Get(c.Find(t.Context(), Selector{Namespace: "default", Name: "lab", Session: ours.Name}))(t)
		if all := entriesOf(l); len(all) != 1 || all[0].Ref != ours || opens.Ref != ours || l.Totals(now64).Sessions != 1 {
			t.Errorf("%s: %+v; its address opens %+v", start, all, opens.Ref)
		}
	}
}

func TestUnreachableStoreKeepsTheLastList(t *testing.T) {
	store, c := bucket()
	put(t, store, layout.MarkerKey(root, v16("lab", "session_2026-11-20_00-00-00_000000_1")), "")
	fresh(t, c)
	away := errors.New("connection refused")
	store.ListFault = func(string) error { return away }
	err := c.Refresh(t.Context())
	must.True(t, errors.Is(err, away), "refresh: %v", err)
	l := c.List(t.Context())
	says.True(t, len(entriesOf(l)) == 1 && errors.Is(l.Err, away) && !l.At.IsZero(), "%+v", l)
	store.ListFault = nil
	if l := fresh(t, c); l.Err != nil {
		t.Errorf("after recovery: %v", l.Err)
	}
}

func TestFailedListingIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := bucket()
		refused := errors.New("connection refused")
		var back atomic.Bool
		store.ListFault = func(string) error {
			if back.Load() {
				return nil
			}
			return refused
		}
		c := started(t, store)
		synctest.Wait()
		l := c.List(t.Context())
		says.True(t, errors.Is(l.Err, refused) && l.At.IsZero(), "%+v", l)
		back.Store(true)
		time.Sleep(retry + time.Second)
		l = c.List(t.Context())
		says.True(t, l.Err == nil && !l.At.IsZero(), "%+v", l)
	})
}

func TestMissOfAFreshListDoesNotListAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := storetest.New()
		c := started(t, store)
		synctest.Wait()
		_, first := store.Requests()
		find := func() {
			if _, err := c.Find(t.Context(), Selector{Namespace: "default", Name: "lab",
				Session: Latest}); !errors.Is(err, ErrNoSession) {
				t.Fatal(err)
			}
		}
		find()
		_, lists := store.Requests()
		says.True(t, lists == first, "a miss right after a listing listed again")
		time.Sleep(missAge + time.Second)
		put(t, store, layout.MarkerKey(root, v16("lab", "session_2026-11-20_00-00-00_000000_1")), "")
		e, err := c.Find(t.Context(), Selector{Namespace: "default", Name: "lab", Session: Latest})
		says.True(t, err == nil && e.Ref.Cluster == "lab", "a session stored since the last listing: %v, %v", e, err)
	})
}

func TestListWaitsForTheFirstListing(t *testing.T) {
	_, c := bucket()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := c.List(ctx)
	says.True(t, errors.Is(l.Err, context.Canceled), "%+v", l)
}
