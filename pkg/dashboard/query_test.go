package dashboard

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

func ask(target string, maxLimit int) *Request {
	return &Request{
		Request: httptest.NewRequest(http.MethodGet, target, nil), MaxLimit: maxLimit,
		Moment: moment.Moment{Session: &session.Session{}, Env: moment.NewEnv(logrus.New(), nil)},
	}
}

func TestListQuery(t *testing.T) {
	usual := tasktable.Query{Limit: 100, ExcludeDriver: true, Filters: []tasktable.Filter{}}
	with := func(change func(*tasktable.Query)) tasktable.Query {
		q := usual
		change(&q)
		return q
	}
	for query, want := range map[string]tasktable.Query{
		"":                                  usual,
		"limit=0":                           with(func(q *tasktable.Query) { q.Limit = 0 }),
		"limit=10000&detail=1":              with(func(q *tasktable.Query) { q.Limit, q.Detail = 10_000, true }),
		"limit=1_000&detail=false":          with(func(q *tasktable.Query) { q.Limit = 1000 }),
		"timeout=5&exclude_driver=False":    with(func(q *tasktable.Query) { q.ExcludeDriver = false }),
		"filter_keys=STATE&filter_values=x": usual, // no predicate to pair them with
		"filter_keys=A&filter_predicates=%3D&filter_values=x&filter_keys=b&filter_predicates=!%3D&filter_values=Y": with(func(q *tasktable.Query) {
			q.Filters = []tasktable.Filter{{Key: "a", Value: "x"}, {Key: "b", Not: true, Value: "Y", SentLowerCase: true}}
		}),
	} {
		got, refused := parseListQuery(ask("/?"+query, 10_000))
		says.True(t, refused != nil || got.Stop != nil, "%s: nothing stops the query when its client leaves", query)
		got.Stop = nil // functions are not comparable
		says.True(t, refused == nil && reflect.DeepEqual(got, want), "%s: %+v, %v, want %+v", query, got, refused, want)
	}
	if q, refused := parseListQuery(ask("/?limit=15000", 20_000)); refused != nil || q.Limit != 15_000 {
		t.Errorf("a raised limit: %+v, %v", q, refused)
	}
}

// things are rows of a made-up entity.
var (
	thingColumns = []column{
		filterable("id"), filterable("alive").ofKind(boolKind), filterable("pid").ofKind(intKind), filterable("size").orNull(),
		shownOnly("text"), filterableDetail("more"),
	}
	things = []*pyjson.Object{
		pyjson.Obj("id", "b", "alive", true, "pid", pyjson.Number("7"), "size", pyjson.Number("3"), "text", "X", "more",
			nil),
		pyjson.Obj("id", "a", "alive", false, "pid", int64(8), "size", pyjson.Number("4"), "text", "Y", "more", "Z"),
		pyjson.Obj("id", "c", "alive", true, "pid", 9, "size", nil, "text", "Y"),
	}
)

