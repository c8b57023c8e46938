package catalog

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog/packs"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// simple is the list in its plainest form, which the real one is compared with: a slice of all sessions in its order.
type simple []simpleSession

type simpleSession struct {
	Entry

	text string
}

// passes says whether a session is one of those looked for.
func (s *simpleSession) passes(f *Filter, now time.Time) bool {
	switch {
	case f.KubernetesCluster != "" && !strings.HasSuffix(s.Ref.Namespace, "."+f.KubernetesCluster),
		f.Namespace != "" && f.Namespace != s.Ref.Namespace &&
			(f.KubernetesCluster == "" || f.Namespace+"."+f.KubernetesCluster != s.Ref.Namespace),
		f.Cluster != "" && f.Cluster != s.Ref.Cluster, f.Owner != "" && f.Owner != s.OwnerName,
		f.State == "running" && !s.Running, f.State == "ended" && s.Running,
		f.Kind != "" && s.OwnerKind != f.Kind,
		f.Outcome == NotKnownYet && !s.LacksOutcome(),
		f.Outcome != "" && f.Outcome != NotKnownYet && s.Outcome != f.Outcome,
		f.RayVersion != "" && s.RayVersion != f.RayVersion && !strings.HasPrefix(s.RayVersion, f.RayVersion+"."),
		!f.From.IsZero() && s.Start.Before(f.From), !f.To.IsZero() && !s.Start.Before(f.To),
		f.Larger > 0 && s.Bytes < f.Larger, f.Smaller > 0 && (!s.Described || s.Bytes > f.Smaller):
		return false
	}
	for _, label := range f.Labels {
		if !slices.ContainsFunc(strings.Split(s.text, "\n"), func(line string) bool {
			return line == label || strings.HasPrefix(line, label+"=")
		}) {
			return false
		}
	}
	for tag, value := range map[string]string{"user=": f.User, "finding=": f.Finding} {
		if value != "" && !slices.Contains(strings.Split(s.text, "\n"), tag+value) {
			return false
		}
	}
	if f.Longer > 0 || f.Shorter > 0 {
		if d := s.Duration(now); d < f.Longer || f.Shorter > 0 && (d > f.Shorter || d == 0) {
			return false
		}
	}
	known := strings.ToLower(strings.Join([]string{
		s.Ref.Cluster, s.Ref.Namespace, s.Ref.Name, s.OwnerName, s.RayVersion, s.Outcome, s.OwnerKind, s.text,
	}, "\n"))
	return !slices.ContainsFunc(f.Words, func(word string) bool { return !strings.Contains(known, word) })
}

// compare is the order of a column.
func (s *simpleSession) compare(with *simpleSession, column string, now time.Time) int {
	switch column {
	case "cluster":
		return cmp.Compare(s.Ref.Cluster, with.Ref.Cluster)
	case "namespace":
		return cmp.Compare(s.Ref.Namespace, with.Ref.Namespace)
	case "kind":
		return cmp.Compare(s.OwnerKind, with.OwnerKind)
	case "state":
		return cmp.Or(boolToInt(with.Running)-boolToInt(s.Running), cmp.Compare(s.Outcome, with.Outcome))
	case "duration":
		return cmp.Compare(s.Duration(now), with.Duration(now))
	case "version":
		// the test's have numbers of one length
		return slices.Compare(strings.Split(s.RayVersion, "."), strings.Split(with.RayVersion, "."))
	case "size":
		return cmp.Compare(s.Bytes, with.Bytes)
	}
	return s.Start.Compare(with.Start)
}

