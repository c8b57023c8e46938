package dashboard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/pyjson"
	"github.com/rayhistory/historyserver/pkg/session"
)

func request(target string) *Request {
	return &Request{Request: httptest.NewRequest(http.MethodGet, target, nil), Session: &session.Session{}}
}

func TestListQuery(t *testing.T) {
	d := New(Options{})
	usual := session.Query{Limit: 100, ExcludeDriver: true, Filters: []session.Filter{}}
	with := func(change func(*session.Query)) session.Query {
		q := usual
		change(&q)
		return q
	}
	for query, want := range map[string]session.Query{
		"":                                  usual,
		"limit=0":                           with(func(q *session.Query) { q.Limit = 0 }),
		"limit=10000&detail=1":              with(func(q *session.Query) { q.Limit, q.Detail = 10_000, true }),
		"limit=1_000&detail=false":          with(func(q *session.Query) { q.Limit = 1000 }),
		"timeout=5&exclude_driver=False":    with(func(q *session.Query) { q.ExcludeDriver = false }),
		"filter_keys=STATE&filter_values=x": usual, // no predicate to pair them with
		"filter_keys=A&filter_predicates=%3D&filter_values=x&filter_keys=b&filter_predicates=!%3D&filter_values=Y": with(func(q *session.Query) {
			q.Filters = []session.Filter{{Key: "a", Value: "x"}, {Key: "b", Not: true, Value: "Y"}}
		}),
	} {
		got, refused := d.parseListQuery(request("/?" + query))
		if refused != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", query, got, refused, want)
		}
	}
	for query, want := range map[string]string{
		"limit=abc":        "invalid literal for int() with base 10: 'abc'",
		"limit=":           "invalid literal for int() with base 10: ''",
		"limit=1__0":       "invalid literal for int() with base 10: '1__0'",
		"limit=it's":       `invalid literal for int() with base 10: "it's"`,
		"limit=-1":         "Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.",
		"timeout=1.5":      "invalid literal for int() with base 10: '1.5'",
		"detail=maybe":     "Failed to convert a value maybe of type <class 'str'> to <class 'bool'>",
		"exclude_driver=2": "Failed to convert a value 2 of type <class 'str'> to <class 'bool'>",
		"limit=10001":      "Given limit 10001 exceeds the supported limit 10000. Use a lower limit, or set the `RAY_MAX_LIMIT_FROM_API_SERVER` environment variable to a larger value.",
		"filter_keys=a&filter_predicates=%3E&filter_values=x": "Unsupported filter predicate > is given. Available predicates: =, !=.",
	} {
		if _, refused := d.parseListQuery(request("/?" + query)); refused == nil || refused.text != want || refused.status != http.StatusBadRequest {
			t.Errorf("%s: %v, want %s", query, refused, want)
		}
	}
	if q, refused := New(Options{MaxLimit: 20_000}).parseListQuery(request("/?limit=15000")); refused != nil || q.Limit != 15_000 {
		t.Errorf("a raised limit: %+v, %v", q, refused)
	}
}

func TestParseAt(t *testing.T) {
	want := time.Date(2026, 11, 20, 23, 20, 0, 500_000_000, time.UTC).UnixNano()
	for _, s := range []string{"2026-11-20T23:20:00.5Z", "2026-11-21T00:20:00.5+01:00", "1795216800500"} {
		if at, err := ParseAt(s); err != nil || at != want {
			t.Errorf("ParseAt(%s) = %d, %v, want %d", s, at, err, want)
		}
	}
	if at, err := ParseAt(""); err != nil || at != 0 {
		t.Errorf("the end is %d, %v", at, err)
	}
	for _, s := range []string{"now", "-5", "0", "99999999999999999", "2026-11-20", "1960-01-01T00:00:00Z", "9999-01-01T00:00:00Z"} {
		if at, err := ParseAt(s); err == nil {
			t.Errorf("ParseAt(%s) = %d, want an error", s, at)
		}
	}
}

// things are rows of a made-up entity.
var (
	thingColumns = []column{filterable("id"), filterable("alive").of(boolKind), filterable("pid").of(intKind), filterable("size"), shown("text"), filterableDetail("more")}
	things       = []*pyjson.Object{
		pyjson.Obj("id", "b", "alive", true, "pid", pyjson.Number("7"), "size", pyjson.Number("3"), "text", "X", "more", nil),
		pyjson.Obj("id", "a", "alive", false, "pid", int64(8), "size", pyjson.Number("4"), "text", "Y", "more", "Z"),
		pyjson.Obj("id", "c", "alive", true, "pid", 9, "size", nil, "text", "Y"),
	}
)

