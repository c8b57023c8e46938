package lifetime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// model is the simple form of what Life says: it sees what happens instead of what is stored.
type model struct {
	ended, told time.Time // when the last head ended, and when that was stored or recorded again
	continued   bool      // after that
	joined      bool      // since then: a first chunk shows nothing any more
	last        time.Time // write
	first       map[rayid.Node]time.Time
}

func (m *model) write(node rayid.Node) {
	now := time.Now()
	m.last = now
	_, wrote := m.first[node]
	if !wrote {
		m.first[node] = now
	}
	if shows := wrote || !m.joined; shows && !m.ended.IsZero() {
		m.continued = m.continued || m.first[node].After(m.told) || now.After(m.told.Add(grace))
	}
}

func (m *model) state() (runs bool, end time.Time) {
	switch {
	case !m.ended.IsZero() && !m.continued:
		return false, m.ended
	case time.Since(m.last) < Idle:
		return true, time.Time{}
	}
	return false, m.last
}

// TestRandomLives compares random sequences of heads, ends, workers' writes, joined chunks, quiet times and wrong
// clocks with the model. LIFETIME_SEQUENCES sets how many.
func TestRandomLives(t *testing.T) {
	sequences := 300
	if n, err := strconv.Atoi(os.Getenv("LIFETIME_SEQUENCES")); err == nil {
		sequences = n
	}
	for seed := range sequences {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(seed), 0))
			w := newWorld(t)
			m := &model{first: make(map[rayid.Node]time.Time)}
			var trace []string
			heads := byte(0)
			current := rayid.Node{} // the head that lives
			write := func(node rayid.Node) {
				w.write(node)
				m.write(node)
			}
			newHead := func() {
				heads++
				current = rayid.Node{heads, 1}
				write(current)
				time.Sleep(2 * time.Second)
				write(current) // its second chunk cannot be one that compaction joined
			}
			newHead()
			for range 25 {
				step := ""
				switch n := r.IntN(12); {
				case n < 3:
					step = "a worker writes"
					write(rayid.Node{byte(r.IntN(3)), 2})
				case n < 5 && !current.Nil():
					step = "the head writes"
					write(current)
				case n < 7 && !current.Nil():
					at := time.Now()
					switch r.IntN(4) {
					case 0:
						at = at.AddDate(r.IntN(300), 0, 1)
					case 1:
						at = at.Add(-time.Duration(r.IntN(20)) * time.Second)
					}
					if at.Before(begin) {
						at = begin
					}
					step = "the head ends at " + at.Format(time.DateTime)
					w.end(at)
					if at.After(time.Now()) {
						at = time.Now()
					}
					if m.ended.After(at) {
						at = m.ended
					}
					m.ended, m.told, m.continued, m.joined, m.last = at, time.Now(), false, false, time.Now()
					current = rayid.Node{}
				case n == 7:
					step = "the head is killed"
					current = rayid.Node{}
				case n == 8 && current.Nil():
					step = "a new head"
					newHead()
				case n == 9 && !m.ended.IsZero() && !m.continued && time.Since(m.last) > 2*grace:
					step = "joined"
					w.join(m.ended)
					m.told, m.joined, m.last = time.Now(), true, time.Now()
				default:
					wait := time.Duration(r.IntN(200)) * time.Second
					if r.IntN(5) == 0 {
						wait = time.Duration(r.IntN(30)) * time.Minute
					}
					step = "wait " + wait.String()
					time.Sleep(wait)
				}
				time.Sleep(time.Second)
				trace = append(trace, step)
				runs, end := w.state()
				wantRuns, wantEnd := m.state()
				if runs != wantRuns || end.Sub(wantEnd).Abs() > time.Second {
					t.Fatalf("seed %d: runs %t, ended at %s; the model says %t, %s, after %s", seed, runs, end,
						wantRuns, wantEnd, fmt.Sprint(trace))
				}
			}
		})
	}
}