// listOf gives what a table's list must be.
func listOf(all map[layout.Session]session, now time.Time, quiet time.Duration) simple {
	var l simple
	for ref, s := range all {
		e := simpleSession{Entry: entryOf(ref, s.facts, s.marked)}
		if e.End.IsZero() {
			if e.Running = now.Sub(e.LastWrite) < quiet; !e.Running && e.Objects > 0 {
				e.End = e.LastWrite
			}
		}
		if !e.Running {
			e.FailedJobs = 0
			if e.Outcome == "" {
				e.Cause = ""
			}
		}
		if s.facts != nil {
			e.text = s.facts.Text
		}
		l = append(l, e)
	}
	slices.SortFunc(l, func(a, b simpleSession) int {
		return compareKeys(key{micros(a.Start), a.Ref}, key{micros(b.Start), b.Ref})
	})
	shown := make(map[string]layout.Session)
	for _, e := range l {
		if _, known := shown[e.Ref.String()]; !known || e.Ref.Version == layout.V16 {
			shown[e.Ref.String()] = e.Ref
		}
	}
	return slices.DeleteFunc(l, func(e simpleSession) bool { return shown[e.Ref.String()] != e.Ref })
}

// part answers a query.
func (l simple) part(q *Query, allowed map[string]bool) (entries []Entry, found int) {
	var all simple
	for i := range l {
		if (allowed == nil || allowed[l[i].Ref.Namespace]) && l[i].passes(&q.Filter, q.Now) {
			all = append(all, l[i])
		}
	}
	slices.SortStableFunc(all, func(a, b simpleSession) int {
		c := a.compare(&b, cmp.Or(q.Sort, "start"), q.Now)
		if q.Descending || q.Sort == "" {
			c = -c
		}
		return c
	})
	from := q.firstShown(len(all))
	for _, s := range all[min(from, len(all)):min(from+q.Limit, len(all))] {
		entries = append(entries, s.Entry)
	}
	return entries, len(all)
}

var now64 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// randomSession makes a session, one of few names so that the same come again.
func randomSession(r *rand.Rand) (layout.Session, session) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	ref := layout.Session{
		Namespace: fmt.Sprintf("team-%d", r.IntN(3)) + pick("", "", ".eu", ".us"),
		Cluster:   fmt.Sprintf("%s-%d", pick("lab", "Prod", "ray"), r.IntN(30)),
		Name: "session_" + now64.Add(-time.Duration(r.IntN(500))*time.Hour).Format("2006-01-02_15-04-05") + "_00000" +
			pick("1", "2", "A"),
	}
	if r.IntN(10) == 0 {
		ref.Version, ref.OwnerKind, ref.OwnerName = layout.V17, pick("rayjob", "raycluster", "rayservice"),
			pick("", "nightly", "serve")
	}
	s := session{marked: now64.Add(-time.Duration(r.IntN(1000)) * time.Minute)}
	if r.IntN(10) == 0 {
		return ref, s
	}
	s.took, s.facts = time.Duration(r.IntN(5))*time.Second, &packs.Facts{
		Summary: Summary{
			Bytes: int64(r.IntN(50)), Objects: r.IntN(3), Nodes: r.IntN(4), FailedJobs: r.IntN(3),
			OwnerKind: pick("", RayJob, RayService, RayCluster), OwnerName: pick("", "nightly", "ETL", "etl-2"),
			RayVersion: pick("", "2.60.0", "2.55.1", "2.60.1"),
			Outcome:    pick("", "failed", "succeeded", "stopped", "unfinished"),
		},
		Seen: now64.Add(-time.Duration(r.IntN(1000)) * time.Minute),
		Text: pick("", "finding=pod\nuser=ana\nteam=search\n\nraysubmit_a1\n", "team=ml\ntier=2\n\ncuda out of memory\n",
			"python train.py\nraysubmit_b2\n",
			"tëxt\n"),
	}
	if d := s.facts; true {
		if r.IntN(3) > 0 {
			d.LastWrite = now64.Add(-time.Duration(r.IntN(30_000)) * time.Second)
		}
		if r.IntN(2) == 0 {
			d.Start = now64.Add(-time.Duration(r.IntN(400)) * time.Hour)
		}
		if r.IntN(2) == 0 {
			d.End = now64.Add(-time.Duration(r.IntN(30_000)) * time.Second)
		}
		if d.Outcome == "failed" {
			d.Cause = pick("", "Out of Memory", "Cuda", "no such file train.py")
		}
	}
	return ref, s
}

