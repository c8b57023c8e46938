package findings

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/sessionlogs"
)

// TestReadDigest: how much of a log is read depends on what it takes. Of a log that takes too much the beginning and
// the end are read, and what was left out is said.
func TestReadDigest(t *testing.T) {
	const most = 1 << 20
	lines := func(bytes int) string {
		const line = "2026-11-24 10:00:00,000\tINFO a.py:1 -- an ordinary line of a log that is long\n"
		return strings.Repeat(line, bytes/len(line))
	}
	bars := func(bytes int) string {
		const bar = "\repoch:  10%|#         | 1/10 [00:01<00:09,  1.00it/s]"
		return strings.Repeat(bar, bytes/len(bar))
	}
	utf16 := func(text string) string { return "\xff\xfe" + strings.Join(strings.Split(text, ""), "\x00") + "\x00" }
	for name, c := range map[string]struct {
		log   string
		found bool
		part  bool // of the log was left out
	}{
		"short":                   {lines(most/2) + raisedAt + lines(most/4), true, false},
		"at the beginning":        {lines(most/8) + raisedAt + lines(4*most), true, true},
		"in the middle":           {lines(2*most) + raisedAt + lines(2*most), false, true},
		"at the end":              {lines(4*most) + raisedAt + lines(most/2), true, true},
		"between bars":            {bars(2*most) + "\n" + raisedAt + bars(2*most), true, false},
		"behind bars":             {bars(4*most) + raisedAt, true, false},
		"before bars":             {raisedAt + bars(4*most), true, false},
		"behind too many bars":    {bars(16*most) + raisedAt, true, true},
		"behind lines, in UTF-16": {utf16(lines(2*most) + raisedAt), true, true},
	} {
		ref := layout.Session{Namespace: "default", Cluster: "lab", Name: "session_2026-11-20_23-19-45_581717_22125"}
		store, file := storetest.New(), moment.LogFile{Node: rayid.Node{1}, Path: "job-driver-x.log"}
		key := layout.LogChunkKey(layout.LogKey("log", ref, file.Node, file.Path), 0, layout.Plain)
		store.Objects[key] = []byte(c.log)
		o := must.Get(layout.ParseObject("log", ref, key))(t)
		logs := sessionlogs.New(store)
		logs.Add(o, blob.Object{Key: key, Size: int64(len(c.log))})
		b := &builder{ctx: t.Context(), s: &session.Session{Logs: logs}}
		d := &digest{telling: tellingOf(file.Path), next: 1}
		must.OK(t, b.readDigest(d, file, int64(len(c.log)), most))
		d.end()
		if found := strings.Contains(string(d.text), raisedAt); found != c.found || len(b.missing) > 0 != c.part {
			t.Errorf("%s: found %t; %q %d %q", name, found, b.missing, len(d.text), d.text[max(0, len(d.text)-300):])
		}
		if b.worked > most*5/4+(512<<10) {
			t.Errorf("%s: %d bytes of work, want about %d", name, b.worked, most)
		}
	}
}

// TestMemoryEventsAtOtherTimes: an event that memory ran out is evidence of what is known of that moment, and otherwise
// counts by itself.
func TestMemoryEventsAtOtherTimes(t *testing.T) {
	b := &builder{byKey: map[string]*finding{}}
	began := time.Date(2026, 11, 20, 23, 20, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, time.Second, time.Hour} {
		event := pyjson.Obj("label", "Out of Memory", "message",
			"Task was killed due to the node running low on memory.")
		b.addEvent(event, began.Add(after).UnixNano(), &logText{text: "line"}, 0, 4)
	}
	if len(b.all) != 1 || b.all[0].Count != 2 || b.all[0].last != began.Add(time.Hour).UnixNano() {
		t.Errorf("%d findings, %+v", len(b.all), b.all[0].Finding)
	}
}
