package faulttest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestFullDisk lets the spool's disk run full under load while the store is down, and frees it by ending the outage:
// what was answered 200 is stored, and so are the logs. It needs the right to mount a small disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t, ourselves(role{Faults: "down"}))
	spool := r.smallDisk(2 << 20)
	w := r.writers(0)
	write := func() {
		for _, name := range []string{"raylet.out", "worker.out"} {
			must.OK(t, w.append(name, "a line of "+name+"\n"))
		}
	}
	write()
	r.start(false)
	r.waitReady()
	const refused = `rayhistory_collector_events_batches_total{code="503"}`
	e := r.post(func() bool {
		n, err := r.read(refused)
		return err == nil && n > 20 && room(t, spool) < 128<<10 && r.subject.Faults(r.dir) > 0
	})
	write()
	r.kill()
	r.start(true)
	r.waitReady()
	r.end()
	f := r.verify(e, w)
	says.True(t, f.Sent != 0 && f.Faults != 0, "%+v", f)
	t.Logf("a full disk: %d events answered 200, %d found; %d faults injected", f.Sent, f.Found, f.Faults)
}

// TestFlippedBit: of a spool that the disk gives back otherwise than it was written, all but the damaged part is
// stored, and that is set aside and counted.
func TestFlippedBit(t *testing.T) {
	t.Parallel()
	r := newRig(t, ourselves(role{Faults: "down"}))
	r.start(false)
	r.waitReady()
	e := r.post(func() bool {
		n, err := r.read("rayhistory_collector_spool_bytes")
		return err == nil && n > 2<<20
	})
	r.kill()
	segments, err := filepath.Glob(filepath.Join(r.dir, "spool", "events", "*.seg"))
	must.True(t, err == nil && len(segments) != 0, "segments %v, %v", segments, err)
	data, err := os.ReadFile(segments[0])
	must.OK(t, err)
	at := len(data)/2 + bytes.Index(data[len(data)/2:], []byte(`"eventId"`))
	data[at] ^= 1 << 4
	must.OK(t, os.WriteFile(segments[0], data, 0o600))
	r.start(true)
	r.waitReady()
	damaged := 0.0
	waitFor(t, "damage that is counted", func() bool {
		damaged = must.Get(r.read("rayhistory_collector_spool_damaged_total"))(t)
		return damaged > 0
	})
	r.end()
	stored := r.storedEvents(r.subject.Store(t, r.dir))
	missing := 0
	for id := range e.sent {
		if !stored[id] {
			missing++
		}
	}
	aside, err := filepath.Glob(filepath.Join(r.dir, "spool", "events", "quarantine", "*"))
	says.True(t, missing != 0 && missing <= mostInBatch && damaged == 1 && len(aside) == 1 && err == nil,
		"%d events of %d are missing, %v damages counted, set aside %v, %v", missing, len(e.sent), damaged, aside, err)
	t.Logf("a flipped bit: %d events sent, %d found, %d in the damaged part", len(e.sent), len(stored), missing)
}

// post posts events until it is enough.
func (r *rig) post(enough func() bool) *events {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	e := r.events()
	var posting sync.WaitGroup
	posting.Go(func() { e.run(ctx, r.t) })
	defer posting.Wait()
	defer cancel()
	waitFor(r.t, "enough events", enough)
	return e
}

// smallDisk gives the spool a disk of its own of so many bytes. It needs the right to mount it.
func (r *rig) smallDisk(bytes int) (spool string) {
	r.t.Helper()
	spool = filepath.Join(r.dir, "spool")
	must.OK(r.t, os.Mkdir(spool, 0o755))
	if err := unix.Mount("tmpfs", spool, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		r.t.Skipf("mount a disk: %v", err)
	}
	r.t.Cleanup(func() {
		r.kill()
		says.OK(r.t, unix.Unmount(spool, 0))
	})
	return spool
}

// room is how many bytes a disk has left.
func room(t *testing.T, dir string) uint64 {
	t.Helper()
	var disk unix.Statfs_t
	must.OK(t, unix.Statfs(dir, &disk))
	return disk.Bavail * uint64(disk.Bsize)
}
