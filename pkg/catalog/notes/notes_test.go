package notes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/lease"
	"github.com/rayhistory/historyserver/pkg/layout"
)

var session = layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}

func write(t *testing.T, b *Book, n Note) error {
	t.Helper()
	_, err := b.Change(t.Context(), session, func(now *Note) error {
		*now = n
		return nil
	})
	return err
}

func bookOf(store blob.Store) *Book {
	return NewBook(BookOptions{Store: store, Root: "log", Log: logrus.New()})
}

func TestNotes(t *testing.T) {
	store := storetest.New()
	here, there := bookOf(store), bookOf(store)
	if n, err := there.Read(t.Context(), session); err != nil || !n.Empty() {
		t.Errorf("before any note: %+v, %v", n, err)
	}
	at := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for _, n := range []Note{{Pinned: true, Text: "the <b>best</b> run\nso far", By: "ann", At: at},
		{Text: "no pin", At: at}, {At: at}} {
		must.OK(t, write(t, here, n))
		must.OK(t, there.Refresh(t.Context()))
		must.OK(t, here.Refresh(t.Context()))
		read, err := there.Read(t.Context(), session)
		says.True(t, err == nil && read == n && here.Of(session) == n && there.Of(session) == n,
			"wrote %+v; read %+v, %v; known %+v and %+v", n, read, err, here.Of(session), there.Of(session))
	}
}

// TestUntrusted: what others stored is bounded and clean, what is damaged counts as pinned and can be replaced, and
// what is too long is refused.
func TestUntrusted(t *testing.T) {
	store := storetest.New()
	key := layout.NoteKey("log", session)
	put := func(body string) { // as earlier versions of the program did
		t.Helper()
		must.OK(t, Remove(t.Context(), store, "log", session))
		must.OK(t, store.Put(t.Context(), key, strings.NewReader(body)))
	}
	put(`{"text":"` + strings.Repeat("ä", 3000) + `","by":"\u001b[31m\u202ered"}`)
	n, err := Read(t.Context(), store, "log", session)
	says.True(t, err == nil && len([]rune(n.Text)) == MaxText && n.By == "[31mred", "%d characters by %q, %v",
		len([]rune(n.Text)), n.By, err)
	for _, body := range []string{"", "{", "null", `{"text":1}`, `{"text":"` + strings.Repeat("a", maxObject) + `"}`} {
		put(body)
		damaged := Note{Pinned: true, Damaged: true}
		says.Equal(t, must.Get(Read(t.Context(), store, "log", session))(t), damaged, "%.30q is read as", body)
		b := bookOf(store)
		if err := b.Refresh(t.Context()); err != nil || b.Of(session) != damaged {
			t.Errorf("%.30q: %+v, %v", body, b.Of(session), err)
		}
		if err := write(t, b, Note{Text: "another", Damaged: true}); err != nil ||
			b.Of(session) != (Note{Text: "another"}) {
			t.Errorf("%.30q: %+v, %v", body, b.Of(session), err)
		}
		says.Equal(t, must.Get(Read(t.Context(), store, "log", session))(t), (Note{Text: "another"}),
			"after %.30q, another is read as", body)
	}
	put(`{"damaged":true}`)
	n, err = Read(t.Context(), store, "log", session)
	says.True(t, err == nil && n.Empty() && !n.Damaged, "%+v, %v", n, err)
	says.ErrorIs(t, write(t, bookOf(store), Note{Text: strings.Repeat("ä", MaxText+1)}), ErrTooLong)
}

// TestPinDuringRemoval: who pins a session that somebody may be removing learns so.
func TestPinDuringRemoval(t *testing.T) {
	store := storetest.New()
	must.OK(t, store.Create(t.Context(), lease.Key("log", session), strings.NewReader("")))
	must.OK(t, write(t, bookOf(store), Note{Text: "not pinned"}))
	says.ErrorIs(t, write(t, bookOf(store), Note{Pinned: true}), ErrBusy)
}

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
		must.True(t, err == nil && len(told) == 1 && n.Text == told[0] && n.Pinned,
			"%q were told that their note is stored; it is %+v, %v", told, n, err)
		last = n.Text
	}
	v, err := listVersions(t.Context(), store, "log", session)
	says.True(t, err == nil && len(v.keys) <= 2, "%d versions are stored, %v", len(v.keys), err)
}

// TestManyWriters: of many who change a note at the same moment at a slow store, nobody is told to try again, and every
// change is kept.
func TestManyWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &storetest.Hooked{Store: storetest.New(), Before: func(context.Context, storetest.Op, string) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		b := bookOf(slow)
		const writers = 3 * maxTries
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				if _, err := b.Change(t.Context(), session, func(n *Note) error {
					n.Text += "."
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		says.Equal(t, b.Of(session).Text, strings.Repeat(".", writers))
	})
}

// TestContended: who changes a note that others change at each try learns so, not that the store failed.
func TestContended(t *testing.T) {
	inner := storetest.New()
	contended := &storetest.Hooked{Store: inner, Before: storetest.On(storetest.Create,
		func(context.Context, string) error { return write(t, bookOf(inner), Note{Text: rand.Text()}) })}
	err := write(t, bookOf(contended), Note{Text: "mine"})
	says.True(t, errors.Is(err, ErrContended) && !errors.Is(err, ErrNotStored), err)
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
				says.OK(t, write(t, bookOf(inner), Note{Text: fmt.Sprint(i)}))
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
		says.Equal(t, must.Get(Read(t.Context(), inner, "log", session))(t), want, "after %d others", others)
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
	says.Equal(t, must.Get(Read(t.Context(), store, "log", session))(t), (Note{Pinned: true, Text: "old"}))
	must.Get(Change(t.Context(), store, "log", session, func(n *Note) error { n.Text += " and new"; return nil }))(t)
	var keys []string
	for o, err := range store.List(t.Context(), "log/notes/", blob.ListOptions{}) {
		must.OK(t, err)
		keys = append(keys, o.Key)
	}
	want := fmt.Sprint([]string{layout.NoteVersionKey("log", session, 1), layout.NoteKey("log", beside)})
	says.Equal(t, fmt.Sprint(keys), want, "%s", keys)
	b := bookOf(store)
	if err := b.Refresh(t.Context()); err != nil || b.Of(session).Text != "old and new" || b.Of(beside).Text != "old" {
		t.Errorf("%+v, %+v, %v", b.Of(session), b.Of(beside), err)
	}
}