func randomQuery(r *rand.Rand) Query {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(of ...string) string {
		if r.IntN(3) > 0 {
			return ""
		}
		return of[r.IntN(len(of))]
	}
	q := Query{
		Now: now64, Sort: pick("", "cluster", "namespace", "kind", "state", "start", "duration", "version", "size"),
		Descending: r.IntN(2) == 0, From: r.IntN(60), Limit: 1 + r.IntN(40),
		Filter: Filter{
			KubernetesCluster: some("eu", "us", "asia"),
			Namespace:         some("team-1", "team-1.eu"), Cluster: some("lab-1", "Prod-2"),
			Owner: some("nightly", "ETL"),
			User:  some("ana", "an"), Finding: some("pod"),
			State: some("running", "ended"),
			Kind:  some(RayJob, RayCluster), Outcome: some("failed", "stopped", NotKnownYet),
			RayVersion: some("2.60", "2.55.1"),
		},
	}
	if label := some("team", "team=search", "tier", "tea"); label != "" {
		q.Labels = []string{label}
	}
	for range r.IntN(3) {
		q.Words = append(q.Words, pick("lab", "prod-1", "team", "ray", "raysubmit", "cuda", "2026-11-1", "_00000a",
			"rayjob", "failed", "etl", "tëxt", "nothing", "2.6", "train.py"))
	}
	switch r.IntN(6) {
	case 0:
		q.Filter.From, q.To = now64.Add(-300*time.Hour), now64.Add(-100*time.Hour)
	case 1:
		q.Longer = 5 * time.Hour
	case 2:
		q.Shorter = 50 * time.Hour
	case 3:
		q.Larger, q.Smaller = 10, 30
	}
	return q
}

// TestListIsLikeASimpleOne: after any changes, queries are answered as a plain slice of all sessions answers them.
func TestListIsLikeASimpleOne(t *testing.T) {
	const quiet = 10 * time.Minute
	r := rand.New(rand.NewPCG(1, 2))
	tab, all := newTable(), make(map[layout.Session]session)
	for round := range 40 {
		for range 1 + r.IntN(400) {
			ref, s := randomSession(r)
			if r.IntN(5) == 0 {
				tab.remove(ref)
				delete(all, ref)
				continue
			}
			tab.put(ref, s)
			all[ref] = s
		}
		for range 20 {
			ref, _ := randomSession(r)
			got, ok := tab.get(ref)
			want, stored := all[ref]
			must.True(t, ok == stored && tab.has(ref) == stored &&
				(!ok || entryOf(ref, got.facts, got.marked) == entryOf(ref, want.facts, want.marked)),
				"round %d: %s is %+v, want %+v", round, ref, got, want)
		}
		l, want := Listing{list: tab.list(quiet)}, listOf(all, now64, quiet)
		must.True(t, l.list.rows == len(all), "%d rows of %d sessions", l.list.rows, len(all))
		for range 30 {
			q := randomQuery(r)
			var allowed map[string]bool
			if r.IntN(2) == 0 {
				allowed = map[string]bool{"team-1": true, "team-3": r.IntN(2) == 0}
			}
			part, err := l.Within(allowed).Part(q)
			entries, found := want.part(&q, allowed)
			must.True(t, err == nil && part.Found == found && slices.Equal(part.Entries, entries),
				"round %d, %+v within %v: %d found, want %d, %v\n%+v\nwant\n%+v", round, q, allowed, part.Found, found,
				err, part.Entries, entries)
			checkTotals(t, l.Within(allowed), want, allowed)
		}
	}
}