func TestFilters(t *testing.T) {
	is := func(key, value string) session.Filter { return session.Filter{Key: key, Value: value} }
	not := func(key, value string) session.Filter { return session.Filter{Key: key, Not: true, Value: value} }
	for _, tt := range []struct {
		name    string
		filters []session.Filter
		want    string // IDs, or an error
	}{
		{"none", nil, "a b c"},
		{"case", []session.Filter{is("id", "A")}, "a"},
		{"not, case", []session.Filter{not("id", "A")}, "b c"},
		{"bool", []session.Filter{is("alive", "True")}, "b c"},
		{"not bool", []session.Filter{not("alive", "1")}, "a"},
		{"int", []session.Filter{is("pid", "8")}, "a"},
		{"not int", []session.Filter{not("pid", "8")}, "b c"},
		{"nullable int", []session.Filter{is("size", "3")}, "b"},
		{"nullable int, not: text and number always differ", []session.Filter{not("size", "3")}, "a b c"},
		{"both", []session.Filter{is("alive", "true"), is("pid", "9")}, "c"},
		{"a row without the column", []session.Filter{not("more", "Z")}, "b"},
		{"column that cannot be filtered", []session.Filter{is("text", "Y")},
			"The given filter column text is not supported. Enter filters with –-filter key=value or –-filter key!=value Supported filter columns: {'alive', 'id', 'more', 'pid', 'size'}"},
		{"unknown column after no row is left", []session.Filter{is("id", "nope"), is("bogus", "x")}, ""},
		{"no int", []session.Filter{is("pid", "x")}, "Invalid filter `--filter pid x` for a int type column. Please provide an integer filter `--filter pid [int]`"},
		{"no bool", []session.Filter{is("alive", "x")}, "Invalid filter `--filter alive x` for a boolean type column. Please provide `--filter alive [True|true|1]` for True or `--filter alive [False|false|0]` for False."},
		{"no nullable int", []session.Filter{is("size", "x")}, "Failed to convert a value x of type <class 'str'> to <class 'int'>"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			picked, refused := rowSet{rows: things}.query(thingColumns, session.Query{Filters: tt.filters, Limit: 10})
			if refused != nil {
				if refused.text != tt.want {
					t.Errorf("got %s, want %s", refused.text, tt.want)
				}
				return
			}
			var ids []string
			for _, row := range picked.rows {
				ids = append(ids, row.String("id"))
			}
			if got := strings.Join(ids, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	set := rowSet{rows: things, total: 5, partialFailure: "", warnings: []string{"careful"}, selected: func(f session.Filter) bool { return f.Key == "alive" }}
	q := session.Query{Limit: 1, Detail: true, Filters: []session.Filter{{Key: "alive", Value: "true"}, {Key: "pid", Value: "7"}}}
	picked, refused := set.query(thingColumns, q)
	if refused != nil {
		t.Fatal(refused)
	}
	const want = `{"total": 5, "num_after_truncation": 2, "num_filtered": 1, "result": [{"id": "b", "alive": true, "pid": 7, "size": 3, "text": "X", "more": null}], ` +
		`"partial_failure_warning": "", "warnings": ["careful"]}`
	if got := string(pyjson.Append(nil, picked.reply(set.columns(thingColumns, true)).object())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(pyjson.Append(nil, picked.reply(set.columns(thingColumns, false)).object())); strings.Contains(got, "more") {
		t.Errorf("a detail column without detail: %s", got)
	}
}

func TestCamelCase(t *testing.T) {
	for in, want := range map[string]string{
		"node_id": "nodeId", "CPU": "CPU", "object_store_memory": "objectStoreMemory", "node:__internal_head__": "node:InternalHead",
		"node_65976f1a5e": "node65976F1A5E", "CPU_group_0_ab1": "CPUGroup0Ab1", "don't_stop'me": "don'tStop'Me",
	} {
		if got := camelCase(in); got != want {
			t.Errorf("camelCase(%s) = %s, want %s", in, got, want)
		}
	}
	if got := snakeCase("actorDiedErrorContext"); got != "actor_died_error_context" {
		t.Error(got)
	}
}

func TestEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	writeReply(w, http.StatusInternalServerError, "Unknown view ü", nil)
	if got, want := w.Body.String(), `{"result": false, "msg": "Unknown view \u00fc", "data": {}}`; got != want || w.Code != 500 || w.Header().Get("Content-Type") != jsonType {
		t.Errorf("%d %s", w.Code, got)
	}
	var any map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &any); err != nil {
		t.Error(err)
	}
}
