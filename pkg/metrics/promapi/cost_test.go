package promapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/metrics"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// storeLines stores lines of an hour of metrics.
func storeLines(t testing.TB, name string, lines ...string) *storetest.Store {
	t.Helper()
	store := storetest.New()
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	key := layout.ChunkKey(layout.MetricsKey("log", ref, rayid.Node{0xaa}, begin), 0, layout.Plain)
	must.OK(t, store.Create(t.Context(), key, strings.NewReader(strings.Join(lines, "\n")+"\n")))
	return store
}

// labeled stores series of a name whose labels l differ, and whose label big has so many bytes; with a new value at
// each of some reads.
func labeled(t testing.TB, series, big, reads int) *storetest.Store {
	t.Helper()
	lines := []string{`{"start":1,"targets":[{"instance":"aa"}]}`}
	for i := range series {
		lines = append(lines, fmt.Sprintf(`{"from":%d,"target":0,"series":[["m","big","%s","l","%d"]]}`, i,
			strings.Repeat("A", big), i))
	}
	zeros := strings.TrimSuffix(strings.Repeat("0,", series), ",")
	for read := range reads {
		var values bytes.Buffer
		for i := range series {
			fmt.Fprintf(&values, ",%d.5", read*series+i)
		}
		lines = append(lines, fmt.Sprintf(`{"t":%d,"target":0,"i":[%s],"v":[%s]}`, begin.UnixMilli()+int64(read)*15_000,
			zeros, values.String()[1:]))
	}
	return storeLines(t, oneSession, lines...)
}

