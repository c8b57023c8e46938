package verify

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/progress"
	"github.com/rayhistory/historyserver/internal/testkit/layouttest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/maintenance/inventory"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

func TestDamageIsTold(t *testing.T) {
	ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_1"}
	node := rayid.Node{1}
	events := layout.NodeEventsKey("log", ref, node, time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC))
	log := layout.LogKey("log", ref, node, "a")
	frame := func(text string) string { return string(layouttest.Pack(t, text, layout.Zstd)) }
	type objects map[string]string
	for name, tc := range map[string]struct {
		objects objects
		want    string // a part of what is told; "" for nothing
	}{
		"whole lines": {objects{events: "{}\n{}\n"}, ""},
		"whole frames": {objects{events + ".zst": frame("{}\n"),
			layout.ChunkKey(events, 3, layout.Zstd): frame("{}\n")}, ""},
		"an array":        {objects{events: "[{},\n{}]"}, ""},
		"overlaps":        {objects{events: "{}\n{}\n", layout.ChunkKey(events, 3, layout.Plain): "{}\n"}, ""},
		"a log":           {objects{log: "{", layout.ChunkKey(log, 1, layout.Plain): "x"}, ""},
		"a cut line":      {objects{events: "{}\n{\"a"}, `line 2 is cut: "{\"a"`},
		"a line of noise": {objects{events: "{}\nx\n{}\n"}, "line 2 is not JSON"},
		"after no lines": {objects{events: "\n\r\n{}\n \n\n" + strings.Repeat("\n", 1<<20) + " x\n\n "},
			"line 1048582 is not JSON"},
		"a cut array":      {objects{events: "[{},{"}, "after 1 events"},
		"a huge event":     {objects{events: "[{},\"" + strings.Repeat("x", maxLine) + "\"]"}, "too long"},
		"arrays":           {objects{events: "[{},{}]\n[]\n[{}]\n"}, ""},
		"a second array":   {objects{events: "[{}]\n[{},x]"}, "after 2 events"},
		"a second cut one": {objects{events: "[{}]\n[{}"}, "after 2 events"},
		"an endless event": {objects{events + ".zst": frame("[{},\"" + strings.Repeat("x", 4*maxLine))}, "too long"},
		"after an array":   {objects{events: "[{}] {}"}, "after 1 events"},
		"a gap": {objects{events: "{}\n", layout.ChunkKey(events, 6, layout.Plain): "{}\n"},
			"bytes 3 to 5 are missing"},
		"a gap of a log": {objects{layout.ChunkKey(log, 2, layout.Plain): "x"}, "bytes 0 to 1 are missing"},
		"a cut frame":    {objects{events + ".zst": frame("{}\n")[:9]}, "is damaged at byte 0"},
		"no frame":       {objects{events + ".gz": "{}\n"}, "is damaged"},
		"a foreign key":  {objects{layout.Prefix("log", ref) + "x": ""}, "not a key of the layout"},
		"a folder": {objects{layout.Prefix("log", ref): "", layout.Prefix("log", ref) + "logs/": "",
			layout.Prefix("log", ref) + "logs/" + node.String() + "/": ""}, ""},
		"Hadoop's folder":  {objects{layout.Prefix("log", ref) + "logs_$folder$": ""}, ""},
		"a full folder":    {objects{layout.Prefix("log", ref) + "logs/": "x"}, "not a key of the layout"},
		"a cut snapshot":   {objects{layout.SnapshotKey("log", ref, "/nodes"): "{"}, "not whole JSON"},
		"NaN of Python":    {objects{layout.SnapshotKey("log", ref, "/nodes"): `{"cpu": NaN, "x": -Infinity}`}, ""},
		"a text snapshot":  {objects{layout.SnapshotKey("log", ref, "/timezone"): "UTC"}, ""},
		"facts of nothing": {objects{layout.MetadataKey("log", ref, layout.End): ""}, "not whole JSON"},
		"a cut index":      {objects{layout.IndexKey("log", ref, "meta"): "PAR1"}, "not a Parquet file"},
	} {
		t.Run(name, func(t *testing.T) {
			store := storetest.New()
			for key, body := range tc.objects {
				must.OK(t, store.Create(t.Context(), key, bytes.NewReader([]byte(body))))
			}
			s := must.Get(inventory.List(t.Context(), store, "log", ref))(t)
			var p progress.Counter
			report := must.Get(Session(t.Context(), store, s, &p))(t)
			switch {
			case tc.want == "" && len(report.Damage) > 0:
				t.Errorf("tells of %q", report.Damage)
			case tc.want != "" && (len(report.Damage) != 1 || !strings.Contains(report.Damage[0].What, tc.want)):
				t.Errorf("tells of %q, want %q", report.Damage, tc.want)
			}
			done, total := p.ObjectsDone.Load(), p.ObjectsTotal.Load()
			says.True(t, done == total && report.Objects == len(tc.objects), "%d of %d objects done, %d reported", done,
				total, report.Objects)
		})
	}
}
