package server

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
)

// withNotes has the server know notes, and remove sessions after ten years.
func withNotes(o *Options, store *gatedStore) {
	o.Notes, o.WriteNotes = notes.NewBook(notes.BookOptions{Store: store, Root: root, Log: silent.Logger()}), true
	o.Retention = &retention.Policy{Age: 3650*24*time.Hour + time.Hour, Note: o.Notes.Of}
}

// post sends a body; headers are "Name: value".
func (f *fixture) post(t *testing.T, path, kind, body string, headers ...string) answer {
	t.Helper()
	return f.send(t, http.MethodPost, path, body, append(headers, "Content-Type: "+kind)...)
}

const form, asJSON = "application/x-www-form-urlencoded", "application/json"

func TestNotes(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	f.waitLoaded(t, name)
	page, api := lab+name+"/note", lab+name+"/api/history/note"
	f.ask(t, http.MethodGet, "/homepage").lacks(t, "expires")
	f.ask(t, http.MethodGet, page).has(t, "expires in 3650 days")
	got := f.post(t, page, form, "pinned=true&text=a%3Cb%3E%0D%0Asecond")
	must.True(t, got.status == http.StatusSeeOther && got.header.Get("Location") == "./note", "%d %v %s", got.status,
		got.header, got.body)
	for path, holds := range map[string][]string{
		page: {"a&lt;b&gt;\nsecond", "checked", "pinned"},
		lab + name + "/at/2026-11-20T23:21:00Z/note": {"a&lt;b&gt;\nsecond"},
		lab + name + "/":         {`data-kept="pinned"`, `data-note="a&lt;b&gt;`},
		"/homepage":              {">pinned<", `title="a&lt;b&gt;`},
		lab + name + "/findings": {`<p class="noted"><span class="chip">pinned</span>`, `title="a&lt;b&gt;`},
		lab + name + "/search":   {`<p class="noted"><span class="chip">pinned</span>`, `title="a&lt;b&gt;`},
	} {
		got := f.ask(t, http.MethodGet, path, asBrowser)
		for _, want := range holds {
			got.wants(t, http.StatusOK, want).lacks(t, "a<b>")
		}
	}
	// JSON that leaves out a field leaves it as it is.
	got = f.post(t, api, asJSON, `{"pinned":false}`)
	var answer struct {
		Data struct {
			Pinned             bool
			Text, Expires, Why string
		}
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != http.StatusOK ||
		answer.Data.Pinned || answer.Data.Text != "a<b>\nsecond" || answer.Data.Expires == "" || answer.Data.Why == "" {
		t.Errorf("%d %s, %v", got.status, got.body, err)
	}
	says.Equal(t, f.ask(t, http.MethodGet, api).body, got.body)
	stored, err := notes.Read(t.Context(), f.store, root,
		layout.Session{Namespace: "default", Cluster: "lab", Name: name})
	says.True(t, err == nil && !stored.Pinned && stored.Text == "a<b>\nsecond" && !stored.At.IsZero(),
		"stored is %+v, %v", stored, err)
	for _, tc := range []struct {
		path, kind, body, header string
		status                   int
	}{
		{page, form, "pinned=true", "Sec-Fetch-Site: cross-site", 403}, // a page of another site
		{page, form, "pinned=true", "Origin: https://evil.example", 403},
		{page, "text/plain", "pinned=true", "", 400}, // what a form of another site could send
		{api, asJSON, `{"pinned":1}`, "", 400},
		{api, asJSON, `{"text":"` + strings.Repeat("a", 2001) + `"}`, "", 400},
		{api, asJSON, `{"text":"` + strings.Repeat("a", 1<<20) + `"}`, "", 400},
		{lab + "session_none/note", form, "pinned=true", "", 410},
	} {
		headers := []string{}
		if tc.header != "" {
			headers = append(headers, tc.header)
		}
		f.post(t, tc.path, tc.kind, tc.body, headers...).wants(t, tc.status)
	}
	says.Equal(t, must.Get(notes.Read(t.Context(), f.store, root,
		layout.Session{Namespace: "default", Cluster: "lab", Name: name}))(t), stored,
		"what was refused changed the note to")
}

func TestNotesAreOff(t *testing.T) {
	f := start(t, func(o *Options, store *gatedStore) {
		withNotes(o, store)
		o.WriteNotes = false
	})
	f.post(t, lab+name+"/note", form, "pinned=true").wants(t, http.StatusForbidden, "--notes")
	f.ask(t, http.MethodGet, lab+name+"/note", asBrowser).wants(t, http.StatusOK).lacks(t, "<form")
}

// TestDamagedNote: what is stored as a note and is none keeps its session, and can be replaced from its page.
func TestDamagedNote(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	page, api := lab+name+"/note", lab+name+"/api/history/note"
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	damage := func() { must.OK(t, f.store.Put(t.Context(), layout.NoteKey(root, ref), strings.NewReader("{"))) }
	damage()
	f.ask(t, http.MethodGet, page, asBrowser).wants(t, http.StatusOK, "cannot be read", "checked")
	f.ask(t, http.MethodGet, api).wants(t, http.StatusOK, `"damaged":true`)
	// Who says nothing about the pin leaves it, for there may be one.
	f.post(t, api, asJSON, `{"text":"again"}`).wants(t, http.StatusOK, `"pinned":true`).lacks(t, "damaged")
	damage()
	f.post(t, page, form, "text=again").wants(t, http.StatusSeeOther)
	n, err := notes.Read(t.Context(), f.store, root, ref)
	says.True(t, err == nil && !n.Pinned && !n.Damaged && n.Text == "again", "%+v, %v", n, err)
}

// TestNotesOfPrograms: two that change different things of one note at once lose nothing, and one that says which note
// it has seen does not take the place of another.
func TestNotesOfPrograms(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	api := lab + name + "/api/history/note"
	var answer struct {
		Data struct {
			Pinned   bool
			Text, At string
		}
	}
	for i := range 20 {
		text := fmt.Sprintf("round %d", i)
		var both sync.WaitGroup
		for _, body := range []string{`{"pinned":true}`, `{"text":"` + text + `"}`} {
			both.Go(func() { f.post(t, api, asJSON, body).wants(t, http.StatusOK) })
		}
		both.Wait()
		got := f.ask(t, http.MethodGet, api)
		err := json.Unmarshal([]byte(got.body), &answer)
		must.True(t, err == nil && answer.Data.Pinned && answer.Data.Text == text, "%s, want %s and a pin: %v",
			got.body, text, err)
		f.post(t, api, asJSON, `{"pinned":false,"text":""}`)
	}
	const conflict = http.StatusConflict
	other := lab + old + "/api/history/note"
	for _, step := range []struct {
		seen string
		want int
	}{{"2026-11-20T23:25:00Z", conflict}, {"", http.StatusOK}, {"", conflict}, {answer.Data.At, conflict}} {
		f.post(t, other, asJSON, `{"text":"mine","seen":"`+step.seen+`"}`).wants(t, step.want)
	}
	must.OK(t, json.Unmarshal([]byte(f.ask(t, http.MethodGet, other).body), &answer))
	f.post(t, other, asJSON, `{"text":"mine","seen":"`+answer.Data.At+`"}`).wants(t, http.StatusOK)
}

// TestNoteOfTwo: a form about a note that somebody else changed meanwhile does not take their pin away.
func TestNoteOfTwo(t *testing.T) {
	f := start(t, withNotes)
	f.waitDescribed(t)
	page := lab + name + "/note"
	seen := func() string {
		_, rest, _ := strings.Cut(f.ask(t, http.MethodGet, page, asBrowser).body, `name="seen" value="`)
		value, _, ok := strings.Cut(rest, `"`)
		must.True(t, ok, "the page's form does not say which note it shows")
		return "&seen=" + url.QueryEscape(html.UnescapeString(value))
	}
	ann, bob := seen(), seen()
	f.post(t, page, form, "pinned=true"+ann).wants(t, http.StatusSeeOther)
	f.post(t, page, form, "text=mine"+bob, asBrowser).wants(t, http.StatusConflict, "open the note again")
	f.post(t, lab+name+"/api/history/note", asJSON, `{"text":"mine","seen":"2026-11-20T23:25:00Z"}`).wants(t,
		http.StatusConflict, "Read the note again").lacks(t, "Go back")
	f.post(t, page, form, "pinned=true&text=mine"+seen()).wants(t, http.StatusSeeOther)
	f.ask(t, http.MethodGet, page, asBrowser).has(t, "mine", "checked")
}
