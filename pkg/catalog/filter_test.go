package catalog

import (
	"bytes"
	"fmt"
	"math/bits"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// TestWrittenOtherwise: what people and programs write otherwise than the list's form does is the same.
func TestWrittenOtherwise(t *testing.T) {
	given := url.Values{"q": {`"loss is NaN"`}, "kind": {"rayjob"}, "finding": {"Out of memory"}}
	f, err := ParseFilter(given, time.Now())
	if form := FilterForm(given); err != nil || strings.Join(f.Words, " ") != "loss is nan" ||
		f.Kind != "RayJob" || form.Get("kind") != "RayJob" || form.Get("finding") != "out_of_memory" {
		t.Errorf("%v, %+v, %v", err, f, form)
	}
}

// TestManyWords: each word takes time and memory by the number of all names, so there are not many.
func TestManyWords(t *testing.T) {
	for n, fine := range map[int]bool{maxFilterWords: true, maxFilterWords + 1: false, 100_000: false} {
		f, err := ParseFilter(url.Values{"q": {strings.Repeat("a ", n)}}, time.Now())
		says.True(t, (err == nil) == fine && len(f.Words) == maxFilterWords, "%d words: %d are looked for, %v", n,
			len(f.Words), err)
	}
}

// TestEntrypointIsNoLabel: of a session without users, labels and findings, nothing else is taken for them.
func TestEntrypointIsNoLabel(t *testing.T) {
	text := packs.Facts{Jobs: []packs.Job{{Entrypoint: "PYTHONPATH=. python x.py"}, {Name: "user=ann"}}}.Bounded().Text
	tab := newTable()
	tab.put(v16("lab", "session_2026-11-20_10-00-00_000000_1"), session{facts: &packs.Facts{Text: text}})
	l := Listing{list: tab.list(time.Minute)}
	for query, want := range map[string]int{"label=pythonpath": 0, "user=ann": 0, "q=pythonpath": 1} {
		f := must.Get(ParseFilter(must.Get(url.ParseQuery(query))(t), time.Now()))(t)
		says.Equal(t, len(slices.Collect(l.Matching(f, time.Now()))), want, "%s: sessions", query)
	}
}

func TestFilter(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tab := newTable()
	tab.put(v16("Lab", "session_2026-11-20_10-00-00_000000_1"), session{facts: &packs.Facts{
		Summary: Summary{OwnerKind: RayJob, OwnerName: "nightly", RayVersion: "2.60.0", Bytes: 10 << 20,
			Outcome: "failed"},
		Start: start, End: start.Add(2 * time.Hour),
		Text: "finding=node_died\nuser=ana\nteam=search\n\nraysubmit_a1\nuser=eve\n01000000\npythonpath=. python train.py --lr 0.1\nfinding=x\ncuda out of memory\n",
	}})
	l := Listing{list: tab.list(time.Minute)}
	for query, want := range map[string]bool{
		"": true, "q=raysubmit_A1": true, "q=OUT+memory+lab": true, "q=team%3Dsearch": true, "q=train.py": true,
		"q=rayjob+2.60": true, "q=failed": true, "q=bob": false,
		"outcome=failed": true, "outcome=succeeded": false, "outcome=not-known-yet": false, "outcome=odd": true,
		"state=ended": true, "state=running": false, "kind=rayjob": true, "kind=RayService": false,
		"namespace=default": true, "namespace=other": false, "cluster=Lab": true, "cluster=lab": false,
		"user=ANA": true, "user=an": false, "user=eve": false, "label=pythonpath": false, "finding=x": false, "user=raysubmit_a1": false, "label=team": true, "label=team=Search": true,
		"label=team=sea": false, "label=tea": false, "label=team,+team%3Dsearch": true, "label=team,tier": false,
		"label=,": true, "label=%3Dsearch": true, "user=ana&label=team=other": false,
		"owner=nightly": true, "owner=night": false,
		"finding=node_died": true, "finding=Node+died": true, "finding=node": false, "finding=train": false,
		"version=2.60": true, "version=2.6": false, "version=2.60.0": true, "from=2026-11-20": true,
		"from=2026-11-21": false, "to=2026-11-20": true, "to=2026-11-19": false,
		"from=2026-11-20T09:59:00Z&to=2026-11-20T10:00:01Z": true, "to=2026-11-20T10:00:00Z": false,
		"from=yesterday": true, "from=2026-12-21&to=2026-12-20": true, "to=9999-12-31": true,
		"from=0000-01-01T00:00:00%2B01:00": true, "to=9999-12-30": true,
		"from=24h": true, "from=1h+ago": true, "to=1h+ago": false, "to=09:00": false, "from=2026": true,
		"longer=1h": true, "longer=3h": false, "shorter=3h": true, "shorter=90m": false, "shorter=1d": true,
		"shorter=1w": true, "longer=-1h": true, "longer=xd": true,
		"larger=10MiB": true, "larger=10Mi": true, "larger=0": true, "larger=0KiB": true, "larger=11MiB": false,
		"smaller=0.5GiB": true, "smaller=1000": false,
		"larger=1e400": true, "larger=NaN": true,
	} {
		v, err := url.ParseQuery(query)
		must.OK(t, err)
		f, err := ParseFilter(v, start)
		if odd := query != "" && strings.Contains("outcome=odd from=2026 from=yesterday from=2026-12-21&to=2026-12-20 "+
			"to=9999-12-31 from=0000-01-01T00:00:00%2B01:00 "+
			"longer=-1h longer=xd larger=1e400 larger=NaN label=, label=%3Dsearch", query); odd != (err != nil) {
			t.Errorf("%q: error %v", query, err)
		}
		p, err := l.Part(Query{Filter: f, Now: start, Limit: 1})
		got := p.Found == 1
		says.True(t, got == want && err == nil, "%q passes: %v, want %v (%+v)", query, got, want, f)
	}
}

// TestFilterForm: the form of a filter has each of its parameters.
func TestFilterForm(t *testing.T) {
	for query, want := range map[string]string{
		"": "",
		"q=Out+memory&version=2.60&kubernetes_cluster=eu&namespace=a&cluster=Lab&owner=o&user=Ana&label=team=x,+tier" +
			"&finding=Node+died&state=ended&kind=rayjob&outcome=failed&from=2026-11-20&to=2026-11-20&longer=1.5h" +
			"&shorter=2d&larger=1000&smaller=10MiB": "q=out+memory&version=2.60&kubernetes_cluster=eu&namespace=a&" +
			"cluster=Lab&owner=o&user=ana&label=team=x,tier&finding=node_died&state=ended&kind=RayJob&outcome=failed&" +
			"from=2026-11-20T00:00:00Z&to=2026-11-21T00:00:00Z&longer=1h30m0s&shorter=48h0m0s&larger=1000&" +
			"smaller=10MiB",
	} {
		f := must.Get(ParseFilter(must.Get(url.ParseQuery(query))(t), time.Now()))(t)
		form := f.Form()
		again := must.Get(ParseFilter(form, time.Now()))(t)
		says.True(t, reflect.DeepEqual(again, f), "%q is read as %+v, and then as %+v", query, f, again)
		got := must.Get(url.ParseQuery(want))(t)
		says.True(t, reflect.DeepEqual(form, got), "%q: the form is %q, want %q", query, form, got)
		says.True(t, query == "" || len(form) == len(FilterParams), "%d parameters of %d", len(form), len(FilterParams))
	}
}

// A namespace's own name is that of one without a Kubernetes cluster, or of the one that is named beside it.
func TestFilterKubernetesCluster(t *testing.T) {
	tab := newTable()
	for _, namespace := range []string{"team-a", "team-a.prod-eu", "team-a.prod-us", "team-b.prod-eu", "eu"} {
		tab.put(layout.Session{Namespace: namespace, Cluster: "lab", Name: "session_2026-11-20_10-00-00_000000_1"},
			session{facts: &packs.Facts{}})
	}
	l := Listing{list: tab.list(time.Minute)}
	for query, want := range map[string]string{
		"":                                       "eu team-a team-a.prod-eu team-a.prod-us team-b.prod-eu",
		"namespace=team-a":                       "team-a",
		"namespace=team-a.prod-eu":               "team-a.prod-eu",
		"kubernetes_cluster=prod-eu":             "team-a.prod-eu team-b.prod-eu",
		"kubernetes_cluster=eu":                  "",
		"kubernetes_cluster=prod-us&cluster=lab": "team-a.prod-us",
		"kubernetes_cluster=prod-eu&namespace=team-a":         "team-a.prod-eu",
		"kubernetes_cluster=prod-eu&namespace=team-a.prod-eu": "team-a.prod-eu",
		"kubernetes_cluster=prod-eu&namespace=team-a.prod-us": "",
		"q=prod-us": "team-a.prod-us",
	} {
		f := must.Get(ParseFilter(must.Get(url.ParseQuery(query))(t), time.Now()))(t)
		var got []string
		for e := range l.Matching(f, time.Now()) {
			got = append(got, e.Ref.Namespace)
		}
		slices.Sort(got)
		says.Equal(t, strings.Join(got, " "), want, "%q finds %v", query, got)
	}
}

// TestUnexplained: first come the ended sessions of which it is not known how they ended, then those that were
// explained by older rules, the newest first.
func TestUnexplained(t *testing.T) {
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tab := newTable()
	put := func(cluster string, ago time.Duration, outcome string, version, objects int, end time.Time) {
		start := now.Add(-ago)
		tab.put(v16(cluster, start.Format("session_2006-01-02_15-04-05_000000_1")),
			session{marked: start, facts: &packs.Facts{
				Summary: Summary{Objects: objects, Outcome: outcome},
				Seen:    now, LastWrite: now, Start: start, End: end, Version: version,
			}})
	}
	put("old-rules", time.Hour, "failed", 6, 3, now)
	put("packed-before-versions", 2*time.Hour, "succeeded", 0, 3, now)
	put("today", 3*time.Hour, "failed", 7, 3, now)
	put("unknown", 4*time.Hour, "", 0, 3, now)
	put("older", 5*time.Hour, "", 0, 3, now)
	put("running", 6*time.Hour, "", 0, 3, time.Time{})
	put("only-a-marker", 7*time.Hour, "", 0, 0, now)
	tab.put(v16("not-described", "session_2026-11-20_01-00-00_000000_1"), session{marked: now})
	var got []string
	for e := range (Listing{list: tab.list(time.Minute)}).Unexplained(7, now) {
		got = append(got, e.Ref.Cluster)
	}
	says.Equal(t, strings.Join(got, " "), "unknown older old-rules packed-before-versions", "%v", got)
}

// TestLookup: a cluster's sessions are found without a look at them, and those of an owner by what they say, which
// takes long, so that the log says it. A command's names are looked up among the same sessions, whose entries are made
// once.
func TestLookup(t *testing.T) {
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "nightly-x7k2p", Name: "session_2026-11-20_23-19-45_581717_1"}
	begun(t, store, ref, `{"ownerKind": "RayJob", "ownerName": "nightly"}`, "")
	log, said := logtest.NewNullLogger()
	c := open(store, func(o *Options) { o.Log = log })
	lookup := c.Lookup(t.Context())
	for _, test := range []struct {
		name  string
		looks bool
	}{{"nightly-x7k2p", false}, {ref.Name, false}, {"nightly", true}, {"default/nightly/latest", true}} {
		found, err := Select(lookup, []string{test.name})
		says.True(t, err == nil && len(found) == 1 && found[0].Ref == ref && found[0].Described == test.looks,
			"%s: %+v, %v", test.name, found, err)
		says.Equal(t, len(said.AllEntries()) > 0, test.looks, "%s: told of the look", test.name)
	}
	must.OK(t, store.Delete(t.Context(), layout.MarkerKey(root, ref)))
	must.OK(t, c.Refresh(t.Context()))
	if found, err := lookup(Filter{Cluster: ref.Cluster}); err != nil || len(found) != 1 || len(said.AllEntries()) != 1 {
		t.Errorf("the same name again: %v, %v; logged %v", found, err, said.AllEntries())
	}
}

