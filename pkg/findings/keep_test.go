package findings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/local"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/indexing"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session"
)

// writeIndex indexes a session as `historyserver index` does.
func writeIndex(t testing.TB, dir string, ref layout.Session, force bool) indexing.Result {
	t.Helper()
	return writeIndexWith(t, dir, ref, force, nil)
}

func writeIndexWith(t testing.TB, dir string, ref layout.Session, force bool, metrics moment.Metrics) indexing.Result {
	t.Helper()
	store := must.Get(local.Open(dir))(t)
	writer := indexing.Places{Store: store, Root: layout.DefaultRoot, Metrics: metrics, Log: silent.Logger()}.Open()
	result, err := indexing.Session(t.Context(), ref, indexing.Options{
		Writer: writer, Force: force, MaxMemory: 1 << 30,
		Follow: func(string, *progress.Counter) func() { return func() {} },
	})
	must.OK(t, err)
	return result
}

func keptFile(dir string, ref layout.Session) string {
	return filepath.Join(dir, filepath.FromSlash(layout.FindingsKey(layout.DefaultRoot, ref)))
}

// reportKept does the same as report, with the kept findings in the store of dir.
func reportKept(t testing.TB, dir string, s *session.Session, running bool) *findings.Report {
	t.Helper()
	r := &moment.Moment{Env: moment.NewEnv(silent.Logger(), budget.New(budget.Options{Bytes: 64 << 20})), Session: s,
		Running: func(context.Context) bool { return running }}
	found, err := findings.Reader{Kept: func(_ context.Context, ref layout.Session, n int64) (io.ReadCloser, error) {
		f, err := os.Open(keptFile(dir, ref))
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(f, n), f}, err
	}}.Read(t.Context(), r)
	must.OK(t, err)
	return found
}

func asJSON(t testing.TB, r *findings.Report) string {
	t.Helper()
	text := must.Get(json.Marshal(r))(t)
	return string(text)
}

// TestKeptAfterRemoval: kept findings stay in use when logs are removed later, which would let less be found out.
func TestKeptAfterRemoval(t *testing.T) {
	dir, ref := cluster(t, "jobs-2.60")
	computed := asJSON(t, report(t, load(t, dir, ref, nil)))
	writeIndex(t, dir, ref, false)
	must.OK(t, os.RemoveAll(filepath.Join(dir, filepath.FromSlash(layout.Prefix(layout.DefaultRoot, ref)), "logs")))
	s := load(t, dir, ref, nil)
	says.Equal(t, asJSON(t, reportKept(t, dir, s, false)), computed, "kept")
	says.True(t, asJSON(t, report(t, s)) != computed, "the logs tell nothing: the test shows nothing")
	if current, err := findings.UpToDate(must.Get(os.Open(keptFile(dir, ref)))(t), s); !current || err != nil {
		t.Errorf("they would be replaced: %v", err)
	}
}

