package server

import (
	"archive/tar"
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// TestLogPages: a log is shown from any place, with the numbers of its lines, and nothing in it is taken for HTML.
func TestLogPages(t *testing.T) {
	f := logged(t)
	node := "node_id=01" + strings.Repeat("0", 54)
	for query, want := range map[string]struct {
		status int
		holds  string
		lacks  string
	}{
		"file=raylet.out":                           {200, `id="L3"`, "<b>time"},
		"file=raylet.out&line=3":                    {200, "no &lt;b&gt;time&lt;/b&gt;", "<b>time"},
		"file=raylet.out&offset=43":                 {200, `id="L2"`, "needle one"},
		"file=raylet.out&time=2026-11-20T23:21:00Z": {200, `id="L2"`, "needle one"},
		"file=raylet.out&end=1":                     {200, "needle one", "are still being counted"},
		"file=raylet.out&offset=999999":             {200, "There are no lines here", "needle"},
		"file=" + url.QueryEscape("a b#c.log"):      {200, "filename=a&#43;b%23c.log", ""},
		"file=" + url.QueryEscape("old/raylet.out"): {200, `<span class="fg1">needle</span>`, "\x1b"},
		"file=none":                          {404, "is not stored", ""},
		"file=" + url.QueryEscape("../../x"): {404, "is not stored", ""},
		"file=raylet.out&near=50":            {200, `id="L2"`, "needle one"},
		"file=raylet.out&near=43":            {200, `id="L1"`, ""},
		"file=raylet.out&lines=1":            {200, `data-start="0"`, "needle two"},
		"file=raylet.out&lines=1&end=1":      {200, `data-start="86"`, "needle one"},
		"file=raylet.out&until=43": {200, `data-start="0" data-end="43"`,
			"needle two"},
		"file=raylet.out&lines=x":                                     {400, "&#34;lines&#34;", "<b>time"},
		"file=raylet.out&time=2026-11-20+23:21":                       {200, `id="L2"`, "needle one"},
		"file=raylet.out&q=need&level=error":                          {200, `value="need"`, ""},
		"file=raylet.out&line=x":                                      {400, "Want a whole number", "<b>time"},
		"file=raylet.out&time=" + url.QueryEscape("<script>alert(1)"): {400, "Want a date or a time", "<script>alert"},
	} {
		got := f.ask(t, http.MethodGet, lab+name+"/log?"+node+"&"+query, asBrowser)
		says.True(t, got.status == want.status && strings.Contains(got.body, want.holds) &&
			(want.lacks == "" || !strings.Contains(got.body, want.lacks)), "%s: %d %s; want %d with %q, without %q",
			query, got.status, got.body, want.status, want.holds, want.lacks)
	}
	at := f.ask(t, http.MethodGet, lab+name+"/at/2026-11-20T23:21:00Z/log?file=raylet.out&"+node, asBrowser)
	at.wants(t, 200, "needle one").lacks(t, "needle two")
	f.ask(t, http.MethodGet, lab+name+"/log?node_id=x&file=raylet.out", asBrowser).wants(t, 400)
	// The page's own links lead somewhere.
	if got := f.ask(t, http.MethodGet, lab+name+"/api/v0/logs/file?"+node+"&filename=raylet.out&lines=-1",
		asProgram); got.status == 500 {
		t.Errorf("download: %d", got.status)
	}
}

func TestSearchPage(t *testing.T) {
	f := logged(t)
	got := f.ask(t, http.MethodGet, lab+name+"/search?q="+url.QueryEscape(`"><script>alert(1)</script>`)+"&level=error",
		asBrowser)
	got.wants(t, 200, "<option selected>error", "010000000000").lacks(t, "<script>alert")
	link := `href="log?file=raylet.out&amp;node_id=01`
	for path, want := range map[string]bool{"/search": true, "/search?level=error": true, "/search?q=a": false,
		"/at/2026-11-20T23:21:00Z/search": false} {
		if got := f.ask(t, http.MethodGet, lab+name+path, asBrowser); strings.Contains(got.body, link) != want {
			t.Errorf("%s names all logs: %t %s", path, !want, got.body)
		}
	}
	listed := f.ask(t, http.MethodGet, lab+name+"/search", asBrowser).body
	driver, worker, own := strings.Index(listed, ">job-driver-"), strings.Index(listed, ">worker-"),
		strings.Index(listed, "Ray’s own")
	says.True(t, driver >= 0 && worker >= driver && own >= worker && strings.Index(listed, ">raylet.out<") >= own &&
		strings.Contains(listed, "driver of job raysubmit_1 · "), "the logs are listed at %d, %d and %d: %s", driver,
		worker, own, listed)
	f.ask(t, http.MethodGet, "/search", asBrowser).wants(t, 400)
	// The form says what the address means, in whatever spelling.
	f.ask(t, http.MethodGet, lab+name+"/search?q=a&regexp=false&ignore_case=1&level=ERROR&node_id=01", asBrowser).
		wants(t, 200, "<option selected>error", `value="true" checked> Ignore case`,
			`<option value="`+rayid.Node{1}.String()+`" selected>`).lacks(t, "checked> Regular")
	f.ask(t, http.MethodGet, lab+name+"/search?q=a&node_id=zz", asBrowser).wants(t, 400, "one of the session")
	f.ask(t, http.MethodGet, lab+name+"/log?file=raylet.out&q=a&regexp=0&level=Error&node_id="+rayid.Node{1}.String(),
		asBrowser).wants(t, 200, "<option selected>error").lacks(t, "checked> Regular")
}

// TestSearchOfANodeWithoutLogs: the page searches what a node has stored, though that may be nothing.
func TestSearchOfANodeWithoutLogs(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: name}
	silent := rayid.Node{2}.String()
	f := start(t, func(_ *Options, store *gatedStore) {
		put(t, store, layout.LogKey(root, ref, rayid.Node{1}, "raylet.out"), "needle\n")
		put(t, store, layout.SnapshotKey(root, ref, "/nodes?view=summary"),
			`{"result": true, "msg": "", "data": {"summary": [{"raylet": {"nodeId": "`+silent+`", "state": "ALIVE"}}]}}`)
	})
	for _, id := range []string{silent, "02"} {
		got := f.ask(t, http.MethodGet, lab+name+"/search?q=needle&plain=true&node_id="+id, asBrowser)
		got.wants(t, 200, `<option value="`+silent+`" selected>`).lacks(t, "<mark>needle")
	}
	f.ask(t, http.MethodGet, lab+name+"/search?node_id=03", asBrowser).wants(t, 400, "one of the session")
}