func TestGramsLeaveNothingOut(t *testing.T) {
	var b block
	for i := range blockRows {
		b.text = append(b.text, "a cause\n"...)
		b.text = fmt.Appendf(b.text, "raysubmit_%08x\ntrain.py é%d\n", i*i*7919, i)
		b.rows = append(b.rows, row{causeLen: uint16(len("a cause")), textEnd: uint32(len(b.text))})
	}
	every := 0
	for i := range b.rows {
		text := b.text[b.nameFrom(i):b.rows[i].textEnd]
		for _, n := range []int{1, 3, 4, 5, 18} {
			word := text[i%5 : min(i%5+n, len(text))]
			groups := b.groupsWith(word)
			must.True(t, groups&(1<<(i/groupRows)) != 0, "%q of row %d is searched in %b", word, i, groups)
			every += boolToInt(groups == ^uint32(0))
		}
	}
	says.True(t, every != 5*len(b.rows), "each word is searched everywhere")
	passed := 0
	for i := range 1000 {
		word := fmt.Appendf(nil, "raysubmit_z%07d", i)
		must.True(t, !bytes.Contains(b.text, word), "%q is in the text", word)
		passed += bits.OnesCount32(b.groupsWith(word))
	}
	says.True(t, passed <= 10*32, "1000 words that are not there are searched for in %d groups", passed)
}

// TestEveryFilterCounts: no filter is read and then forgotten.
func TestEveryFilterCounts(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	tab := newTable()
	tab.put(v16("lab", "session_2026-11-20_10-00-00_000000_1"), session{facts: &packs.Facts{
		Summary: Summary{OwnerKind: RayJob, Bytes: 10 << 20, Outcome: Failed}, Start: start, End: start.Add(time.Hour)}})
	l := Listing{list: tab.list(time.Minute)}
	other := map[string]string{"state": Running, "kind": RayService, "outcome": Stopped, "from": "2026-11-21",
		"to": "2026-11-19", "longer": "2h", "shorter": "1m", "larger": "1GiB", "smaller": "1KiB"}
	for _, name := range FilterParams {
		value := "none"
		if set, ok := other[name]; ok {
			value = set
		}
		f := must.Get(ParseFilter(url.Values{name: {value}}, start))(t)
		for e := range l.Matching(f, time.Now()) {
			t.Errorf("%s=%s selects %s: ParseFilter must read it, and matcher in match.go look at it", name, value, e.Ref)
		}
		says.True(t, f.Form().Has(name), "%s is lost in links: add it to Form", name)
	}
}