func checkTotals(t *testing.T, l Listing, want simple, allowed map[string]bool) {
	t.Helper()
	var total Totals
	clusters, namespaces := make(map[[2]string]bool), make(map[string]bool)
	for i := range want {
		e := &want[i]
		if allowed != nil && !allowed[e.Ref.Namespace] {
			continue
		}
		total.Sessions++
		total.Running += boolToInt(e.Running)
		clusters[[2]string{e.Ref.Namespace, e.Ref.Cluster}], namespaces[e.Ref.Namespace] = true, true
	}
	total.Clusters = len(clusters)
	if got := l.Totals(now64); got != total || len(l.Namespaces()) != len(namespaces) {
		t.Fatalf("totals %+v, want %+v; namespaces %v", got, total, l.Namespaces())
	}
}

// TestTags: the users, labels and kinds of findings of the newest sessions are offered, the most frequent first, and
// only those of sessions that the caller may see.
func TestTags(t *testing.T) {
	tab := newTable()
	for i := range taggedSessions + 10 {
		text := "user=ann\nteam=ml\n\nraysubmit_1\nx=y\n"
		switch {
		case i < 10:
			text = "user=old\n\n" // too old
		case i%3 == 0:
			text = "finding=node_died\nuser=bob\nteam=ml\ntier=1\n\n"
		case i%7 == 0:
			text = "\nraysubmit_2\na=b\n"
		}
		start := now64.Add(time.Duration(i) * time.Minute)
		tab.put(layout.Session{Namespace: fmt.Sprint("team-", i%2), Cluster: "lab",
			Name: start.Format("session_2006-01-02_15-04-05_000000_1")},
			session{marked: start, facts: &packs.Facts{Start: start, Text: text}})
	}
	tab.put(layout.Session{Namespace: "secret", Cluster: "lab", Name: "session_2126-01-01_00-00-00_000000_1"},
		session{marked: now64, facts: &packs.Facts{Start: now64.AddDate(100, 0, 0), Text: "user=eve\nhidden=1\n\n"}})
	l := Listing{list: tab.list(time.Minute)}
	kinds := []string{"node_died"}
	tags := l.Within(map[string]bool{"team-0": true, "team-1": true}).Tags(10)
	says.True(t, reflect.DeepEqual(tags, (Tags{[]string{"ann", "bob"}, []string{"team=ml", "tier=1"}, kinds})), "%+v",
		tags)
	if tags = l.Tags(1); !reflect.DeepEqual(tags, Tags{[]string{"ann"}, []string{"team=ml"}, kinds}) {
		t.Errorf("with limits: %+v", tags)
	}
	if tags = l.Tags(10); !slices.Contains(tags.Users, "eve") {
		t.Errorf("of all: %+v", tags)
	}
}

// TestPartsAreTheWhole: parts by Next are the whole list, whatever comes and goes meanwhile elsewhere.
func TestPartsAreTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	tab := newTable()
	for range 5000 {
		ref, s := randomSession(r)
		tab.put(ref, s)
	}
	l := Listing{list: tab.list(time.Minute)}
	var want []layout.Session
	for e := range l.Matching(Filter{Words: []string{"lab"}}, now64) {
		want = append(want, e.Ref)
	}
	var got []layout.Session
	q := Query{Filter: Filter{Words: []string{"lab"}}, Now: now64, Limit: 37}
	for {
		p := must.Get(l.Part(q))(t)
		for _, e := range p.Entries {
			got = append(got, e.Ref)
		}
		if q.After = p.Next; q.After == "" {
			break
		}
		// Later sessions, and the one that the place is named after goes.
		tab.put(layout.Session{Namespace: "new", Cluster: "lab", Name: "session_" + fmt.Sprint(len(got))},
			session{marked: now64.Add(time.Hour)})
		tab.remove(got[len(got)-1])
		l = Listing{list: tab.list(time.Minute)}
	}
	says.EqualSlices(t, got, want, "%d sessions in parts, want %d", len(got), len(want))
	oldest := slices.Collect(l.Oldest())
	slices.Reverse(oldest)
	says.True(t, len(oldest) == l.Len() && len(oldest) != 0 && oldest[0].Ref.Namespace == "new",
		"%d of %d from the oldest on", len(oldest), l.Len())
	for _, token := range []string{"!", "AAAA", "MSBhL2I"} {
		says.True(t, says.Err(l.Part(Query{After: token, Limit: 1})) != nil, "%q is a place", token)
	}
}

