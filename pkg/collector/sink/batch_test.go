package sink

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestOddEventsAreKept: Ray repeats a batch for ever until it is taken, so no event's own fields may hold it up. What
// an event does not say, or says wrongly, decides only where it is stored.
func TestOddEventsAreKept(t *testing.T) {
	const good = `{"sessionName":"session_a","x":{"jobId":"AgAAAA=="}}`
	prefix := "log/lab_default/"
	for name, test := range map[string]struct {
		event, folder, reason string
	}{
		"node of a path": {`{"sessionName":"session_a","nodeId":"../../x"}`, "session_a/node_events/", "id"},
		"node that is cut": {`{"sessionName":"session_a","nodeId":"11dd","x":{"jobId":"AgAAAA=="}}`,
			"session_a/job_events/AgAAAA==/", "id"},
		"job of a path": {`{"sessionName":"session_a","x":{"jobId":"../../x"}}`, "session_a/node_events/",
			"id"},
		"job that is too long": {`{"sessionName":"session_a","x":{"jobId":"` + strings.Repeat("A", 1000) + `"}}`,
			"session_a/node_events/", "id"},
		"no session": {`{"x":1}`, running + "/node_events/", "session"},
		"empty session": {`{"sessionName":"","x":{"jobId":"AgAAAA=="}}`, running + "/job_events/AgAAAA==/",
			"session"},
		"session of a path":   {`{"sessionName":"session_../../etc"}`, running + "/node_events/", "session"},
		"session of a path 2": {`{"sessionName":"../session_a"}`, running + "/node_events/", "session"},
		"session that is long": {`{"sessionName":"session_` + strings.Repeat("a", 300) + `"}`,
			running + "/node_events/", "session"},
		"session that is number": {`{"sessionName":7}`, running + "/node_events/", "session"},
		"session of nobody":      {`{"sessionName":"session_unknown"}`, running + "/node_events/", "session"},
	} {
		t.Run(name, func(t *testing.T) {
			var k kept
			s := newSink(t, &k, nil)
			w := post(s, "["+good+","+test.event+","+good+"]")
			must.True(t, w.Code == 200 && w.Body.String() == "{\"accepted\": 3}\n", "%d %s", w.Code, w.Body)
			n := 0
			for key, lines := range k.streams {
				n += strings.Count(lines, "\n")
				says.True(t, !strings.Contains(lines, test.event+"\n") || strings.HasPrefix(key, prefix+test.folder),
					"stored under %s", key)
			}
			says.Equal(t, n, 3, "%d events are kept: %q", n, k.streams)
			says.Equal(t, testutil.ToFloat64(s.metrics.misplaced.WithLabelValues(test.reason)), 1, "are counted for %s",
				test.reason)
		})
	}
}

// TestCrowdedBatchIsKept: neither many jobs nor many sessions in a batch hold it up, nor take unbounded memory.
func TestCrowdedBatchIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const extra = 100
		var b strings.Builder
		for i := range maxStreams + extra {
			_, _ = fmt.Fprintf(&b, `,{"sessionName":"session_a","x":{"jobId":"%08x"}}`, i+1)
		}
		var k kept
		s := newSink(t, &k, nil)
		w := post(s, "["+b.String()[1:]+"]")
		must.True(t, w.Code == 200, "%v %v", w.Code, w.Body)
		rest := k.streams["log/lab_default/session_a/node_events/"+node.String()+"-2000-01-01-00"]
		says.True(t, len(k.streams) == maxStreams+1 && strings.Count(rest, "\n") == extra,
			"%d streams, %d lines in the last", len(k.streams), strings.Count(rest, "\n"))
		says.Equal(t, testutil.ToFloat64(s.metrics.misplaced.WithLabelValues("crowded")), extra, "counted")

		b.Reset()
		for i := range 1000 {
			_, _ = fmt.Fprintf(&b, `,{"sessionName":"session_%d"}`, i)
		}
		k, asked := kept{}, 0
		s = newSink(t, &k, func(o *Options) {
			find := o.Find
			o.Find = func(name string) (Destination, error) { asked++; return find(name) }
		})
		if w := post(s, "["+b.String()[1:]+"]"); w.Code != 200 || len(k.streams) != maxSessions+1 {
			t.Errorf("%d %s, %d streams", w.Code, w.Body, len(k.streams))
		}
		says.Equal(t, testutil.ToFloat64(s.metrics.misplaced.WithLabelValues("session")), 1000-maxSessions, "counted")
	})
}

func TestRefused(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var r Refused
	must.OK(t, r.Err())
	r.Add("", "full", now)
	r.Add("a", "no folder", now)
	r.Add("a", "no folder", now.Add(time.Minute))
	if err := r.Err(); err == nil ||
		err.Error() != "3 batches of events were refused and not accepted later: full; no folder" {
		t.Errorf("%v", err)
	}
	says.Equal(t, r.Lasting(now.Add(time.Minute), true), "no folder", "lasting")
	r.forgetAccepted(map[string]int32{"b": 0}) // another session's: those that were refused for no session may be among them
	err := r.Err()
	says.True(t, err != nil && err.Error() == "2 batches of events were refused and not accepted later: no folder",
		"%v", err)
	r.forgetAccepted(map[string]int32{"b": 0, "a": 1})
	must.OK(t, r.Err())
	for i := range 10_000 {
		r.Add(fmt.Sprint("session ", i), fmt.Sprint("reason ", i), now)
	}
	if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "10000 batches") || len(err.Error()) > 300 ||
		len(r.sessions) > maxRefusedSessions+1 {
		t.Errorf("%d sessions, %v", len(r.sessions), err)
	}
}

// TestWhatCountsAsRefused: batches that Ray would have to send again, not requests that are none or were broken off.
func TestWhatCountsAsRefused(t *testing.T) {
	for _, test := range []struct {
		refusal refusal
		lost    bool
	}{
		{refusal{status: 503, reason: "session"}, true},
		{refusal{status: 503, reason: "disk"}, true},
		{refusal{status: 413, reason: "too_large"}, true},
		{refusal{status: 400, reason: "malformed"}, true},
		{refusal{status: 400, reason: "unreadable"}, false},
		{refusal{status: 408, reason: "slow"}, false},
		{refusal{status: 415, reason: "content_type"}, false},
	} {
		says.Equal(t, test.refusal.losesEvents(), test.lost, "%+v", test.refusal)
	}
}
