package browser

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// widths are those of the windows in which the server's own pages are used, in pixels: on a phone, beside an editor, on
// a desk.
var widths = []int{360, 800, desk}

const desk = 1400

// windows is what a program reports that used pages in windows.
type windows[V any] struct {
	Visits         []V
	Plain          int // lines that search.js saw without scripts
	Errors, Others []string
}

// inWindows runs a program that uses pages in a window of each width in light colours, and of some in dark: what a
// program does with keys and the mouse is the same in both. No page has an error or asks another host.
func inWindows[V any](t *testing.T, script string, job map[string]any, dark ...int) (seen windows[V]) {
	t.Helper()
	job = maps.Clone(job)
	job["widths"], job["dark"] = widths, dark
	run(t, script, job, &seen)
	for _, e := range seen.Errors {
		t.Error(e)
	}
	for _, address := range seen.Others {
		t.Errorf("asks %s", address)
	}
	must.True(t, len(seen.Visits) == len(widths)+len(dark), "%d visits", len(seen.Visits))
	return seen
}

// zoomMetrics: dragging over a panel shows that range on all panels and in the address, from which one comes back; a
// range can be typed and reset with keys alone, and another session's figures are drawn over a session's.
func zoomMetrics(t *testing.T, o own) {
	type visit struct {
		Width, Wide, Dashed                int
		Whole, Dragged, Back, Typed, Reset [2]float64
	}
	const page = "/grafana/d/rayDefaultDashboard/default-dashboard"
	seen := inWindows[visit](t, "zoom.js",
		map[string]any{"base": o.URL, "page": o.Metrics + page, "with": o.Other}, desk)
	for _, v := range seen.Visits {
		whole, dragged := v.Whole[1]-v.Whole[0], v.Dragged[1]-v.Dragged[0]
		if v.Wide > 0 || dragged <= 0 || dragged > whole/2 || v.Dragged[0] <= v.Whole[0] || v.Back != v.Whole ||
			v.Reset != v.Whole {
			t.Errorf("dragging: %+v", v)
		}
		says.True(t, v.Typed[1] == v.Whole[1] && v.Typed[1]-v.Typed[0] == 60_000 && v.Dashed != 0,
			"a typed range, and another session's figures: %+v", v)
	}
	audit(t, o.URL, []audited{
		{"panels of a typed range", o.Metrics + page + "?from=1m+ago&with=" + o.Other, ".panel svg"},
		{"panels of no range", o.Metrics + page + "?from=lunch", "#wrong"},
	})
}

// TestNarrowWindow: 800 pixels are enough to enter a session, to read the cluster's name in the bar, to replay by keys,
// and to be told of a table that was cut.
func TestNarrowWindow(t *testing.T) {
	s := server(t)
	base := s.Base("ray-2.60-wide")
	var seen struct {
		Width, Enter float64
		Link, Cut    string
		Name         struct {
			Text         string
			Shown, Whole float64
		}
		Keys  []*int64
		Marks []string
		Phone struct{ Bottom, Height float64 }
		List  struct {
			Top            float64
			Folded, Opened bool
			Back           string
		}

		Windows []struct {
			Width, Height, Right float64
			Folded               bool
			Tabs                 []string
		}
	}
	run(t, "narrow.js", map[string]any{"root": s.URL + "/homepage", "base": base, "job": "/#/jobs/02000000",
		"tasks": 12345}, &seen)
	says.True(t, seen.Enter <= seen.Width, "the button to enter ends at %.0f of %.0f pixels", seen.Enter, seen.Width)
	says.True(t, strings.Contains(seen.Link, "/namespaces/default/clusters/lab/sessions/session_"),
		"the cluster's name leads to %s", seen.Link)
	says.True(t, seen.Name.Text == "lab" && seen.Name.Shown >= seen.Name.Whole,
		"the cluster's name in the bar is cut: %+v", seen.Name)
	says.Equal(t, seen.Cut, "10,000 of 12,345 tasks in the table", "of the cut table the bar")
	says.True(t, len(seen.Marks) >= 2, "times below the slider: %q", seen.Marks)
	says.Equal(t, len(seen.Windows), 3, "the bar was seen in the windows %+v", seen.Windows)
	says.True(t, seen.Phone.Height != 0 && seen.Phone.Bottom <= seen.Phone.Height,
		"the bar on a phone ends at %.0f of %.0f pixels", seen.Phone.Bottom, seen.Phone.Height)
	l := seen.List
	says.True(t, l.Top <= 400 && l.Folded && l.Opened && l.Back == "", "the list on a phone: %+v", l)
	for _, w := range seen.Windows {
		if tabs := strings.Join(w.Tabs, ", "); w.Height > 41 || w.Right > w.Width || w.Folded != (w.Width < 1250) ||
			!strings.HasPrefix(tabs, "Overview overview, Timeline timeline, Logs search, Metrics ") {
			t.Errorf("the bar in a window: %+v", w)
		}
	}
	// The session lasted some five minutes: a sixtieth of that is, round, five seconds.
	const step = int64(5 * time.Second / time.Millisecond)
	if k := seen.Keys; len(k) != 5 || k[0] == nil || k[4] != nil {
		t.Fatalf("keys: %v", k)
	} else if *k[1] != *k[0]+step || *k[2] != *k[1]+10*step || *k[3] != *k[2]-step {
		t.Errorf("keys lead to %d, %d, %d, %d", *k[0], *k[1], *k[2], *k[3])
	}
}

