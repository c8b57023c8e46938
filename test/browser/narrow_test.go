package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

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
