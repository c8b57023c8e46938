package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// longLog is a log of 2,500 lines, "line 1" to "line 2500", that writeLong stores for the failed cluster: more than a
// page has.
const (
	longLog   = "long a+b&c.log"
	longLines = 2500
	longError = 1700 // the number of its only line of an error
)

func writeLong(t *testing.T, folder string) {
	t.Helper()
	var text strings.Builder
	for i := range longLines {
		at := time.Date(2026, 11, 20, 10, 0, i, 0, time.UTC)
		level := "I"
		if i+1 == longError {
			level = "E"
		}
		fmt.Fprintf(&text, "[%s,000 %s 1 1] line %d %s\n", at.Format("2006-01-02 15:04:05"), level, i+1,
			strings.Repeat("word ", i%60))
	}
	path := filepath.Join(folder, longLog)
	must.OK(t, os.WriteFile(path, []byte(text.String()), 0o600))
	// Stored with the others: what is stored after a session's end shows that the session went on.
	other := must.Get(os.Stat(filepath.Join(folder, "raylet.out")))(t)
	must.OK(t, os.Chtimes(path, other.ModTime(), other.ModTime()))
}

// followed is a link that was clicked, or a form that was submitted; see links.js.
type followed struct {
	What, Href, URL, Says string
	Status                int
	Download              int64
	Found                 *bool
	Shown                 *struct {
		Text string
		Seen bool
	}
}

type linked struct {
	Name   string            `json:"name"`
	Path   string            `json:"path"`
	Width  int               `json:"width,omitempty"`
	Filled bool              `json:"filled,omitempty"`
	Fields map[string]string `json:"fields,omitempty"`
}

type followedPage struct {
	Name   string
	Status int
	Steps  []followed
}

func follow(t *testing.T, base string, pages []linked) map[string]followedPage {
	t.Helper()
	var seen struct {
		Pages  []followedPage
		Errors []struct{ Page, Message string }
	}
	run(t, "links.js", map[string]any{"base": base, "pages": pages}, &seen)
	for _, e := range seen.Errors {
		t.Errorf("%s: %s", e.Page, e.Message)
	}
	named := map[string]followedPage{}
	for _, p := range seen.Pages {
		named[p.Name] = p
	}
	must.True(t, len(named) == len(pages), "%d pages of %d were opened", len(named), len(pages))
	return named
}

