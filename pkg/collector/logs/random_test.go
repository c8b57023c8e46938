package logs_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/collector/logs"
)

// TestRandomSchedules compares what is stored with what was written, whatever happened in which order.
func TestRandomSchedules(t *testing.T) { randomSchedules(t, false) }

// TestRandomSchedulesOfFew: the same where fewer logs can be followed than there are.
func TestRandomSchedulesOfFew(t *testing.T) { randomSchedules(t, true) }

func randomSchedules(t *testing.T, few bool) {
	seeds := 80
	if testing.Short() {
		seeds = 20
	}
	faults := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			r := newRig(t)
			r.chunk = 1 + random.Int64N(200)
			written := map[string]*bytes.Buffer{}
			paths := []string{"raylet.out", "serve/replica.log", "worker-1.out"}
			if few {
				logs.SetMaxFollowed(t, 1+random.IntN(3))
				paths = append(paths, "worker-2.out", "worker-3.out")
			}
			r.restart()
			r.mkdir("serve")
			for _, p := range paths {
				written[p] = &bytes.Buffer{}
			}
			r.store.ListFault = func(string) error {
				if random.IntN(10) == 0 {
					return storetest.ErrFault
				}
				return nil
			}
			line := 0
			write := func(p string) {
				for range 1 + random.IntN(5) {
					line++
					// shorter than a print it could be anybody's
					text := fmt.Sprintf("line %d of %s: %0*d\n", line, p, 32+random.IntN(80), line)
					r.write(p, text)
					written[p].WriteString(text)
				}
			}
			rotations := 0
			known := map[string]bool{} // a scan has seen the log's newest generation
			scan := func() {
				r.scan()
				for _, p := range paths {
					_, err := os.Stat(r.path(p))
					// One that waits for a place was not read yet.
					known[p] = err == nil && (!few || r.joined(nodeID, p) == written[p].String())
				}
			}
			// A generation that no scan has seen is known by its number only if the one before it was known.
			rotate := func(p string) {
				known[p] = false
				rotations++
				if few || random.IntN(2) == 0 { // the copy may have no place when its log is truncated
					for i := 9; i > 0; i-- {
						_ = os.Rename(r.path(fmt.Sprintf("%s.%d", p, i)), r.path(fmt.Sprintf("%s.%d", p, i+1)))
					}
					r.rename(p, p+".1")
				} else {
					r.copyTruncate(p, fmt.Sprintf("%s-%d", p, rotations))
				}
				write(p)
			}
			r.store.Fault = func(string) storetest.Fault {
				// The store has not read the chunk yet.
				switch p := paths[random.IntN(len(paths))]; random.IntN(10) {
				case 0:
					write(p)
				case 1, 2:
					if known[p] {
						rotate(p)
					}
				case 3:
					scan()
				case 4:
					r.look(random, paths)
				}
				if random.IntN(5) > 0 {
					return storetest.None
				}
				faults++
				return []storetest.Fault{storetest.Refuse, storetest.LostReply, storetest.Denied,
					storetest.Broken, storetest.Throttled, storetest.LostThrottled}[random.IntN(6)]
			}
			for range 60 {
				p := paths[random.IntN(len(paths))]
				switch random.IntN(14) {
				default:
					write(p)
				case 0:
					scan()
				case 1:
					r.look(random, paths)
				case 2, 3:
					scan()
					_, _, _ = r.shipper.ShipOnce(t.Context())
				case 4:
					r.restart()
				case 5:
					time.Sleep(time.Duration(random.IntN(10)) * time.Second)
				case 8:
					// What is stored may vanish at any time, known to the collector or not.
					scan()
					time.Sleep(5 * time.Second) // rotated files settle
					scan()
					if len(r.tailer.Sources()) > 0 || r.tailer.Waiters() > 0 {
						continue
					}
					old := must.Get(filepath.Glob(r.path(p) + "*"))(t)
					for _, name := range old {
						if name != r.path(p) || random.IntN(3) == 0 {
							_ = os.Remove(name)
						}
					}
				case 6, 7:
					if _, err := os.Stat(r.path(p)); err != nil || written[p].Len() == 0 {
						continue
					}
					if scan(); !few || known[p] {
						rotate(p)
					}
				}
			}
			r.store.Fault, r.store.ListFault = nil, nil
			r.settle()
			r.shipAll()
			for p, data := range written {
				r.want(p, data.String())
			}
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schedules, %d faults", seeds, faults)
}
