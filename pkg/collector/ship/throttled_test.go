package ship

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
)

// TestThrottlingStore: a store that refuses most puts for a while because there are too many gets fewer requests than
// before, not more. No log counts as refused, and chunks keep their size.
func TestThrottlingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*memory
		for i := range 8 {
			all = append(all, &memory{key: fmt.Sprintf("%slog%d", base, i)})
		}
		r := newRig(t, nil, all...)
		var mu sync.Mutex
		random, share := rand.New(rand.NewPCG(1, 2)), 0.0 // of the puts that are refused
		r.store.Fault = func(string) storetest.Fault {
			mu.Lock()
			refused := random.Float64() < share
			mu.Unlock()
			if !refused {
				return storetest.None
			}
			time.Sleep(3 * time.Second) // the driver's own attempts
			return storetest.Throttled
		}
		r.Start()
		text := strings.Repeat("0123456789abcde\n", 50<<10/16)
		phase := func(minutes int, throttled float64) (puts, lists int) {
			mu.Lock()
			share = throttled
			mu.Unlock()
			putsBefore, listsBefore := r.store.Requests()
			for range 6 * minutes {
				for _, m := range all {
					m.write(text)
				}
				r.Wake()
				time.Sleep(10 * time.Second)
			}
			puts, lists = r.store.Requests()
			return puts - putsBefore, lists - listsBefore
		}
		usual, _ := phase(30, 0)
		puts, lists := phase(30, 0.6)
		says.True(t, puts <= 5*usual/2 && lists == 0, "%d puts and %d listings while 60 %% are refused, %d puts before",
			puts, lists, usual)
		for _, m := range all {
			if waits := m.waits(); waits > 25*time.Minute { // of a hundred runs, five have a log that waits for fifteen
				t.Errorf("%s waits for %s", m.key, waits)
			}
		}
		if puts, _ := phase(30, 0); puts > usual+usual/4 {
			t.Errorf("%d puts afterwards, %d before", puts, usual)
		}
		for _, e := range r.logged.AllEntries() {
			says.True(t, !strings.Contains(e.Message, "keeps refusing"), e.Message)
		}
		r.Shipper.Close(t.Context())
	})
}

// waits is the age of the oldest byte that is not stored.
func (m *memory) waits() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.oldest.IsZero() {
		return 0
	}
	return time.Since(m.oldest)
}