// TestQueryMemory: however a query multiplies labels or series, it takes no more memory than one query may, or is
// refused.
func TestQueryMemory(t *testing.T) {
	const memory = 64 << 20 // of a database: one query may hold so much
	large := sessionIn(labeled(t, 250, 60_000, 1), oneSession, memory)
	many := sessionIn(labeled(t, 3000, 10, 2), oneSession, memory)
	changing := sessionIn(labeled(t, 60, 300, 200), oneSession, memory)
	replace := func(of, to string, copies int, more string) string {
		return fmt.Sprintf(`label_replace(%s, %q, %q, "big", "(.*)")`, of, to, strings.Repeat("$1", copies)+more)
	}
	join := func(of string, copies int) string {
		return fmt.Sprintf(`label_join(%s, "x", "-"%s)`, of, strings.Repeat(`, "big"`, copies))
	}
	constant := func(i int) string {
		return fmt.Sprintf(`label_replace(m, "x%d", "%s", "", "")`, i, strings.Repeat("x", 7900))
	}
	grown := func(of string) string { // to 5 GB
		of = `label_replace(` + of + `, "big", "` + strings.Repeat("x", 5000) + `", "", "")`
		return replace(replace(of, "big", 1000, ""), "big", 1000, "")
	}
	joined := func(operator string, n int, of func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, of(i))
		}
		return strings.Join(all, " "+operator+" ")
	}
	for _, c := range []struct {
		name    string
		session Session
		query   string
		refused bool
	}{
		{"a label", large, "count(m)", false},
		{"a copy", large, "count(" + replace("m", "x", 1, "") + ")", false},
		{"copies", large, "count(" + replace("m", "x", 75, "") + ")", true},
		{"named copies", large, `count(label_replace(m, "x", "` + strings.Repeat("${a}", 75) +
			`", "big", "(?P<a>.*)"))`, true},
		{"copies, or", large, "count(" + joined("or", 4,
			func(i int) string { return replace("m", "x", 75, fmt.Sprint(i)) }) + ")", true},
		{"few copies, or", large, "count(" + joined("or", 40,
			func(i int) string { return replace("m", "x", 1, fmt.Sprint(i)) }) + ")", true},
		{"joined labels", large, "count(" + join("m", 100) + ")", true},
		{"copies of copies", large, "count(" + replace(strings.Replace(replace("m", "big", 9, ""), "m,", "m,", 1),
			"big", 9, "") + ")", true},
		{"in a subquery", large, "count(max_over_time(" + replace("m", "x", 20, "") + "[1m:15s]))", true},
		{"in parentheses", large, "count(((" + replace("((m))", "x", 75, "") + ")))", true},
		{"with offset", large, "count(" + replace("m offset 0s", "x", 75, "") + ")", true},
		{"with @", large, "count(" + replace("m @ end()", "x", 75, "") + ")", true},
		{"constants, or", many, "count(" + joined("or", 26, constant) + ")", true},
		{"constants, +", many, "count(" + joined("+ on (l)", 26, constant) + ")", true},
		{"constants, and", many, "count(" + joined("and on (l)", 8, constant) + ")", false}, // one after the other
		{"a constant", many, "count(" + constant(0) + ")", false},
		{"operators", many, "count(" + joined("+", 20, func(int) string { return "m" }) + ")", false},
		{"nested operators", many, "count(" + strings.Repeat("(m + ", 12) + "m" + strings.Repeat(")", 12) + ")", false},
		{"grouped", large, "count(m * on (l) group_left (big) m)", true},
		{"few grouped", many, "count(m * on (l) group_left (big) m)", false},
		{"grouped by one", large, `count(m * on () group_left (big) label_replace(m{l="1"}, "big", "` +
			strings.Repeat("$1", 9) + `", "big", "(.*)"))`, true},
		{"values", many, `count(count_values("v", m))`, false},
		{"sorted", large, "sort(count by (big) (m))", false},
		{"top", large, "topk(3, m)", false},
		{"quantile", many, "count(histogram_quantile(0.9, label_replace(m, \"le\", \"$1\", \"l\", \"(.*)\")))", false},
		{"no buckets", large, "count(histogram_quantile(0.9, label_replace(m, \"le\", \"$1\", \"big\", \"(.*)\")))",
			true},
		{"absent", large, "absent(m)", false},
		{"changing values", changing, `count(count_values without () ("v", m))`, true},
		{"values of a function", changing, `count(count_values("v", abs(m)))`, true},
		{"without a selector", many, "count(" + grown("vector(1)") + ")", true},
		{"before a selector", many, "count(" + grown("vector(1)") + " or m)", true},
		{"one to many series", changing, `count(m * on (instance) group_left () sum by (instance) (m))`, false},
		{"one to one in a range", changing, `count(m / m)`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			scope := Scope{Sessions: []Session{c.session}, Now: begin.Add(time.Hour)}
			api := newAPI(Options{MaxSamples: 1_000_000})
			path, form := "query", url.Values{"query": {c.query}, "time": {fmt.Sprint(begin.Unix())}}
			if c.session.Open() == changing.Open() {
				path = "query_range"
				form.Set("start", fmt.Sprint(begin.Unix()))
				form.Set("end", fmt.Sprint(begin.Add(50*time.Minute).Unix()))
				form.Set("step", "1")
			}
			var status int
			var answer string
			_, _ = api.ask(t, scope, http.MethodPost, "query",
				url.Values{"query": {"count(m)"}, "time": {fmt.Sprint(begin.Unix())}})
			peak := storetest.Peak(10, func() { status, answer = api.ask(t, scope, http.MethodPost, path, form) })
			t.Logf("%d, %d MiB %.150s", status, peak>>20, answer)
			if refused := status != http.StatusOK && (strings.Contains(answer, "fit in memory") ||
				strings.Contains(answer, errQueryWork.Error())); refused != c.refused || !refused &&
				status != http.StatusOK {
				t.Errorf("%d %.300s", status, answer)
			}
			if peak > memory*7/4 { // with garbage that was not found yet
				t.Errorf("%d MiB of memory", peak>>20)
			}
		})
	}
}

