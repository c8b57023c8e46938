package server

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

var rowForm = regexp.MustCompile(`<div class="line of c(\d)">.*?<span class="text[^"]*">([^<]*)`)

// rowsOf are the lines of a page of logs side by side: the log's number and the last word.
func rowsOf(body string) (rows []string) {
	for _, m := range rowForm.FindAllStringSubmatch(body, -1) {
		words := strings.Fields(m[2])
		rows = append(rows, m[1]+words[len(words)-1])
	}
	return rows
}

// TestMergedLogs: lines of several logs are in the order of their times, in parts that follow one another without gap
// or repetition in both directions.
func TestMergedLogs(t *testing.T) {
	var first, second strings.Builder
	for i := range 3000 {
		said := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC).Add(time.Duration(i) * 600 * time.Millisecond)
		at := said.Format("[2006-01-02 15:04:05,000 I 1 1] ")
		if i%3 == 0 {
			first.WriteString(at + "a" + two(i) + "\n")
		} else {
			second.WriteString(at + "b" + two(i) + "\n")
		}
	}
	f := start(t, func(_ *Options, store *gatedStore) {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
		for path, text := range map[string]string{"a.log": first.String(), "b.log": second.String(),
			"plain.out": strings.Repeat("says no time\n", 300)} {
			put(t, store, layout.LogKey(root, ref, rayid.Node{1}, path), text)
		}
	})
	f.waitDescribed(t)
	node := "01" + strings.Repeat("0", 54)
	page := lab + name + "/logs?" + url.Values{"log": {node + "/a.log", node + "/b.log"}}.Encode()
	var all []string
	at, parts, last := page, 0, ""
	for ; parts < 20; parts++ {
		got := f.ask(t, http.MethodGet, at, asBrowser)
		must.True(t, got.status == http.StatusOK, "%s: %d %s", at, got.status, got.body)
		all = append(all, rowsOf(got.body)...)
		if !strings.Contains(got.body, `rel="next">`) {
			last = got.body
			break
		}
		at = nextOf(t, at, got.body, "next")
	}
	must.True(t, len(all) == 3000 && parts >= 2, "%d lines in %d parts", len(all), parts)
	for i, row := range all {
		want := "1b" + two(i)
		if i%3 == 0 {
			want = "0a" + two(i)
		}
		must.True(t, row == want, "line %d is %s, want %s", i, row, want)
	}
	back := rowsOf(last)
	for strings.Contains(last, `rel="prev">`) {
		at = nextOf(t, at, last, "prev")
		last = f.ask(t, http.MethodGet, at, asBrowser).body
		back = append(rowsOf(last), back...)
	}
	says.Equal(t, strings.Join(back, " "), strings.Join(all, " "), "backwards there are %d lines, the first %q",
		len(back), back[:min(3, len(back))])

	for query, want := range map[string]struct {
		status int
		holds  string
	}{
		"":                                       {200, "\">23:20:00.000<"},
		"&time=2026-11-20+23:30":                 {200, "a1002"},
		"&time=lunch":                            {400, "Want a date or a time"},
		"&offset=1":                              {400, "separated by commas"},
		"&offset=x,y":                            {400, "numbers from 0 on"},
		"&columns=1":                             {200, "wide of2"},
		"&log=" + node + "/no":                   {404, "not stored"},
		"&log=" + node + "/plain.out":            {200, "these lines say no time"},
		strings.Repeat("&log="+node+"/a.log", 3): {400, "at most 4 logs"},
	} {
		f.ask(t, http.MethodGet, page+query, asBrowser).wants(t, want.status, want.holds)
	}
	f.ask(t, http.MethodGet, page+"&time=2026-11-20+23:30", asBrowser).lacks(t, "a999")
}

// TestMergedLogsOfDays: times of a session that lasted longer than a day have their date.
func TestMergedLogsOfDays(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: old} // objects of today are stored of it
		put(t, store, layout.LogKey(root, ref, rayid.Node{1}, "a.log"), "[2026-11-22 23:20:00,000 I 1 1] late\n")
	})
	f.waitDescribed(t)
	f.ask(t, http.MethodGet, lab+old+"/logs?log=01"+strings.Repeat("0", 54)+"/a.log", asBrowser).
		wants(t, http.StatusOK, ">11-22 23:20:00.000<", `class="merged mono dated"`)
}

// TestLogsOfTasks: a task and a job lead to the logs that tell of them; what is not stored is said.
func TestLogsOfTasks(t *testing.T) {
	f := logged(t)
	for query, want := range map[string]int{
		"?task_id=" + strings.Repeat("a", 48): 404, "?task_id=x": 400, "?submission_id=none": 404,
		"?actor_id=" + strings.Repeat("a", 32): 404, "": 200,
	} {
		f.ask(t, http.MethodGet, lab+name+"/logs"+query, asBrowser).wants(t, want)
	}
	got := f.ask(t, http.MethodGet, lab+name+"/logs?submission_id=raysubmit_1", asBrowser)
	to := must.Get(url.Parse(got.header.Get("Location")))(t)
	if logs := to.Query()["log"]; got.status != http.StatusFound || len(logs) == 0 ||
		!strings.HasSuffix(logs[0], "/job-driver-raysubmit_1.log") {
		t.Errorf("a submission leads to %d %q", got.status, got.header.Get("Location"))
	}
}

// TestPlainSearch: without scripts a search shows what it found by log, with what wrote it and links to the lines.
func TestPlainSearch(t *testing.T) {
	f := logged(t)
	got := f.ask(t, http.MethodGet, lab+name+"/search?q=needle&plain=1", asBrowser)
	got.has(t, "raylet.out</span>", "raylet · node 010000000000", "driver of job raysubmit_1",
		"<mark>needle</mark> two", "&amp;line=2&amp;node_id=", `#L2"`, "matching lines")
	f.ask(t, http.MethodGet, lab+name+"/search?q=needle&level=error&plain=1", asBrowser).has(t,
		"more matching line", " no level.")
	answer := f.ask(t, http.MethodGet, lab+name+"/api/history/search?q=needle&writers=true", asProgram)
	answer.has(t, `"writer":"raylet"`)
	f.ask(t, http.MethodGet, lab+name+"/api/history/search?q=needle", asProgram).lacks(t, `"writer"`)
}

// nextOf is where the link of a page with a relation leads.
func nextOf(t *testing.T, page, body, rel string) string {
	t.Helper()
	m := regexp.MustCompile(`<a href="([^"]*)" rel="` + rel + `">`).FindStringSubmatch(body)
	must.True(t, m != nil, "%s has no link %s", page, rel)
	return must.Get(must.Get(url.Parse(page))(t).Parse(html.UnescapeString(m[1])))(t).String()
}

// two is a number of two digits at least.
func two(n int) string { return fmt.Sprintf("%02d", n) }