func TestFilters(t *testing.T) {
	is := func(key, value string) tasktable.Filter {
		return tasktable.Filter{Key: key, Value: value, SentLowerCase: true}
	}
	not := func(key, value string) tasktable.Filter {
		return tasktable.Filter{Key: key, Not: true, Value: value, SentLowerCase: true}
	}
	capital := func(f tasktable.Filter) tasktable.Filter { f.SentLowerCase = false; return f } // sent with capitals
	for _, tt := range []struct {
		name    string
		filters []tasktable.Filter
		want    string // IDs, or an error
	}{
		{"none", nil, "a b c"},
		{"case", []tasktable.Filter{is("id", "A")}, "a"},
		{"not, case", []tasktable.Filter{not("id", "A")}, "b c"},
		{"bool", []tasktable.Filter{is("alive", "True")}, "b c"},
		{"not bool", []tasktable.Filter{not("alive", "1")}, "a"},
		{"int", []tasktable.Filter{is("pid", "8")}, "a"},
		{"not int", []tasktable.Filter{not("pid", "8")}, "b c"},
		{"nullable int", []tasktable.Filter{is("size", "3")}, "b"},
		{"nullable int, not: text and number always differ", []tasktable.Filter{not("size", "3")}, "a b c"},
		{"both", []tasktable.Filter{is("alive", "true"), is("pid", "9")}, "c"},
		{"null, not", []tasktable.Filter{not("size", "4")}, "a b c"},
		{"rows without the column", []tasktable.Filter{not("more", "Q")}, "a"},
		{"a key in capital letters: no value is converted before it is compared",
			[]tasktable.Filter{capital(not("alive", "true")), capital(not("pid", "8"))}, "a b c"},
		{"a key in capital letters", []tasktable.Filter{capital(is("alive", "true")), capital(is("pid", " 9 "))}, "c"},
		{"column that cannot be filtered", []tasktable.Filter{is("text", "Y")},
			"The given filter column text is not supported. Enter filters with –-filter key=value or –-filter key!=value Supported filter columns: {'alive', 'id', 'more', 'pid', 'size'}"},
		{"unknown column after no row is left", []tasktable.Filter{is("id", "nope"), is("bogus", "x")}, ""},
		{"no int", []tasktable.Filter{is("pid", "x")},
			"Invalid filter `--filter pid x` for a int type column. Please provide an integer filter `--filter pid [int]`"},
		{"no bool", []tasktable.Filter{is("alive", "x")},
			"Invalid filter `--filter alive x` for a boolean type column. Please provide `--filter alive [True|true|1]` for True or `--filter alive [False|false|0]` for False."},
		{"no nullable int", []tasktable.Filter{is("size", "x")},
			"Failed to convert a value x of type <class 'str'> to <class 'int'>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			picked, refused := rowSet{rows: things, columns: thingColumns}.filterSortCut(tasktable.Query{Filters: tt.filters,
				Limit: 10})
			if refused != nil {
				says.Equal(t, refused.Error(), tt.want)
				return
			}
			var ids []string
			for _, row := range picked.rows {
				ids = append(ids, row.String("id"))
			}
			says.Equal(t, strings.Join(ids, " "), tt.want)
		})
	}
}

func TestCounts(t *testing.T) {
	set := rowSet{rows: things, columns: thingColumns, total: 5, partialFailure: "", warnings: []string{"careful"},
		drops: func(f typedFilter, row *pyjson.Object) bool { return f.Key == "alive" && f.excludes(row) }}
	q := tasktable.Query{Limit: 1, Detail: true, Filters: []tasktable.Filter{{Key: "alive", Value: "true"},
		{Key: "pid", Value: "7"}}}
	picked, refused := set.filterSortCut(q)
	must.OK(t, refused)
	const want = `{"total": 5, "num_after_truncation": 2, "num_filtered": 1, "result": [{"id": "b", "alive": true, "pid": 7, "size": 3, "text": "X", "more": null}], ` +
		`"partial_failure_warning": "", "warnings": ["careful"]}`
	says.Equal(t, written(picked.reply().object()), want)
	q.Detail = false
	if picked, refused = set.filterSortCut(q); refused != nil {
		t.Fatal(refused)
	}
	got := written(picked.reply().object())
	says.True(t, !strings.Contains(got, "more"), "a detail column without detail: %s", got)
}

// status is the status of a refusal; 0 for another error.
func status(err error) int {
	if refused, ok := errors.AsType[*rayError](err); ok {
		return refused.status
	}
	return 0
}

func written(v any) string {
	w := httptest.NewRecorder()
	writeJSON(w, http.StatusOK, v)
	return w.Body.String()
}

// TestFitTo: Ray 2.55 has no topology of placement groups, 2.56 had it under other names, and a newer one may have
// more.
func TestFitTo(t *testing.T) {
	list, err := pyjson.ParseObject(
		[]byte(`{"result": [{"placement_group_id": "1", "name": "", "topology_strategy": {}, "label_domain_key": "rack"}]}`))
	must.OK(t, err)
	set := rowSet{columns: columnsOf(groupFields)}
	set.adaptColumns(list)
	names := func(detail bool) (names []string) {
		for _, c := range set.shownColumns(detail) {
			names = append(names, c.name)
		}
		return names
	}
	want := "[placement_group_id name creator_job_id state bundles is_detached stats topology_strategy label_domain_key]"
	says.Equal(t, fmt.Sprint(names(true)), want, "with detail")
	says.Equal(t, fmt.Sprint(names(false)), "[placement_group_id name creator_job_id state]", "without")
}

