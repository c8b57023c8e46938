package metrics

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestHeld: what a query found before leaves less for what it finds next, and copies have the same samples.
func TestHeld(t *testing.T) {
	b := newBucket(t)
	random(t, b, rand.New(rand.NewPCG(1, 3)))
	must.OK(t, b.index(0))
	everything := Selection{Maxt: math.MaxInt64,
		Matchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, ".+")}}
	want, _ := all(t, b.database(0, 64<<20), 0, math.MaxInt64, everything.Matchers...)
	const memory = 512 << 10
	indexed := NewDatabases(b.store, "log", 2*memory, nil).Of(ref, false)
	notKept := b.database(0, memory)
	notKept.large.Store(true)
	for name, d := range map[string]*Database{"kept": b.database(0, memory), "not kept": notKept, "index": indexed} {
		for _, copies := range []bool{false, true} {
			held, answers := &QueryMemory{Copies: copies}, 0
			for {
				before := held.bytes
				found, damaged, err := d.Select(t.Context(), held, everything)
				if errors.Is(err, ErrTooMuch) {
					break
				}
				if err != nil || len(damaged) > 0 {
					t.Fatal(name, err, damaged)
				}
				if answers++; held.bytes <= before || held.bytes > memory {
					t.Fatalf("%s: %d bytes are held after answer %d, %d before", name, held.bytes, answers, before)
				}
				got := make(map[string][]string)
				for _, s := range found[0] {
					got[s.Labels().String()] = read1(s, 0, math.MaxInt64)
				}
				if err := same(got, want); err != nil {
					t.Errorf("%s, copies %t: %v", name, copies, err)
				}
			}
			if answers == 0 {
				t.Errorf("%s, copies %t: one answer does not fit", name, copies)
			}
			many := slices.Repeat([]Selection{everything}, 100)
			if _, _, err := d.Select(t.Context(), &QueryMemory{Copies: copies}, many...); !errors.Is(err, ErrTooMuch) {
				t.Errorf("%s, copies %t: %d selections of one query: %v", name, copies, len(many), err)
			}
		}
		if inMemory := d.blocks.Cost() > 0; inMemory != (name == "kept") || (d.index != nil) != (name == "index") {
			t.Errorf("%s: %d bytes of blocks are kept", name, d.blocks.Cost())
		}
	}
}
