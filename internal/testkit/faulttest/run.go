package faulttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// Figures are the counts of a run.
type Figures struct {
	Lives  int // each but the last ended by SIGKILL
	Faults int // injected
	// Sent counts the events that were answered 200, Found the different ones that are stored, Missing those sent and
	// not found.
	Sent, Found, Missing int
	// Logs with so many Bytes were written and rotated; Unequal are not stored as they were written.
	Logs, Bytes, Rotations, Unequal int
}

// Run kills a collector `kills` times under load, and then stops it in order. Everything must be stored then.
func Run(t *testing.T, subject Subject, kills int, seed uint64) Figures {
	t.Helper()
	return newRig(t, subject).run(kills, seed)
}

func (r *rig) run(kills int, seed uint64) Figures {
	r.t.Helper()
	random := rand.New(rand.NewPCG(seed, 5))
	r.start(false)
	e, w, stop := r.load(8, seed)
	for range kills {
		wait := time.Duration(random.IntN(1500)) * time.Millisecond
		if random.IntN(6) == 0 {
			wait += 4 * time.Second // long enough for rotations
		}
		time.Sleep(wait)
		r.kill()
		r.start(false)
	}
	r.waitReady() // on a slow machine those that were killed may have done nothing
	time.Sleep(3 * time.Second)
	stop()
	r.kill()
	r.start(true)
	r.waitReady()
	r.end()
	return r.verify(e, w)
}

// events are those that are posted to the collector.
func (r *rig) events() *events {
	return &events{url: r.url("/v1/events"), session: r.session.Name, sent: map[string]bool{},
		secrets: r.subject.Redact != nil}
}

// writers write so many logs of the session.
func (r *rig) writers(files int) *writers {
	return &writers{dir: r.logs(), files: files, looked: r.looked, written: map[string]*bytes.Buffer{},
		secrets: r.subject.Redact != nil}
}

// load posts and writes until the returned function is called.
func (r *rig) load(files int, seed uint64) (*events, *writers, func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	e, w := r.events(), r.writers(files)
	var running sync.WaitGroup
	running.Go(func() { e.run(ctx, r.t) })
	running.Go(func() { w.run(ctx, r.t, seed) })
	return e, w, func() {
		cancel()
		running.Wait()
	}
}

// Print writes a table of runs by name.
func Print(out io.Writer, names []string, figures map[string]Figures) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "store\tSIGKILLs\tfaults injected\tevents answered "+
		"200\tfound\tlost\tlogs\tbytes\trotations\tnot equal\t")
	for _, name := range names {
		f, ok := figures[name]
		if !ok {
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, f.Lives-1, f.Faults, f.Sent, f.Found,
			f.Missing, f.Logs, f.Bytes, f.Rotations, f.Unequal)
	}
	_ = table.Flush()
}
