package notes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var errSeen = errors.New("the note is not the one that was seen")

// TestReplicas: of several who change the note that all of them have seen, at the same moment at two servers, one is
// told that the note is stored. Changes of different parts are all kept.
func TestReplicas(t *testing.T) {
	store := storetest.New()
	books := []*Book{bookOf(store), bookOf(store)}
	last := ""
	for round := range 30 {
		var all sync.WaitGroup
		var mu sync.Mutex
		var told []string
		begin := make(chan struct{})
		for i := range 6 {
			all.Go(func() {
				<-begin
				mine := fmt.Sprintf("%d by %d", round, i)
				_, err := books[i%2].Change(t.Context(), session, func(n *Note) error {
					if n.Text != last {
						return errSeen
					}
					n.Text = mine
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					told = append(told, mine)
				} else if !errors.Is(err, errSeen) {
					t.Error(err)
				}
			})
		}
		all.Go(func() { // without having seen any
			<-begin
			if _, err := books[0].Change(t.Context(), session,
				func(n *Note) error { n.Pinned = true; return nil }); err != nil {
				t.Error(err)
			}
		})
		close(begin)
		all.Wait()
		n, err := books[1].Read(t.Context(), session)
		if err != nil || len(told) != 1 || n.Text != told[0] || !n.Pinned {
			t.Fatalf("%q were told that their note is stored; it is %+v, %v", told, n, err)
		}
		last = n.Text
	}
	v, err := list(t.Context(), store, "log", session)
	if err != nil || len(v.keys) > 2 {
		t.Errorf("%d versions are stored, %v", len(v.keys), err)
	}
}

// TestStalledWriter: a writer that stood still while others wrote, so that its version was taken and removed again,
// does not lose its change.
func TestStalledWriter(t *testing.T) {
	inner := storetest.New()
	pin := func(n *Note) error { n.Pinned = true; return nil }
	for others := range 4 {
		must.OK(t, Remove(t.Context(), inner, "log", session))
		var once sync.Once
		write := func() {
			for i := range others {
				if err := write(t, bookOf(inner), Note{Text: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			}
		}
		stalled := &storetest.Hooked{Store: inner, Before: storetest.On(storetest.Create,
			func(context.Context, string) error {
				once.Do(write)
				return nil
			})}
		must.Get(Change(t.Context(), stalled, "log", session, pin))(t)
		want := Note{Pinned: true}
		if others > 0 {
			want.Text = fmt.Sprint(others - 1)
		}
		if n, err := Read(t.Context(), inner, "log", session); err != nil || n != want {
			t.Errorf("after %d others: %+v, %v", others, n, err)
		}
	}
}

// TestEarlierForm: a note without a number is read, and replaced by the next one.
func TestEarlierForm(t *testing.T) {
	store := storetest.New()
	beside := session
	beside.Name += "0"
	for _, ref := range []layout.Session{session, beside} {
		must.OK(t, store.Put(t.Context(), layout.NoteKey("log", ref),
			strings.NewReader(`{"pinned":true,"text":"old"}`)))
	}
	if n, err := Read(t.Context(), store, "log", session); err != nil || n != (Note{Pinned: true, Text: "old"}) {
		t.Errorf("%+v, %v", n, err)
	}
	must.Get(Change(t.Context(), store, "log", session, func(n *Note) error { n.Text += " and new"; return nil }))(t)
	var keys []string
	for o, err := range store.List(t.Context(), "log/notes/", blob.ListOptions{}) {
		must.OK(t, err)
		keys = append(keys, o.Key)
	}
	want := fmt.Sprint([]string{layout.NoteVersionKey("log", session, 1), layout.NoteKey("log", beside)})
	if fmt.Sprint(keys) != want {
		t.Errorf("%s, want %s", keys, want)
	}
	b := bookOf(store)
	if err := b.Refresh(t.Context()); err != nil || b.Of(session).Text != "old and new" || b.Of(beside).Text != "old" {
		t.Errorf("%+v, %+v, %v", b.Of(session), b.Of(beside), err)
	}
}