var scrollBytes = flag.Int64("scroll-mib", 100, "size of the log that TestScrolling scrolls through, in MiB")

// chunkBytes is the size of each of the log's chunks, which are links to one file: a log of any size takes no more.
const chunkBytes = 8 << 20

// TestScrolling: the page of a log and the server take no more memory after scrolling through it with the wheel and
// dragging to its middle and end, however large it is. It prints how many frames a second the page draws meanwhile.
func TestScrolling(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	binary := build(t)
	log := writeHuge(t, data, *scrollBytes<<20)
	url, pid := launch(t, binary, data, dir)
	before := resident(t, pid)
	var seen struct {
		Steps []struct {
			Name                   string
			Frames, Lines          int
			Seconds, Longest, Busy float64
		}
		At     []float64
		Heap   []float64
		Nodes  []float64
		Errors []string
	}
	run(t, "scroll.js", map[string]any{"base": url, "log": log}, &seen)
	for _, e := range seen.Errors {
		t.Error(e)
	}
	for _, s := range seen.Steps {
		t.Logf("%s: %.0f frames a second, the longest took %.0f ms; %.1f ms of work for each; %d lines", s.Name,
			float64(s.Frames)/s.Seconds, s.Longest, s.Busy, s.Lines)
		says.True(t, s.Lines <= 2300, "%s: the page has %d lines", s.Name, s.Lines)
	}
	after := resident(t, pid)
	t.Logf("heap of the page %.1f and %.1f MiB, %.0f and %.0f nodes; the server %d and %d MiB", seen.Heap[0]/(1<<20),
		seen.Heap[1]/(1<<20), seen.Nodes[0], seen.Nodes[1], before>>20, after>>20)
	says.True(t, seen.Heap[1] <= seen.Heap[0]+8<<20 && seen.Nodes[1] <= 2*seen.Nodes[0],
		"the page grew: heap %v, nodes %v", seen.Heap, seen.Nodes)
	says.True(t, after <= before+128<<20, "the server grew from %d to %d bytes", before, after)
	says.True(t, len(seen.At) == 2 && seen.At[1] == 1000, "the drags led to %v", seen.At)
}

// writeHuge stores a session that has ended with one log of about so many bytes, and returns the log's page.
func writeHuge(t *testing.T, data string, size int64) string {
	t.Helper()
	ref := layout.Session{Namespace: "cases", Cluster: "huge", Name: "session_2026-11-20_08-00-00_000000_1"}
	node := rayid.Node{1}
	var text strings.Builder
	for i := 0; text.Len() < chunkBytes-200; i++ {
		at := time.Date(2026, 11, 20, 8, 0, 0, i*int(time.Millisecond), time.UTC)
		fmt.Fprintf(&text, "[%s I 1 1] worker_pool.cc:%d: line %d%s\n", at.Format("2006-01-02 15:04:05,000"), i%900, i,
			strings.Repeat(" word", i%12))
	}
	text.WriteString(strings.Repeat("=", chunkBytes-1-text.Len()) + "\n")
	first := layout.LogKey(layout.DefaultRoot, ref, node, "raylet.out")
	for key, body := range map[string]string{
		layout.MarkerKey(layout.DefaultRoot, ref):               "",
		layout.MetadataKey(layout.DefaultRoot, ref, layout.End): `{"end": "2026-11-20T09:00:00Z"}`,
		first: text.String(),
	} {
		path := filepath.Join(data, key)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(body), 0o600))
	}
	for offset := int64(chunkBytes); offset < size; offset += chunkBytes {
		must.OK(t, os.Link(filepath.Join(data, first), filepath.Join(data, layout.LogChunkKey(first, offset,
			layout.Plain))))
	}
	return pathOf(ref) + "/log?" + url.Values{"node_id": {node.String()}, "file": {"raylet.out"}}.Encode()
}

// resident is the memory of a process in bytes.
func resident(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	_, rest, _ := strings.Cut(status, "VmRSS:")
	_ = must.Get(fmt.Sscan(rest, &bytes))(t)
	return bytes << 10
}
