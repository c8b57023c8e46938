package retention

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/catalog/notes"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
)

const day = 24 * time.Hour

const someRules = `
rules:
- {clusters: [gold-*], keep: forever}
- {namespaces: ["prod-*", live], outcomes: [failed, unfinished], keep: 90d}
- {outcomes: [failed], keep: 30d}
- {namespaces: [scratch], keep: 12h}
- {namespaces: [lab], outcomes: [failed], keep: forever}
- {clusters: [long], keep: 120d}
- {clusters: [ever], keep: forever}
`

func TestRules(t *testing.T) {
	rules := must.Get(ParseRules([]byte(someRules)))(t)
	const unsure = "the outcome is not known"
	for _, tc := range []struct {
		namespace, cluster, owner, outcome string
		age                                time.Duration
		keep                               time.Duration
		why                                string
	}{
		{"scratch", "gold-1", "", "failed", 0, 0, "rule 1 keeps forever"},
		{"scratch", "x", "gold-2", "", 0, 0, "rule 1 keeps forever"},
		{"prod-a", "x", "", "failed", 7 * day, 90 * day, "rule 2 keeps 90d"},
		{"prod-a", "x", "", "succeeded", 7 * day, 7 * day, "kept 7d"},
		{"prod-a", "x", "", "", 7 * day, 90 * day, unsure},
		{"dev", "x", "", "failed", 0, 30 * day, "rule 3 keeps 30d"},
		{"dev", "x", "", "", 60 * day, 60 * day, unsure},
		{"dev", "x", "", "", 0, 0, unsure},
		{"dev", "x", "", "stopped", 0, 0, "kept forever"},
		{"scratch", "x", "", "succeeded", 0, 12 * time.Hour, "rule 4 keeps 12h"},
		{"scratch", "x", "", "", 0, 30 * day, unsure},
		{"prod-a", "long", "", "", 0, 120 * day, "rule 6 keeps 120d"},
		{"prod-a", "ever", "", "", 7 * day, 0, "rule 7 keeps forever"},
		{"lab", "long", "", "", 7 * day, 0, unsure},
	} {
		e := catalog.Entry{Ref: layout.Session{Namespace: tc.namespace, Cluster: tc.cluster, Name: "session_1"},
			Summary: catalog.Summary{OwnerName: tc.owner, Outcome: tc.outcome}, Described: true}
		now := time.Now()
		e.End = now.Add(-5 * day)
		e.LastWrite = e.End
		p := &Policy{Rules: rules, Age: tc.age}
		fate := p.Of(e, now)
		says.True(t, fate.Keep == tc.keep && fate.Expires.IsZero() == (tc.keep == 0) &&
			strings.Contains(fate.Why, tc.why) && strings.HasPrefix(fate.Why, "it ended 5 days ago, and "), "%+v: %+v",
			tc, fate)
		says.True(t, !fate.Due(now) || p.MayExpire(e, now), "%+v: it is due, but may not expire", tc)
		says.Equal(t, fate.Due(now), tc.keep == 12*time.Hour, "%+v: due", tc)
	}
}

// TestGivenUp: of a session that the server could not read, the outcome is not known.
func TestGivenUp(t *testing.T) {
	e := catalog.Entry{Described: true, End: time.Now().Add(-20 * day),
		Summary: catalog.Summary{Outcome: catalog.Unknown}}
	p := &Policy{Age: 14 * day, Rules: must.Get(ParseRules([]byte("rules: [{outcomes: [failed], keep: 60d}]")))(t)}
	f := p.Of(e, time.Now())
	says.True(t, f.Keep == 14*day, "nothing of its jobs is stored: %+v", f)
	kept := must.Get(findings.EncodeGivenUp(nil, e.Ref, e.End, "its events are damaged"))(t)
	e.Cause = must.Get(findings.ReadHead(bytes.NewReader(kept), e.Ref))(t).Cause
	f = p.Of(e, time.Now())
	says.True(t, f.Keep == 60*day, "it could not be read: %+v", f)
}

func TestRulesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "0 rules",
		"rules: []":                         "0 rules",
		"rules: [{keep: 1d, outcome: [x]}]": `unknown name "outcome"`,
		"rules: [{keep: 1d}, {outcomes: [bad], keep: 1d}]":   `rule 2: outcome "bad": want failed, succeeded, stopped, unfinished`,
		"rules: [{namespaces: ['[']}]":                       `rule 1: pattern "["`,
		"rules: [{}]":                                        "keep: forever",
		"rules: [{keep: 1y}]":                                `rule 1: keep "1y"`,
		"rules: [{keep: 5m}]":                                "at least 1h",
		"rules: [{keep: -5d}]":                               "rule 1: keep",
		"rules: x":                                           "want another kind of value, not `x`",
		"rules: [{keep: 1d}]\n---\nrules: [{keep: forever}]": "one document",
		"rules: [{keep: 1d}]\n--- {":                         "one document",
		"- keep: 1d":                                         "want names with values, not a list",
	} {
		says.Error(t, says.Err(ParseRules([]byte(text))), want, text)
	}
	rules, err := ParseRules([]byte("---\nrules: [{keep: 1d}]\n---\n"))
	says.True(t, err == nil && len(rules) == 1, "marks of a document: %v, %v", rules, err)
	large := filepath.Join(t.TempDir(), "rules.yaml")
	must.OK(t, os.WriteFile(large, []byte(strings.Repeat("#", 2<<20)), 0o600))
	says.Error(t, says.Err(ReadRules(large)), large)
}

func FuzzParseRules(f *testing.F) {
	f.Add([]byte(someRules))
	f.Add([]byte("rules: [{keep: 1d, namespaces: [&a x, *a]}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := ParseRules(text)
		if err != nil {
			return
		}
		for _, outcome := range []string{"", "failed"} {
			term := rules.Of(catalog.Entry{Ref: layout.Session{Namespace: "a", Cluster: "b"}}, outcome, Term{Keep: day})
			says.True(t, term.Keep >= 0 && (term.Keep == 0 || term.Keep >= time.Hour), "%+v", term)
		}
	})
}

func TestPinned(t *testing.T) {
	now := time.Now()
	e := catalog.Entry{Described: true, End: now.Add(-30 * day), LastWrite: now.Add(-10 * day)}
	pinned := false
	p := &Policy{Age: 5 * day, Note: func(layout.Session) notes.Note { return notes.Note{Pinned: pinned} }}
	f := p.Of(e, now)
	says.True(t, f.Due(now) && !f.Pinned, "%+v", f)
	pinned = true
	f = p.Of(e, now)
	says.True(t, !f.Due(now) && f.Pinned && f.Why == "it is pinned", "%+v", f)
	_, expires := p.Of(e, now).Days(now)
	says.True(t, !expires, "a pinned session expires")
	p.Note = func(layout.Session) notes.Note { return notes.Note{Pinned: true, Damaged: true} }
	if f := p.Of(e, now); f.Due(now) || !f.Pinned || !strings.Contains(f.Why, "its note cannot be read") {
		t.Errorf("with a damaged note: %+v", f)
	}
	p.Note = func(layout.Session) notes.Note { return notes.Note{Pinned: pinned} }
	pinned, e.LastWrite = false, now.Add(-day-time.Hour)
	if n, expires := p.Of(e, now).Days(now); n != 3 || !expires {
		t.Errorf("in %d days, %t", n, expires)
	}
	e.Running = true
	f = p.Of(e, now)
	says.True(t, !f.Due(now) && f.Expires.IsZero(), "running: %+v", f)
	if f := (*Policy)(nil).Of(e, now); f.Due(now) {
		t.Errorf("without a policy: %+v", f)
	}
}