// TestKept: the findings that are kept with an index are the same as the computed ones. They are used while nothing
// else is stored and the session does not run. Kept findings that are incomplete, or about something else, are not
// used.
func TestKept(t *testing.T) {
	dir, ref := cluster(t, "jobs-2.60")
	computed := asJSON(t, report(t, load(t, dir, ref, nil)))
	if got := writeIndex(t, dir, ref, false); got.Index != indexing.Written {
		t.Fatalf("the index was not written: %s", got.Index)
	}
	whole := must.Get(os.ReadFile(keptFile(dir, ref)))(t)
	says.Equal(t, asJSON(t, reportKept(t, dir, load(t, dir, ref, nil), false)), computed, "kept")
	head, err := findings.ReadHead(bytes.NewReader(whole[:min(len(whole), findings.HeadBytes)]), ref)
	says.True(t, err == nil && head.Outcome == catalog.Failed && strings.Contains(computed, head.Cause) &&
		len(head.Cause) >= 10, "%+v, %v", head, err)
	if s := load(t, dir, ref, nil); !head.Covers(s.LastStored()) || head.Covers(s.LastStored().Add(time.Second)) {
		t.Errorf("%s does not tell what was stored since", head.Stored)
	}

	reader := findings.Reader{Kept: func(context.Context, layout.Session, int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(whole)), nil
	}}
	if got, err := reader.OfListed(t.Context(), ref, head.Stored, nil); err != nil || asJSON(t, got) != computed {
		t.Errorf("of a session that is only listed: %v, %v", got, err)
	}
	if _, err := reader.OfListed(t.Context(), ref, head.Stored.Add(time.Second), nil); err == nil {
		t.Error("the kept findings are used although more was stored since")
	}

	const marked = "a title that nobody computed"
	line := bytes.IndexByte(whole, '\n') + 1
	edited := bytes.Replace(whole[line:], []byte(`"title":"`), []byte(`"title":"`+marked), 1)
	// kept writes the real size of the report into the Head, sized writes n.
	kept := func(report []byte) []byte { return append(headOf(t, whole[:line], len(report)), report...) }
	sized := func(n int, report []byte) []byte { return append(headOf(t, whole[:line], n), report...) }
	inHead := func(old, new string) []byte { return replaceIDs(t, kept(edited), old, new) }
	inReport := func(old, new string) []byte { return kept(replaceIDs(t, edited, old, new)) }
	believed := kept(edited)
	refused := map[string][]byte{
		"nothing":         {},
		"cut in its head": whole[:line/2],
		"cut":             believed[:len(believed)/2],
		"another version": inHead(fmt.Sprintf(`{"version":%d,`, findings.KeptVersion), `{"version":0,`),
		"an earlier version": inHead(fmt.Sprintf(`{"version":%d,`, findings.KeptVersion),
			fmt.Sprintf(`{"version":%d,`, findings.KeptVersion-1)),
		"a later version": inHead(fmt.Sprintf(`{"version":%d,`, findings.KeptVersion),
			fmt.Sprintf(`{"version":%d,`, findings.KeptVersion+1)),
		"another session":        inHead(`"session":"`+ref.String(), `"session":"x`+ref.String()),
		"another state":          inHead(`"of":"`, `"of":"0`),
		"another outcome":        inHead(`"outcome":"failed"`, `"outcome":"running"`),
		"another's report":       inReport(`"session":"`, `"session":"x`),
		"not JSON":               inReport(`"kind":`, `"kind":!`),
		"a kind that is unknown": inReport(`"kind":"`, `"kind":"x`),
		"a link elsewhere":       inReport(`"link":"`, `"link":"javascript:`),
		"a page elsewhere":       inReport(`"docs":"`, `"docs":"javascript:`),
		"a finding that is null": inReport(`"findings":[`, `"findings":[null,`),
		"a list that is null":    inReport(`"because":[]`, `"because":null`),
		"too large":              sized(1<<40, edited),
		"less than nothing":      sized(-5, edited),
		"too much memory":        kept([]byte(`{"findings":[` + strings.Repeat("{},", 1<<20) + `]}`)),
		"a head without an end":  []byte(strings.Repeat(`{`, 1<<20)),
	}
	for what, version := range map[string]int{"an earlier version": findings.KeptVersion - 1,
		"a later version": findings.KeptVersion + 1, "another version": 0} {
		if h, err := findings.ReadHead(bytes.NewReader(refused[what]), ref); (err == nil) != (version > 0) ||
			h.Version != version {
			t.Errorf("the head of %s: %+v, %v", what, h, err)
		}
	}
	newer := bytes.Replace(refused["a later version"], []byte(`"outcome":"failed"`), []byte(`"outcome":"evicted"`), 1)
	if h, err := findings.ReadHead(bytes.NewReader(newer), ref); err != nil || h.Outcome != catalog.Unknown ||
		h.Version != findings.KeptVersion+1 {
		t.Errorf("an outcome that only a later version knows: %+v, %v", h, err)
	}
	givenUp, err := findings.EncodeGivenUp(inHead(`"stored":"2`, `"stored":"1`), ref, time.Now(), "its\nevents are damaged")
	if h, headErr := findings.ReadHead(bytes.NewReader(givenUp), ref); err != nil || headErr != nil ||
		h.Outcome != catalog.Unknown ||
		h.Cause != "The server could not find out: its events are damaged" {
		t.Errorf("%+v, %v, %v", h, err, headErr)
	}
	if is, err := findings.UpToDate(bytes.NewReader(givenUp), load(t, dir, ref, nil)); is || err != nil {
		t.Errorf("what is given up counts as kept: %v", err)
	}
	reader.Kept = func(context.Context, layout.Session, int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(givenUp)), nil
	}
	got, err := reader.OfListed(t.Context(), ref, head.Stored, nil)
	says.True(t, err == nil && got.Outcome == catalog.Unknown &&
		strings.Contains(got.Summary, "its events are damaged"), "of a session that was given up: %+v, %v", got, err)
	refused["given up"] = givenUp
	later := refused["a later version"]
	if is, err := findings.UpToDate(bytes.NewReader(later), load(t, dir, ref, nil)); !is || err != nil {
		t.Errorf("what a later version found out is not up to date: %v", err)
	}
	for what, kept := range map[string][]byte{"found out": later, "gave up": replaceIDs(t, givenUp,
		fmt.Sprintf(`{"version":%d,`, findings.KeptVersion), fmt.Sprintf(`{"version":%d,`, findings.KeptVersion+1))} {
		if now, err := findings.EncodeGivenUp(kept, ref, head.Stored, "its events are damaged"); err != nil ||
			!bytes.Equal(now, kept) {
			t.Errorf("what a later version %s is kept as %q, %v", what, now, err)
		}
	}
	before := replaceIDs(t, sized(len(edited)-1, edited), fmt.Sprintf(`{"version":%d,`, findings.KeptVersion),
		fmt.Sprintf(`{"version":%d,`, findings.KeptVersion-1))
	stays := must.Get(findings.EncodeGivenUp(before, ref, head.Stored, "the store is down"))(t)
	if is, err := findings.UpToDate(bytes.NewReader(stays), load(t, dir, ref, nil)); is || err != nil {
		t.Errorf("what an earlier version found out counts as found out by this one: %v", err)
	}
	reader.Kept = func(context.Context, layout.Session, int64) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(stays)), nil
	}
	if got, err := reader.OfListed(t.Context(), ref, head.Stored, nil); err != nil ||
		!strings.Contains(asJSON(t, got), marked) {
		t.Errorf("of what an earlier version found out: %+v, %v", got, err)
	}
	refused["given up, but found out earlier"] = stays
	try := func(what string, body []byte, want bool) {
		t.Helper()
		must.OK(t, os.WriteFile(keptFile(dir, ref), body, 0o600))
		got := asJSON(t, reportKept(t, dir, load(t, dir, ref, nil), false))
		says.True(t, strings.Contains(got, marked) == want && (want || got == computed),
			"%s: answered from what is kept %v, want %v", what, !want, want)
	}
	for what, body := range refused {
		try(what, body, false)
	}
	try("a title", believed, true)
	says.True(t, !strings.Contains(asJSON(t, reportKept(t, dir, load(t, dir, ref, nil), true)), marked),
		"a running session was answered from what is kept")
	if got := writeIndex(t, dir, ref, false); got.Index != indexing.UpToDate {
		t.Fatalf("the index was written again: %s", got.Index)
	}
	if kept, err := os.ReadFile(keptFile(dir, ref)); err != nil || !bytes.Contains(kept, []byte(marked)) {
		t.Errorf("findings that are kept were written again: %v", err)
	}
	writeIndex(t, dir, ref, true)
	if kept, err := os.ReadFile(keptFile(dir, ref)); err != nil || !bytes.Equal(kept, whole) {
		t.Errorf("they were not computed again with --force: %v", err)
	}
	store := must.Get(local.Open(dir))(t)
	try("a title", believed, true)
	log := layout.LogKey(layout.DefaultRoot, ref, load(t, dir, ref, nil).Nodes[0].ID, "more.log")
	must.OK(t, store.Create(t.Context(), log, strings.NewReader("more\n")))
	says.True(t, !strings.Contains(asJSON(t, reportKept(t, dir, load(t, dir, ref, nil), false)), marked),
		"what is kept answered though more is stored")
}