// TestGroups: groups sum what their sessions say.
func TestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	tab := newTable()
	for range 3000 {
		ref, s := randomSession(r)
		tab.put(ref, s)
	}
	l := Listing{list: tab.list(time.Minute)}
	for _, by := range []string{"cluster", "owner"} {
		want := make(map[[3]string]Group)
		for e := range l.Matching(Filter{}, now64) {
			name := [3]string{e.Ref.Namespace, e.Ref.Cluster}
			if by == "owner" {
				name = [3]string{e.Ref.Namespace, e.OwnerName, e.OwnerKind}
			}
			g := want[name]
			g.Sessions++
			g.Running += boolToInt(e.Running)
			g.Failed += boolToInt(e.Outcome == "failed")
			g.Bytes += e.Bytes
			g.Duration += e.Duration(now64)
			if e.Start.After(g.Last) {
				g.Last = e.Start
			}
			if len(g.Newest) < maxNewest {
				g.Newest = append(g.Newest, e)
			}
			want[name] = g
		}
		p, err := l.Part(Query{Now: now64, Group: by, Sort: "sessions", Descending: true, Limit: 1000})
		must.True(t, err == nil && len(p.Groups) == len(want) && p.Found == len(want), "%s: %d groups of %d, %v", by,
			len(p.Groups), len(want), err)
		for i, g := range p.Groups {
			name := [3]string{g.Namespace, g.Name}
			if by == "owner" {
				name[2] = g.Kind
			}
			w := want[name]
			if g.Namespace, g.Name, g.Kind = "", "", ""; !reflect.DeepEqual(g, w) {
				t.Errorf("%v: %+v, want %+v", name, g, w)
			}
			says.True(t, i == 0 || p.Groups[i-1].Sessions >= g.Sessions, "group %d has more sessions than the one before", i)
		}
	}
}

// TestGroupOfLongSessions: sums over sessions of any length and size are no negative numbers.
func TestGroupOfLongSessions(t *testing.T) {
	tab := newTable()
	for i := range 2000 {
		d := &packs.Facts{Start: time.Unix(1, 0), End: now64, LastWrite: now64}
		d.Bytes = 1 << 53
		tab.put(v16("lab", fmt.Sprintf("session_%d", i)), session{marked: now64, facts: d})
	}
	l := Listing{list: tab.list(time.Minute)}
	p, err := l.Part(Query{Now: now64, Group: "cluster", Limit: 1})
	says.True(t, err == nil && len(p.Groups) == 1 && p.Groups[0].Duration >= 290*365*24*time.Hour &&
		p.Groups[0].Bytes >= 1<<62-1, "%+v, %v", p.Groups, err)
}

// TestRowsHaveTheWholeSummary: what the list shows of a session is not lost in the list's memory.
func TestRowsHaveTheWholeSummary(t *testing.T) {
	f := packs.Facts{Summary: Summary{OwnerKind: RayJob, Outcome: Failed}}
	must.Fill(t, &f.Summary)
	b, n := &block{}, &names{}
	b.add(n, &record{ref: layout.Session{Namespace: "team", Cluster: "lab", Name: "session_1"},
		session: session{facts: &f}})
	if got := b.facts(n, 0).Summary; got != f.Summary {
		t.Errorf("%v is lost of %+v: add it to row, and to add and facts in block.go", must.ZeroFields(got), f.Summary)
	}
}
