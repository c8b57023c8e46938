package browser

import (
	"flag"
	"fmt"
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
		must.OK(t, os.Link(filepath.Join(data, first), filepath.Join(data, layout.LogChunkKey(first, offset, layout.Plain))))
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
