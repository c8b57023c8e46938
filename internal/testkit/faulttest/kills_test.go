package faulttest

import (
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// variants are the stores that collectors are killed over.
var variants = []struct {
	name   string
	faults string // see faulty
	zip    bool
	always bool // runs also when FAULTTEST_KILLS is not set
}{
	{name: "sound", always: true},
	{name: "status 500", faults: "500"},
	{name: "slow down", faults: "503"},
	{name: "not permitted", faults: "403"},
	{name: "connections break", faults: "break"},
	{name: "stalls", faults: "stall"},
	{name: "listings truncated", faults: "truncate"},
	{name: "answers lost", faults: "lose"},
	{name: "everything", faults: "all"},
	{name: "everything, compressed", faults: "all", zip: true, always: true},
}

// TestKills is the fault suite: SIGKILL at random instants, under load, and a store that fails.
func TestKills(t *testing.T) {
	t.Parallel()
	kills := setting("FAULTTEST_KILLS", 0)
	var mu sync.Mutex
	figures := map[string]Figures{}
	var names []string
	for i, v := range variants {
		if kills == 0 && !v.always {
			continue
		}
		names = append(names, v.name)
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			f := Run(t, ourselves(role{Faults: v.faults, Zip: v.zip}), max(kills, 4), uint64(i))
			says.Equal(t, (f.Faults == 0), (v.faults == ""), "%d faults were injected", f.Faults)
			mu.Lock()
			defer mu.Unlock()
			figures[v.name] = f
		})
	}
	t.Cleanup(func() { Print(os.Stdout, names, figures) })
}

func setting(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}