// TestLogArchive: the logs of a session or of a job as one file, and none that one may not see.
func TestLogArchive(t *testing.T) {
	f := logged(t)
	for query, want := range map[string]int{"": 6, "?submission_id=raysubmit_1": 1, "?job_id=01000000": 1,
		"?file=*let.out": 2, "?node_id=01": 6} {
		got := f.ask(t, http.MethodGet, lab+name+"/api/history/logs.zip"+query, asProgram)
		must.True(t, got.status == 200 && got.header.Get("Content-Type") == "application/zip" &&
			strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment; "), "%s: %d %v", query, got.status,
			got.header)
		archive, err := zip.NewReader(strings.NewReader(got.body), int64(len(got.body)))
		says.True(t, err == nil && len(archive.File) == want, "%s: %d files, %v; want %d", query, len(archive.File),
			err, want)
	}
	got := f.ask(t, http.MethodGet, lab+name+"/api/history/logs.tar.zst?job_id=01000000", asProgram)
	plain := must.Get(zstd.NewReader(strings.NewReader(got.body)))(t)
	defer plain.Close()
	archive := tar.NewReader(plain)
	if h, err := archive.Next(); err != nil || !strings.HasSuffix(h.Name, "/worker-ab-01000000-12.out") ||
		got.header.Get("Content-Type") != "application/zstd" ||
		!strings.HasSuffix(got.header.Get("Content-Disposition"), `-logs.tar.zst"`) {
		t.Errorf("%d %v: %v, %v", got.status, got.header, h, err)
	}
	says.Equal(t, says.Err(archive.Next()), io.EOF, "after the only log")
	f.ask(t, http.MethodGet, lab+name+"/api/history/logs.zip?node_id=ff", asProgram).wants(t, http.StatusNotFound)
	guardedServer, _ := guarded(t)
	for who, status := range map[string]int{"ann": http.StatusForbidden, "bob": http.StatusOK} {
		for _, path := range []string{"api/history/logs.zip", "api/history/logs.tar.zst",
			"log?file=classified.log&node_id=01" + strings.Repeat("0", 54), "search"} {
			got := guardedServer.ask(t, http.MethodGet, "/namespaces/secret/clusters/classified/sessions/latest/"+path,
				asProgram, "Authorization: Bearer "+who)
			got.wants(t, status)
		}
	}
}