// TestLongLabels: a large expression is not compared with a long label, wherever that is asked for: nothing would end
// that.
func TestLongLabels(t *testing.T) {
	long := sessionIn(labeled(t, 2, 100_000, 1), oneSession, 64<<20)
	short := sessionIn(labeled(t, 2, 1_000, 1), "session_2026-11-20_23-30-00_000000_1", 64<<20)
	named := sessionIn(storeLines(t, oneSession,
		`{"start":1,"targets":[{"SessionName":"`+strings.Repeat("A", 100_000)+`"}]}`,
		`{"from":0,"target":0,"series":[["m"]]}`,
		fmt.Sprintf(`{"t":%d,"target":0,"i":[0],"v":[1]}`, begin.UnixMilli())), oneSession, 64<<20)
	expression := "(x|A)*" + strings.Repeat("(?:A?){1000}", 10) + "[bc]"
	for _, c := range []struct {
		name, path, selector string
		sessions             []Session
		refused              bool
	}{
		{"a query", "query", `m{big=~"%s"}`, []Session{long}, true},
		{"a query of what is not like it", "query", `m{big!~"%s"}`, []Session{long}, true},
		{"series", "series", `m{big=~"%s"}`, []Session{long}, true},
		{"values", "label/l/values", `{big=~"%s"}`, []Session{long}, true},
		{"sessions", "query", `m{SessionName=~"%s"}`, []Session{named, short}, true},
		{"short labels", "query", `m{big=~"%s"}`, []Session{short}, false},
		{"another label", "query", `m{l=~"%s"}`, []Session{long}, false},
	} {
		selector := fmt.Sprintf(c.selector, expression)
		form := url.Values{"query": {selector}, "match[]": {selector}, "time": {fmt.Sprint(begin.Unix())}}
		scope := Scope{Sessions: c.sessions, Now: begin.Add(time.Hour)}
		status, answer := newAPI(Options{}).ask(t, scope, http.MethodPost, c.path, form)
		if refused := status == http.StatusUnprocessableEntity &&
			strings.Contains(answer, metrics.ErrLongValue.Error()); refused != c.refused || !refused &&
			status != http.StatusOK {
			t.Errorf("%s: %d %.300s", c.name, status, answer)
		}
	}
}

// TestGroupsOnce: the series of a selector are grouped once, however many operators of a query ask for it.
func TestGroupsOnce(t *testing.T) {
	var s selected
	for i := range 10_000 {
		s.addSeries([]series{{labels: labels.FromStrings("__name__", "m", "l", fmt.Sprint(i))}})
	}
	by := grouping{names: []string{"x"}}
	want := groups{number: 10_000, largest: 1}
	says.Equal(t, s.countGroups(by), want, "groups")
	bytes := storetest.Allocated(func() { says.Equal(t, s.countGroups(by), want, "groups again") })
	says.True(t, bytes <= 10_000, "grouping again takes %d bytes", bytes)
	s.addSeries([]series{{labels: labels.FromStrings("__name__", "n", "l", "0")}})
	says.Equal(t, s.countGroups(by), groups{number: 10_000, largest: 2}, "groups with another series")
}

// TestQueryWork: what the engine does for one series without a look at the context is bounded.
func TestQueryWork(t *testing.T) {
	lines := []string{`{"start":1,"targets":[{"instance":"aa"}]}`, `{"from":0,"target":0,"series":[["m"]]}`,
		`{"t":` + fmt.Sprint(begin.UnixMilli()) + `,"target":0,"i":[0],"v":[1]}`}
	for i := range 60_000 {
		lines = append(lines, fmt.Sprintf(`{"t":%d,"target":0,"i":[],"v":[]}`, begin.UnixMilli()+int64(i+1)*55))
	}
	often := sessionIn(storeLines(t, oneSession, lines...), oneSession, 64<<20)
	many := sessionIn(labeled(t, 3000, 50, 1), oneSession, 64<<20)
	for _, c := range []struct {
		name, query string
		session     Session
		refused     bool
	}{
		{"a subquery of one value", "quantile_over_time(0.5, vector(1)[11d:1s])", many, true},
		{"a usual subquery", "max_over_time(sum(m)[10m:15s])", many, false},
		{"many reads", "quantile_over_time(0.5, m[1h])", often, true},
		{"a large expression", `count(label_replace(m, "x", "$1", "big", "((.?){30}(a|b)){30}"))`, many, true},
		{"a usual expression", `count(label_replace(m, "x", "$1", "big", "(A+).*"))`, many, false},
	} {
		form := url.Values{"query": {c.query}, "start": {fmt.Sprint(begin.Unix())},
			"end": {fmt.Sprint(begin.Add(150 * time.Minute).Unix())}, "step": {"1"}}
		if !c.refused {
			form.Set("step", "600")
		}
		scope := Scope{Sessions: []Session{c.session}, Now: begin.Add(time.Hour)}
		status, answer := newAPI(Options{}).ask(t, scope, http.MethodPost, "query_range", form)
		if refused := status != http.StatusOK && strings.Contains(answer, errQueryWork.Error()); refused != c.refused ||
			!refused && status != http.StatusOK {
			t.Errorf("%s: %d %.300s", c.name, status, answer)
		}
	}
}
