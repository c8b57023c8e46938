package collector

import (
	"maps"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

// TestEnds: when a session counts as ended, by what was seen of its raylet and its logs.
func TestEnds(t *testing.T) {
	const name, other = "session_2026-11-20_00-00-00_000000_1", "session_2026-11-21_00-00-00_000000_1"
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	type look struct {
		at  int
		up  bool // the session's raylet listens
		too bool // so does another session's
	}
	for title, test := range map[string]struct {
		before  bool // an earlier collector saw the raylet
		looks   []look
		written int // when its logs were last written to; 0: there are none
		quiet   bool
		latest  string // the session that session_latest names
		closing bool
		want    int // when it ended; 0: it has not
	}{
		"a raylet that runs is gone for a moment":       {looks: []look{{5, true, false}, {10, false, false}, {60, false, false}}, written: 8, latest: name},
		"gone for a minute":                             {looks: []look{{5, true, false}, {10, false, false}, {70, false, false}}, written: 8, latest: name, want: 8},
		"gone, came back, gone again":                   {looks: []look{{5, true, false}, {10, false, false}, {60, true, false}, {65, false, false}, {80, false, false}}, written: 61, latest: name},
		"gone again for a minute":                       {looks: []look{{5, true, false}, {10, false, false}, {60, true, false}, {65, false, false}, {125, false, false}}, written: 8, latest: name, want: 60},
		"its logs are quiet long before":                {looks: []look{{500, true, false}, {505, false, false}, {600, false, false}}, written: 8, latest: name, want: 500},
		"no logs":                                       {looks: []look{{500, true, false}, {505, false, false}, {600, false, false}}, latest: name, want: 500},
		"another session runs":                          {looks: []look{{5, true, false}, {10, false, true}}, written: 8, latest: other, want: 8},
		"another session runs, the link is old":         {looks: []look{{5, true, false}, {10, false, true}}, written: 8, latest: name, want: 8},
		"the collector ends after Ray":                  {looks: []look{{5, true, false}, {10, false, false}}, written: 9, latest: name, closing: true, want: 9},
		"the collector was restarted after Ray's end":   {before: true, looks: []look{{5000, false, false}}, written: 8, quiet: true, latest: name},
		"a minute after that":                           {before: true, looks: []look{{5000, false, false}, {5060, false, false}}, written: 8, quiet: true, latest: name, want: 8},
		"restarted, and another session runs":           {before: true, looks: []look{{5000, false, true}}, written: 8, quiet: true, latest: other, want: 8},
		"not seen yet: it may be starting":              {looks: []look{{5, false, false}, {700, false, false}}, written: 8, quiet: true, latest: name},
		"never seen, the collector ends":                {looks: []look{{5, false, false}}, written: 8, latest: name, closing: true, want: 8},
		"never seen, without logs, the collector ends":  {looks: []look{{5, false, false}}, latest: name, closing: true, want: 5},
		"an older one that was never seen":              {looks: []look{{5, false, false}}, written: 3, latest: other},
		"an older one that was never seen, quiet":       {looks: []look{{700, false, false}}, written: 3, quiet: true, latest: other, want: 3},
		"an older one, another runs":                    {looks: []look{{5, false, true}}, written: 3, latest: other, want: 3},
		"an older one without logs, another runs":       {looks: []look{{5, false, true}}, latest: other},
		"an older one without logs, the collector ends": {looks: []look{{5, false, false}}, latest: other, closing: true},
	} {
		t.Run(title, func(t *testing.T) {
			var before []string
			if test.before {
				before = append(before, name)
			}
			r, now, another := newRuns(before), time.Time{}, false
			for _, l := range test.looks {
				now, another = at(l.at), l.too
				up := map[string]bool{name: l.up, other: l.too}
				maps.DeleteFunc(up, func(_ string, up bool) bool { return !up })
				r.raylets = func() (map[string]bool, error) { return up, nil }
				if _, err := r.look(now); err != nil {
					t.Fatal(err)
				}
			}
			s := logs.Session{Name: name, Quiet: test.quiet}
			if test.written > 0 {
				s.LastWrite = at(test.written)
			}
			end, ended := r.ended(s, test.latest, another, test.closing, now)
			if ended != (test.want > 0) || (ended && !end.Equal(at(test.want))) {
				t.Errorf("ended %t, %ds after the start, want %d", ended, int(end.Sub(start).Seconds()), test.want)
			}
		})
	}
}