// TestLogText: lines of a log come as a file, as they are stored, from and to any line.
func TestLogText(t *testing.T) {
	f := logged(t)
	for query, want := range map[string]struct {
		status int
		body   string
	}{
		"&line=1&to=1":                   {200, "[2026-11-20 23:20:00,000 I 1 1] needle one\n"},
		"&line=3&to=3":                   {200, "no <b>time</b>\n"},
		"&line=2&to=9223372036854775807": {200, "[2026-11-20 23:22:00,000 E 1 1] needle two\nno <b>time</b>\n"},
		"&line=7&to=9":                   {200, ""},
		"&line=3&to=2":                   {400, ""},
		"&line=3":                        {400, ""},
		"&line=x&to=4":                   {400, ""},
	} {
		got := f.ask(t, http.MethodGet, lab+name+"/api/history/log.txt?file=raylet.out&node_id=01"+
			strings.Repeat("0", 54)+query, asProgram)
		says.True(t, got.status == want.status && (got.status != 200 || got.body == want.body), "%s: %d %q, want %d %q",
			query, got.status, got.body, want.status, want.body)
	}
	got := f.ask(t, http.MethodGet, lab+name+"/api/history/log.txt?file="+url.QueryEscape("old/raylet.out")+
		"&line=1&to=2&node_id=01"+strings.Repeat("0", 54), asProgram)
	says.Equal(t, got.header.Get("Content-Disposition"), `attachment; filename="L1-L2-raylet.out"`, "%v", got.header)
	says.Equal(t, got.header.Get("Content-Type"), "text/plain; charset=utf-8", "%v", got.header)
}

// TestLogRanges: a log is read part by part, in whole lines where they fit, forward to its end and from its end.
func TestLogRanges(t *testing.T) {
	f := logged(t)
	const text = "[2026-11-20 23:20:00,000 I 1 1] needle one\n[2026-11-20 23:22:00,000 E 1 1] needle two\nno <b>time</b>\n"
	read := func(query string) (status int, part struct {
		Size, Offset int64
		Next         int64 `json:"next_offset"`
		Text         string
	}) {
		t.Helper()
		got := f.ask(t, http.MethodGet, lab+name+"/api/history/log?file=raylet.out&node_id=01"+strings.Repeat("0", 54)+
			query, asProgram)
		answer := struct{ Data any }{&part}
		must.OK(t, json.Unmarshal([]byte(got.body), &answer), "%s: in %s", query, got.body)
		return got.status, part
	}
	for _, bounds := range []string{"", "&lines=1", "&bytes=50", "&bytes=7", "&lines=2&bytes=60"} {
		var all string
		for offset := int64(0); ; {
			status, part := read(bounds + "&offset=" + strconv.FormatInt(offset, 10))
			must.True(t, status == 200 && part.Offset == offset && part.Size == int64(len(text)) && len(part.Text) != 0,
				"%s from %d: %d %+v", bounds, offset, status, part)
			all += part.Text
			if part.Next == 0 {
				break
			}
			offset = part.Next
		}
		says.Equal(t, all, text, bounds)
	}
	for query, want := range map[string]string{
		"&end=true&lines=1": "no <b>time</b>\n", "&end=true&bytes=20": "no <b>time</b>\n", "&end=true&bytes=3": "b>\n",
		"&offset=99999": "", "&line=3&lines=1": text[:43], "&end=true": text,
	} {
		if status, part := read(query); status != 200 || part.Text != want || part.Next != 0 &&
			query != "&line=3&lines=1" {
			t.Errorf("%s: %d %+v, want %q", query, status, part, want)
		}
	}
	if status, _ := read("&lines=-1"); status != http.StatusBadRequest {
		t.Errorf("lines=-1: %d", status)
	}
}

// TestLogRangesWithGap: parts of a log of which bytes are not stored give each stored byte once, also if one begins
// where nothing is stored.
func TestLogRangesWithGap(t *testing.T) {
	f := start(t, func(_ *Options, store *gatedStore) {
		key := layout.LogKey(root, layout.Session{Namespace: "default", Cluster: "lab", Name: name}, rayid.Node{1},
			"gap.log")
		put(t, store, key, "one\ntwo\n")
		put(t, store, layout.ChunkKey(key, 40, layout.Plain), "six\nseven\n")
	})
	f.waitDescribed(t)
	for _, first := range []int64{0, 20} {
		var all string
		for offset, parts := first, 0; ; parts++ {
			got := f.ask(t, http.MethodGet,
				fmt.Sprintf("%s%s/api/history/log?file=gap.log&node_id=01%s&lines=1&offset=%d", lab, name,
					strings.Repeat("0", 54), offset), asProgram)
			var answer struct {
				Data struct {
					Text string
					Next int64 `json:"next_offset"`
				}
			}
			err := json.Unmarshal([]byte(got.body), &answer)
			must.True(t, err == nil && parts <= 4 && (answer.Data.Next == 0 || answer.Data.Next > offset),
				"from %d: %v, %d parts, %s", offset, err, parts, got.body)
			all += answer.Data.Text
			if offset = answer.Data.Next; offset == 0 {
				break
			}
		}
		want := map[int64]string{0: "one\ntwo\nsix\nseven\n", 20: "six\nseven\n"}[first]
		says.Equal(t, all, want, "from %d", first)
	}
}
