package sink

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRefused(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var r Refused
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	r.Add("", "full", now)
	r.Add("a", "no folder", now)
	r.Add("a", "no folder", now.Add(time.Minute))
	if err := r.Err(); err == nil || err.Error() != "3 batches of events were refused and not accepted later: full; no folder" {
		t.Errorf("%v", err)
	}
	if why := r.Lasting(true, now.Add(time.Minute)); why != "no folder" {
		t.Errorf("lasting: %q", why)
	}
	r.accepted(map[string]int32{"b": 0}) // another session's: those that were refused for no session may be among them
	if err := r.Err(); err == nil || err.Error() != "2 batches of events were refused and not accepted later: no folder" {
		t.Errorf("%v", err)
	}
	r.accepted(map[string]int32{"b": 0, "a": 1})
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	for i := range 10_000 {
		r.Add(fmt.Sprint("session ", i), fmt.Sprint("reason ", i), now)
	}
	if err := r.Err(); err == nil || !strings.HasPrefix(err.Error(), "10000 batches") || len(err.Error()) > 300 || len(r.sessions) > maxRefusedSessions+1 {
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
		{refusal{status: 405, reason: "method"}, false},
		{refusal{status: 415, reason: "content_type"}, false},
	} {
		if test.refusal.lost() != test.lost {
			t.Errorf("%+v", test.refusal)
		}
	}
}