// replaceIDs replaces the first occurrence of old in text. The text must contain it.
func replaceIDs(t *testing.T, text []byte, old, new string) []byte {
	t.Helper()
	must.True(t, bytes.Contains(text, []byte(old)), "nothing that is kept has %s", old)
	return bytes.Replace(text, []byte(old), []byte(new), 1)
}

// headOf returns a Head that says that the report has n bytes.
func headOf(t *testing.T, line []byte, n int) []byte {
	t.Helper()
	var h findings.Head
	must.OK(t, json.Unmarshal(line, &h))
	h.Bytes = int64(n)
	text := must.Get(json.Marshal(h))(t)
	return append(text, '\n')
}

// TestKeptOfIndexed: if an earlier version wrote a session's index without findings, the findings are added.
func TestKeptOfIndexed(t *testing.T) {
	dir, ref := cluster(t, "fine-2.60")
	store := folder(t, dir)
	indexed(t, store, loadFrom(t, store, ref, nil))
	if got := writeIndex(t, dir, ref, false); got.Index != indexing.UpToDate {
		t.Fatal(got.Index)
	}
	f := must.Get(os.Open(keptFile(dir, ref)))(t)
	defer func() { _ = f.Close() }()
	if head, err := findings.ReadHead(f, ref); err != nil || head.Outcome != catalog.Succeeded || head.Cause != "" {
		t.Errorf("%+v, %v", head, err)
	}
}