// TestFiltersOnMissingValues: rows of Ray's tables lack what is not set, and no filter keeps a row that lacks its
// column. Jobs have a null there, which differs from every value.
func TestFiltersOnMissingValues(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	a := newAsker(t, load(t, rec.Store(), rec.Session), Options{})
	for _, tt := range []struct {
		list, column string
		kept         bool
	}{
		{"workers", "exit_type", false}, {"workers", "debugger_port", false}, {"actors", "node_id", false},
		{"actors", "placement_group_id", false},
		{"jobs", "job_id", true}, {"jobs", "submission_id", true},
	} {
		lacking := func(filter string) (n int) {
			for _, v := range a.data("/api/v0/" + tt.list + "?detail=1&limit=10000" +
				filter).Object("result").List("result") {
				if v.(*pyjson.Object).Get(tt.column) == nil {
					n++
				}
			}
			return n
		}
		all, want := lacking(""), 0
		if tt.kept {
			want = all
		}
		got := lacking("&filter_keys=" + tt.column + "&filter_predicates=!%3D&filter_values=7")
		says.True(t, all != 0 && got == want, "%s whose %s is not 7: %d that have none, want %d of %d", tt.list,
			tt.column, got, want, all)
	}
}

// TestFilterKeysInCapitals: Ray's own store knows only keys in small letters. It neither refuses values of others nor
// leaves rows out for them.
func TestFilterKeysInCapitals(t *testing.T) {
	a := recorded(t)
	for _, url := range []string{"/api/v0/actors?filter_keys=State", "/api/v0/actors?filter_keys=JOB_ID",
		"/api/v0/nodes?filter_keys=STATE", "/api/v0/nodes?filter_keys=Node_ID"} {
		list := a.data(url + "&filter_predicates=%3D&filter_values=odd").Object("result")
		if list.Int("total") == 0 || list.Int("num_after_truncation") != list.Int("total") ||
			list.Int("num_filtered") != 0 {
			t.Errorf("%s: %s", url, pyjson.Append(nil, list))
		}
	}
}

// TestLivingWorkers: Ray's own store leaves out dead workers, so they do not count as listed, if the filter is written
// as it expects.
func TestLivingWorkers(t *testing.T) {
	a := recorded(t)
	for value, leftOut := range map[string]bool{"True": true, "true": false, "1": false} {
		list := a.data("/api/v0/workers?filter_keys=is_alive&filter_predicates=%3D&filter_values=" +
			value).Object("result")
		total, listed, matching := list.Int("total"), list.Int("num_after_truncation"), list.Int("num_filtered")
		says.True(t, matching != 0 && matching != total && (!leftOut || listed == matching) &&
			(leftOut || listed == total), "is_alive=%s: %d of %d listed, %d match", value, listed, total, matching)
	}
}

// TestPausedWorkers: Ray's own store keeps those that a debugger has paused, if the filter is written as ray debug
// does; in what it lists, a number always differs from a text.
func TestPausedWorkers(t *testing.T) {
	rec := recording.OpenNamed(t, "ray-2.60-wide")
	dir := rec.Store()
	row := func(id, paused string) string {
		return fmt.Sprintf(`{"worker_id": "%s", "is_alive": true, "num_paused_threads": %s}`, strings.Repeat(id, 28),
			paused)
	}
	put(t, dir, layout.SnapshotVersionKey(layout.SnapshotKey(layout.DefaultRoot, rec.Session,
		"/api/v0/workers"+layout.AllRows), time.Unix(4e9, 0)),
		`{"result": true, "data": {"result": {"total": 3, "num_after_truncation": 3, "num_filtered": 3, "result": [`+
			row("aa", "0")+","+row("bb", "2")+","+row("cc", "null")+`]}}}`)
	a := newAsker(t, load(t, dir, rec.Session), Options{})
	for filter, want := range map[string]string{
		"num_paused_threads != 0": "bb, 1 listed", "num_paused_threads != 1": "aa bb, all listed",
		"NUM_PAUSED_THREADS != 0": "aa bb, all listed", "num_paused_threads = 2": "bb, all listed",
	} {
		words := strings.Fields(filter)
		list := a.data("/api/v0/workers?detail=1&limit=10000&filter_keys=" + words[0] + "&filter_predicates=" +
			url.QueryEscape(words[1]) + "&filter_values=" + words[2]).Object("result")
		got := ""
		for _, row := range moment.Objects(list.List("result")) {
			got += " " + row.String("worker_id")[:2]
		}
		listed := "all"
		if n := list.Int("num_after_truncation"); n != list.Int("total") {
			listed = strconv.FormatInt(n, 10)
		}
		if got = strings.TrimSpace(got) + ", " + listed + " listed"; got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
}
