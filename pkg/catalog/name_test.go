package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestName: each form of a name selects what it says, and an error says how to go on.
func TestName(t *testing.T) {
	var entries []Entry // newest first
	add := func(namespace, cluster, session, kind, owner string) {
		start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(-time.Duration(len(entries)) * time.Hour)
		entries = append(entries, Entry{Ref: layout.Session{Namespace: namespace, Cluster: cluster, Name: session},
			Summary: Summary{OwnerKind: kind, OwnerName: owner}, Start: start})
	}
	add("a", "lab", "session_5", RayCluster, "lab")
	add("a", "lab", "session_4", RayCluster, "lab")
	add("a", "twin", "session_3", RayCluster, "twin")
	add("b", "twin", "session_3", RayCluster, "twin")
	add("a", "nightly-x2", "session_2", RayJob, "nightly")
	add("a", "nightly-x1", "session_1", RayJob, "nightly")
	add("c", "latest", "session_0", RayCluster, "latest")
	add("c", "old", "session_B", RayCluster, "old")
	for name, want := range map[string]struct{ all, one string }{
		"lab":                {"a/lab/session_5 a/lab/session_4", "a/lab/session_5"},
		"a/lab":              {"a/lab/session_5 a/lab/session_4", "a/lab/session_5"},
		"lab/latest":         {"a/lab/session_5", "a/lab/session_5"},
		"a/lab/latest":       {"a/lab/session_5", "a/lab/session_5"},
		"a/lab/live":         {"a/lab/session_5", "a/lab/session_5"},
		"lab/session_4":      {"a/lab/session_4", "a/lab/session_4"},
		"session_4":          {"a/lab/session_4", "a/lab/session_4"},
		"session_B":          {"c/old/session_B", "c/old/session_B"},
		"b/twin":             {"b/twin/session_3", "b/twin/session_3"},
		"nightly":            {"a/nightly-x2/session_2 a/nightly-x1/session_1", "a/nightly-x2/session_2"},
		"a/nightly/latest":   {"a/nightly-x2/session_2", "a/nightly-x2/session_2"},
		"nightly/session_1":  {"a/nightly-x1/session_1", "a/nightly-x1/session_1"},
		"latest":             {"c/latest/session_0", "c/latest/session_0"},
		"c/latest/session_0": {"c/latest/session_0", "c/latest/session_0"},
		"session_3": {"a/twin/session_3 b/twin/session_3",
			"error: 2 clusters have a session of this name; name one of: a/twin/session_3, b/twin/session_3"},
		"twin":        {"error: twin is in 2 namespaces; name one of: a/twin, b/twin", "error: twin is in 2"},
		"twin/latest": {"error: twin is in 2", "error: twin is in 2"},
		"b/lab": {"error: no such session is stored: b/lab; stored are sessions of a/lab",
			"error: no such session"},
		"lab/session_9": {"error: no such session is stored: lab/session_9; it has session_",
			"error: no such session"},
		"nobody": {"error: no such session is stored: nobody; `historyserver ls`",
			"error: no such session"},
		"lba":         {"error: no such session is stored: lba (did you mean lab?)", "error: lba (did you mean lab?"},
		"lab/lastest": {"error: lab/lastest (did you mean lab/latest?)", "error: (did you mean lab/latest?)"},
		"a/Nigthly":   {"error: did you mean nightly?", "error: did you mean nightly?"},
		"night":       {"error: it is found in sessions of a/nightly-x2, a/nightly-x1;", "error: it is found in"},
		"session_9":   {"error: no such session is stored", "error: no such session"},
		"":            {"error: \"\" names no session: want a session, cluster", "error: "},
		"https://hs.example.com/ray/namespaces/a/clusters/lab/sessions/session_5/log?file=x#L7": {"a/lab/session_5",
			"a/lab/session_5"},
		"/namespaces/a/clusters/nightly-x2/sessions/latest": {"a/nightly-x2/session_2", "a/nightly-x2/session_2"},
		"http://hs/namespaces/a/clusters/nightly-x1?x=1":    {"a/nightly-x1/session_1", "a/nightly-x1/session_1"},
		"http://hs/namespaces/a/clusters/gone/sessions/session_5": {"error: no such session is stored: a/gone/session_5",
			"error: no such session"},
		"http://hs/fleet":     {"error: want a session, cluster", "error: "},
		"a//session_1":        {"error: ", "error: "},
		"../lab":              {"error: ", "error: "},
		"a/lab/session_5/api": {"error: ", "error: "},
	} {
		n, err := ParseName(name)
		var all []Entry
		var one Entry
		oneErr := err
		if err == nil {
			all, err = n.All(LookupIn(entries))
			one, oneErr = n.One(LookupIn(entries))
		}
		check(t, name+", all", all, err, want.all)
		check(t, name+", one", []Entry{one}, oneErr, want.one)
		says.True(t, name != "nobody" || errors.Is(err, ErrNoSession), "%v is no ErrNoSession", err)
	}
	const found = "; it is found in sessions of a/nightly-x2, a/nightly-x1"
	says.Equal(t, (Name{Cluster: "nightly"}).Suggestion(LookupIn(entries)), found,
		"a name that is that of something else")
	if found, err := Select(LookupIn(entries), []string{"nightly", "lab/latest", "lab"}); err != nil || len(found) != 4 ||
		found[0].Ref.Name != "session_5" {
		t.Errorf("several names: %v, %v", found, err)
	}
	says.Error(t, says.Err(SelectSessions(LookupIn(entries), []string{"lab"})), "such as lab/latest",
		"a cluster where a session is wanted")
}

func check(t *testing.T, what string, found []Entry, err error, want string) {
	t.Helper()
	var got []string
	for _, e := range found {
		got = append(got, e.Ref.String())
	}
	if text, fails := strings.CutPrefix(want, "error: "); fails {
		says.Error(t, err, text, "%s: %q, %v, want the error %q", what, got, err, text)
	} else if err != nil || strings.Join(got, " ") != want {
		t.Errorf("%s: %q, %v, want %s", what, got, err, want)
	}
}
