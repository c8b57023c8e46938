package notes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
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
		if err != nil || read != n || here.Of(session) != n || there.Of(session) != n {
			t.Errorf("wrote %+v; read %+v, %v; known %+v and %+v", n, read, err, here.Of(session), there.Of(session))
		}
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
	if n, err := Read(t.Context(), store, "log", session); err != nil || len([]rune(n.Text)) != MaxText ||
		n.By != "[31mred" {
		t.Errorf("%d characters by %q, %v", len([]rune(n.Text)), n.By, err)
	}
	for _, body := range []string{"", "{", "null", `{"text":1}`, `{"text":"` + strings.Repeat("a", maxObject) + `"}`} {
		put(body)
		damaged := Note{Pinned: true, Damaged: true}
		if n, err := Read(t.Context(), store, "log", session); err != nil || n != damaged {
			t.Errorf("%.30q is read as %+v, %v", body, n, err)
		}
		b := bookOf(store)
		if err := b.Refresh(t.Context()); err != nil || b.Of(session) != damaged {
			t.Errorf("%.30q: %+v, %v", body, b.Of(session), err)
		}
		if err := write(t, b, Note{Text: "another", Damaged: true}); err != nil ||
			b.Of(session) != (Note{Text: "another"}) {
			t.Errorf("%.30q: %+v, %v", body, b.Of(session), err)
		}
		if n, err := Read(t.Context(), store, "log", session); err != nil || n != (Note{Text: "another"}) {
			t.Errorf("after %.30q, another is read as %+v, %v", body, n, err)
		}
	}
	put(`{"damaged":true}`)
	if n, err := Read(t.Context(), store, "log", session); err != nil || !n.Empty() || n.Damaged {
		t.Errorf("%+v, %v", n, err)
	}
	if err := write(t, bookOf(store), Note{Text: strings.Repeat("ä", MaxText+1)}); !errors.Is(err, ErrTooLong) {
		t.Errorf("%v", err)
	}
}

// TestPinDuringRemoval: who pins a session that somebody may be removing learns so.
func TestPinDuringRemoval(t *testing.T) {
	store := storetest.New()
	must.OK(t, store.Create(t.Context(), lease.Key("log", session), strings.NewReader("")))
	if err := write(t, bookOf(store), Note{Text: "not pinned"}); err != nil {
		t.Error(err)
	}
	if err := write(t, bookOf(store), Note{Pinned: true}); !errors.Is(err, ErrBusy) {
		t.Errorf("%v", err)
	}
}