// everyLink: each link and form of every page of ours leads to a page of ours, a file or data, and no place on a page
// is out of sight.
func everyLink(t *testing.T, o own) {
	log := func(rest string) string {
		return o.Failed + "/log?" + url.Values{"node_id": {o.Node}, "file": {longLog}}.Encode() + rest
	}
	end := fmt.Sprintf("%s/at/%d", o.Failed, lifeOf(t, o.URL+o.Failed).To)
	place := map[string]string{"line": "1500", "time": "2026-11-20T10:30:00Z", "q": "Error", "token": "none"}
	pages := []linked{
		{Name: "list", Path: "/homepage"},
		{Name: "list, narrowed", Path: "/?q=" + failedCluster + "&from=2026-01-01&longer=1s&outcome=failed"},
		{Name: "list by cluster", Path: "/homepage?group=cluster"},
		{Name: "list by owner", Path: "/homepage?group=owner&sort=-size"},
		{Name: "list without a match", Path: "/homepage?q=nothing-like-it"},
		{Name: "list, wrong value", Path: "/homepage?longer=abc", Fields: map[string]string{"longer": "1s"}},
		{Name: "fleet", Path: "/fleet?from=2020-01-01"},
		{Name: "fleet, wrong value", Path: "/fleet?from=abc", Fields: map[string]string{"from": "2026-01-01"}},
		{Name: "overview", Path: o.Failed + "/overview"},
		{Name: "findings", Path: o.Failed + "/findings"},
		{Name: "findings of a moment", Path: end + "/findings"},
		{Name: "comparison", Path: o.Failed + "/compare?with=" + o.Other},
		{Name: "note", Path: o.Failed + "/note"},
		{Name: "timeline", Path: o.Failed + "/timeline", Filled: true},
		{Name: "search", Path: o.Failed + "/search?q=Error", Filled: true},
		{Name: "search of a moment", Path: end + "/search?q=Error", Filled: true},
		{Name: "logs side by side", Path: o.Failed + "/logs?" + url.Values{
			"log": {o.Node + "/" + longLog, o.Node + "/raylet.out"}}.Encode(), Fields: place},
		{Name: "log", Path: log(""), Fields: place},
		{Name: "log, second page", Path: log("&line=1100#L1100"), Fields: place},
		{Name: "log, narrow", Path: log("&line=1200#L1200"), Width: 400, Fields: place},
		{Name: "log, end", Path: log("&end=1"), Fields: place},
		{Name: "log, beyond", Path: log("&line=999999"), Fields: place},
		{Name: "log, wrong time", Path: log("&time=lunch"), Fields: place},
		{Name: "panels", Path: o.Metrics + "/grafana/d/rayDefaultDashboard/default-dashboard?from=1m+ago",
			Filled: true},
		{Name: "dashboard with the bar", Path: o.Failed + "/", Filled: true},
		{Name: "dashboard of a moment", Path: end + "/", Filled: true},
		{Name: "no such session", Path: "/namespaces/cases/clusters/" + failedCluster +
			"/sessions/session_2020-01-01_00-00-00_000000_1/"},
		{Name: "no such page", Path: "/nothing/here"},
		{Name: "no such moment", Path: o.Failed + "/at/banana/"},
		{Name: "unknown parameter", Path: "/homepage?names=lab"},
	}
	began := time.Now()
	seen := follow(t, o.URL, pages)
	steps := 0
	for name, p := range seen {
		t.Logf("%s: %d, %d links and forms", name, p.Status, len(p.Steps))
		steps += len(p.Steps)
		for _, s := range p.Steps {
			judge(t, name, s)
		}
	}
	t.Logf("%d links and forms in %s", steps, time.Since(began))
	says.True(t, steps >= 130, "only %d links and forms were followed", steps)
	logPlaces(t, seen)
}

// judge says whether a link or form leads somewhere.
func judge(t *testing.T, page string, s followed) {
	t.Helper()
	where := fmt.Sprintf("%s: %q, %s leads to %s", page, s.What, s.Href, s.URL)
	switch {
	case s.Status == -1:
		says.True(t, strings.HasPrefix(s.Href, "https://docs.ray.io/"), "%s: %q leads to another site: %s", page,
			s.What, s.Href)
	case s.Found != nil:
		says.True(t, *s.Found, "%s, which cannot be seen", where)
	case s.Download > 0, s.Status >= 200 && s.Status < 300:
	case s.Status == 0 && strings.Contains(s.Says, "matching line"): // the search shows results on its page
	case s.Status == 0 && strings.Contains(s.URL, "#/"): // the dashboard's own places
	case s.Status == 0 && strings.HasPrefix(s.What, "Copy as Markdown"): // the page stays
	default:
		t.Errorf("%s: %d %s", where, s.Status, s.Says)
	}
	if s.Shown != nil && !s.Shown.Seen && (s.Found == nil || strings.HasSuffix(s.URL, "#end")) {
		t.Errorf("%s: its line %q cannot be seen", where, s.Shown.Text)
	}
}

// logPlaces: the log viewer's links and forms show what they say.
func logPlaces(t *testing.T, seen map[string]followedPage) {
	for _, page := range []string{"log", "log, second page", "log, narrow", "log, end", "log, beyond",
		"log, wrong time"} {
		went := 0
		for _, s := range seen[page].Steps {
			want := map[string]string{
				"Last": fmt.Sprintf("line %d ", longLines), "form of node_id,file,line,": "line 1500 ",
				"form of node_id,file,time,": "line 1801 ",
			}[s.What]
			if want == "" {
				continue
			}
			went++
			says.True(t, s.Shown != nil && s.Shown.Seen && strings.Contains(s.Shown.Text, want),
				"%s: %s leads to %s, which shows %+v, want %q", page, s.What, s.URL, s.Shown, want)
		}
		says.True(t, page != "log" || went == 3, "%d of Last, Go to a line and Go to a time were followed", went)
	}
}
