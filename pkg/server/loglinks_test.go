package server

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// long is a server with a log of 2,500 lines, "line 1" to "line 2500", a second apart from 23:20:00 on.
func long(t *testing.T) (f *fixture, page string) {
	t.Helper()
	return longAs(t, func(text string) string { return text })
}

// utf16Of is a text of ASCII in UTF-16.
func utf16Of(text string) string {
	return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00"
}

// longAs is long with the log in an encoding.
func longAs(t *testing.T, encoded func(text string) string) (f *fixture, page string) {
	t.Helper()
	var text strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&text, "[2026-11-20 23:%02d:%02d,000 I 1 1] line %d\n", 20+i/60%40, i%60, i+1)
	}
	const file = "a+b&c=d #1.log"
	f = start(t, func(_ *Options, store *gatedStore) {
		put(t, store, layout.LogKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: name},
			rayid.Node{1}, file), encoded(text.String()))
	})
	f.waitDescribed(t)
	return f, lab + name + "/log?" + url.Values{"node_id": {"01" + strings.Repeat("0", 54)}, "file": {file}}.Encode()
}

// linkOf is where the link with a text leads, as a browser resolves it.
func linkOf(t *testing.T, page, body, text string) string {
	t.Helper()
	found := regexp.MustCompile(`<a href="([^"]*)"[^>]*>` + text + `</a>`).FindStringSubmatch(body)
	must.True(t, found != nil, "%s has no link %s", page, text)
	at := must.Get(url.Parse(page))(t)
	to := must.Get(at.Parse(html.UnescapeString(found[1])))(t)
	to.Fragment = ""
	return to.String()
}

// TestLogLinks: each link of a log's pages leads where it says, also for a name that has to be escaped.
func TestLogLinks(t *testing.T) {
	f, at := long(t)
	for _, step := range []struct {
		link         string
		holds, lacks string
	}{
		{"", ">1</a>", ">1001</a>"}, {"Next", ">1001</a>", ">1000</a>"}, {"Previous", ">1</a>", ">1001</a>"},
		{"Last", ">2500</a>", ">1500</a>"}, {"Previous", ">1500</a>", ">2500</a>"}, {"First", ">1</a>", ">2500</a>"},
		{"Last", ">2500</a>", ">1500</a>"},
	} {
		if step.link != "" {
			at = linkOf(t, at, f.ask(t, http.MethodGet, at, asBrowser).body, step.link)
		}
		got := f.ask(t, http.MethodGet, at, asBrowser)
		must.True(t, got.status == http.StatusOK && strings.Contains(got.body, step.holds) &&
			!strings.Contains(got.body, step.lacks), "%s leads to %s: %d, want it with %s, without %s", step.link, at,
			got.status, step.holds, step.lacks)
	}
}

// TestLogPlaces: the line that was asked for is on the page, and marked; if there is none, the page says so and shows
// the log's end.
func TestLogPlaces(t *testing.T) {
	t.Run("UTF-8", func(t *testing.T) { logPlaces(t, func(text string) string { return text }) })
	t.Run("UTF-16", func(t *testing.T) { logPlaces(t, utf16Of) })
}

func logPlaces(t *testing.T, encoded func(text string) string) {
	f, page := longAs(t, encoded)
	shown := regexp.MustCompile(`<div class="line shown" id="L(\d+)">`)
	for query, want := range map[string]struct {
		status int
		shown  string
		says   string
	}{
		"":                           {200, "", ""},
		"&line=1":                    {200, "1", ""},
		"&line=1500":                 {200, "1500", ""},
		"&line=2500":                 {200, "2500", ""},
		"&line=2501":                 {200, "2500", "The log has no line 2,501: its last one is 2,500."},
		"&line=9223372036854775807":  {200, "2500", "The log has no line"},
		"&time=2026-11-20T23:30:00Z": {200, "601", ""},
		"&time=2027-01-01T00:00:00Z": {200, "2500", "No line of the log is from 2027-01-01T00:00:00Z or later."},
		"&end=1":                     {200, "2500", ""},
		"&time=10m+ago":              {200, "2500", "No line of the log is from 10m ago or later."},
		"&time=lunch":                {400, "", "Want a date or a time such as"},
		"&line=-3":                   {400, "", "Want a whole number"},
		"&end=maybe":                 {400, "", `The parameter &#34;end&#34; is &#34;maybe&#34;`},
	} {
		got := f.ask(t, http.MethodGet, page+query, asBrowser)
		marked := ""
		if m := shown.FindStringSubmatch(got.body); m != nil {
			marked = m[1]
		}
		says.True(t, got.status == want.status && marked == want.shown && strings.Contains(got.body, want.says) &&
			(want.says != "" || !strings.Contains(got.body, "The log has no")),
			"%s: %d with line %q marked; want %d, line %q and %q", query, got.status, marked, want.status, want.shown,
			want.says)
	}
	got := f.ask(t, http.MethodGet, page, asBrowser)
	got.lacks(t, `action=""`)
	says.All(t, got.body, `<span class="text level-info">[2026-11-20 23:20:00,000 I 1 1] line 1</span>`)
}

// TestLongLines: a line behind lines that fill more than a page is on the page that is asked for.
func TestLongLines(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		key := layout.LogKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: name}, rayid.Node{1},
			"long.log")
		put(t, store, key, strings.Repeat(strings.Repeat("x", 100<<10)+"\n", 30)+"the end\n")
	})
	f.waitDescribed(t)
	for _, line := range []string{"1", "15", "30", "31"} {
		got := f.ask(t, http.MethodGet, lab+name+"/log?file=long.log&node_id=01"+strings.Repeat("0", 54)+"&line="+line,
			asBrowser)
		got.has(t, `<div class="line shown" id="L`+line+`">`)
	}
}

// TestRangeUTF16: a range of a log in UTF-16 is its text, in whole lines, and goes on where it ended.
func TestRangeUTF16(t *testing.T) {
	f, page := longAs(t, utf16Of)
	address := strings.Replace(page, "/log?", "/api/history/log?", 1)
	text, next := "", int64(0)
	for range 100 {
		var answer struct {
			Data struct {
				Next int64  `json:"next_offset"`
				Text string `json:"text"`
			} `json:"data"`
		}
		got := f.ask(t, http.MethodGet, fmt.Sprintf("%s&lines=30&bytes=3001&offset=%d", address, next))
		err := json.Unmarshal([]byte(got.body), &answer)
		must.True(t, err == nil && got.status == http.StatusOK && strings.HasSuffix(answer.Data.Text, "\n"),
			"%d, %v: %.300s", got.status, err, got.body)
		if text, next = text+answer.Data.Text, answer.Data.Next; next == 0 {
			break
		}
	}
	if lines := strings.Count(text, "\n"); lines != 2500 ||
		!strings.HasPrefix(text, "[2026-11-20 23:20:00,000 I 1 1] line 1\n[2026-11-20 23:20:01,000 I 1 1] line 2\n") {
		t.Errorf("%d lines, %.100q", lines, text)
	}
	got := f.ask(t, http.MethodGet, address+"&end=true&lines=2")
	got.has(t, `line 2499\n[2026-11-20 23:21:39,000 I 1 1] line 2500\n`)
}
