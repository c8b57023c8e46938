package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// die leaves a spool as a killed process does: the folder's lock goes, nothing is written any more.
func (s *Spool) die() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	_ = s.positions.closeFile()
	_ = s.lock.Close()
}

// world is a spool, its disk and its store, driven by chance.
type world struct {
	t        *testing.T
	random   *rand.Rand
	dir      string
	opts     Options
	disk     *faultyDisk
	spool    *Spool
	store    *store
	known    map[string]bool
	next     int
	answered []string // lines of batches that were kept
	refused  map[string]bool
	foreign  int
	length   int             // of a line
	shipping map[string]bool // streams, each at most once at a time
	// chance in a thousand that something else happens inside a disk call, or while a chunk is read
	inside  int
	depth   int             // of what happens inside
	deleted int             // chance in a thousand that files of the spool are deleted
	excused map[string]bool // lines that were kept before files were deleted: they may be lost
	unread  int             // chunks
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), disk: newFaultyDisk(), store: newStore(),
		refused: make(map[string]bool), opts: testOptions(), length: 100, shipping: make(map[string]bool),
		excused: make(map[string]bool),
	}
	w.opts.Remake = func() error { return os.MkdirAll(w.dir, 0o700) }
	w.opts.disk = w.disk
	// Small, so that there are many segments, it gets full and is compacted.
	w.opts.segmentBytes, w.opts.MaxBytes = 400+int64(seed%5)*400, 8_000+int64(seed%4)*4_000
	w.open()
	return w
}

func (w *world) open() {
	w.disk.setDuring(nil)
	w.spool = reopen(w.t, w.dir, w.opts)
	w.disk.setDuring(w.meanwhile)
	w.known = make(map[string]bool)
}

func (w *world) append() {
	var lines []string
	for range 1 + w.random.IntN(4) {
		w.next++
		lines = append(lines, w.line(string(rune('a'+w.random.IntN(4))), "event", w.next))
	}
	if err := w.spool.Append(w.t.Context(), batchOf(lines...)); err == nil {
		w.answered = append(w.answered, lines...)
		return
	}
	for _, l := range lines {
		w.refused[l] = true
	}
}

func (w *world) ship(put answer) {
	streams := w.spool.Streams()
	if len(streams) == 0 {
		return
	}
	// By name, for streams are listed in no order.
	st := streams[0]
	pick := w.random.IntN(4)
	for _, other := range streams {
		if (int(other.Key()[0])+pick)%4 < (int(st.Key()[0])+pick)%4 {
			st = other
		}
	}
	if w.shipping[st.Key()] {
		return
	}
	w.shipping[st.Key()] = true
	if _, err := shipSlowly(st, w.store, 1+w.random.Int64N(400), w.known, put, w.meanwhile); err != nil {
		w.unread++
		says.True(w.t, !errors.Is(err, errUnequal), err)
	}
	delete(w.shipping, st.Key())
}

// meanwhile does what another goroutine may do at this moment: nothing if it would have to wait for a lock.
func (w *world) meanwhile() {
	if w.depth >= 3 || w.random.IntN(1000) >= w.inside {
		return
	}
	for _, lock := range []*sync.Mutex{&w.spool.mu, &w.spool.syncLock, &w.spool.positions.mu} {
		if !lock.TryLock() {
			return
		}
		lock.Unlock()
	}
	w.depth++
	for range 1 + w.random.IntN(5) {
		if w.random.IntN(2) == 0 {
			w.append()
		} else {
			w.ship(answer(w.random.IntN(3)))
		}
	}
	w.depth--
}

// line is a line of w.length bytes. That two collectors' chunks, which are some lines each, never are of one length is
// what tells them apart when an answer is lost.
func (w *world) line(stream, kind string, i int) string {
	l := fmt.Sprintf("{\"whole\": %q, %q: %d", stream, kind, i)
	return l + strings.Repeat(" ", w.length-len(l)-2) + "}\n"
}

// intrude is another collector that writes into one of the streams.
func (w *world) intrude() {
	stream := string(rune('a' + w.random.IntN(4)))
	w.foreign++
	other := world{length: w.length + 1}
	l := other.line(stream, "foreign", w.foreign)
	must.OK(w.t, w.store.create(stream, w.store.stored(stream), []byte(l)))
}

// delete deletes the spool's folder or some of its files.
func (w *world) delete() {
	pattern := []string{".", "*", "*" + segmentSuffix, "lock", positionsFile, quarantineDir}[w.random.IntN(6)]
	files := must.Get(filepath.Glob(filepath.Join(w.dir, pattern)))(w.t)
	for _, f := range files {
		if len(files) > 1 && w.random.IntN(3) == 0 {
			continue
		}
		must.OK(w.t, os.RemoveAll(f))
	}
	for _, l := range w.answered {
		w.excused[l] = true
	}
}

// check ships the rest and compares.
func (w *world) check(most int) {
	w.disk.setFail(nil)
	w.disk.setDuring(nil)
	drain(w.t, w.spool, w.store, 1<<20)
	stored := w.store.lines()
	doubled, lost := 0, 0
	for _, l := range w.answered {
		key := batchOf(l)[0].Stream + ": " + l
		switch n := stored[key]; {
		case n == 0 && w.excused[l]:
			lost++
		case n == 0:
			w.t.Errorf("lost %q", l)
		case n > most:
			w.t.Errorf("stored %d times: %q", n, l)
		case n > 1:
			doubled++
		}
		delete(stored, key)
	}
	unanswered := 0
	for key := range stored {
		_, l, _ := strings.Cut(key, ": ")
		switch {
		case strings.Contains(l, "foreign"):
		case w.refused[l]:
			unanswered++
		default:
			w.t.Errorf("stored but never sent: %q", l)
		}
	}
	w.store.checkGaps(w.t)
	w.t.Logf("%d lines kept, %d lost with deleted files, %d stored twice; %d of %d refused lines stored; %d chunks could not be read", len(w.answered), lost, doubled, unanswered, len(w.refused), w.unread)
}

// TestChance: random appends, shipping with refused puts and lost answers, crashes, power losses, disk faults and a
// second collector that writes into the same streams. Nothing that was answered for is lost; without a second collector
// and faults nothing is stored twice.
func TestChance(t *testing.T) {
	seeds := uint64(5)
	if n, err := strconv.ParseUint(os.Getenv("SPOOL_TEST_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	type mix struct{ crash, powerLoss, faults, intruder, inside, deleted int } // in a thousand
	for name, test := range map[string]struct {
		mix  mix
		most int
	}{
		"crashes":              {mix{crash: 50}, 1},
		"power losses":         {mix{crash: 20, powerLoss: 50}, 1},
		"disk faults":          {mix{faults: 100}, 1},
		"second collector":     {mix{crash: 20, intruder: 50}, 1 << 20},
		"everything":           {mix{20, 20, 100, 50, 100, 0}, 1 << 20},
		"deleted files":        {mix{crash: 20, inside: 100, deleted: 20}, 1 << 20},
		"inside":               {mix{crash: 20, inside: 200}, 1},
		"inside, power losses": {mix{powerLoss: 20, inside: 200}, 1},
		"inside, disk faults":  {mix{faults: 50, inside: 200}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds {
				w := newWorld(t, seed)
				w.inside, w.deleted = test.mix.inside, test.mix.deleted
				for range 400 {
					w.step(test.mix.crash, test.mix.powerLoss, test.mix.faults, test.mix.intruder)
				}
				w.check(test.most)
				must.True(t, !t.Failed(), "seed %d", seed)
			}
		})
	}
}

func (w *world) step(crash, powerLoss, faults, intruder int) {
	w.disk.setFail(nil)
	if w.random.IntN(1000) < faults {
		left := w.random.IntN(3)
		err := []error{syscall.ENOSPC, syscall.EIO}[w.random.IntN(2)]
		w.disk.setFail(func(operation string) error {
			if left--; left == 0 {
				return err
			}
			return nil
		})
	}
	if w.random.IntN(1000) < w.deleted {
		w.delete()
	}
	switch chance := w.random.IntN(1000); {
	case chance < crash:
		w.disk.setFail(nil)
		w.spool.die()
		w.open()
	case chance < crash+powerLoss:
		w.disk.setFail(nil)
		w.spool.die()
		w.disk.losePower(w.t, w.random)
		w.open()
	case chance < crash+powerLoss+intruder:
		w.intrude()
	case chance < 600:
		w.append()
	default:
		w.ship(answer(w.random.IntN(3)))
	}
}

// TestTwoCollectors: two collectors with a spool each write the same streams.
func TestTwoCollectors(t *testing.T) {
	one := newWorld(t, 1)
	other := newWorld(t, 2)
	other.store, other.next, other.length = one.store, 1_000_000, 101
	for range 300 {
		for _, w := range []*world{one, other} {
			w.step(30, 0, 0, 0)
		}
	}
	drain(t, other.spool, one.store, 1<<20)
	both := append(one.answered, other.answered...)
	drain(t, one.spool, one.store, 1<<20)
	checkStored(t, one.store, both, 1<<20)
}

// The process that TestKill kills is this test's binary, told so by its environment.
const killedEnv = "SPOOL_TEST_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedEnv); dir != "" {
		fmt.Fprintln(os.Stderr, appendUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends from several goroutines, says what was kept on standard output, and ships into a folder.
func appendUntilKilled(dir string) error {
	opts := testOptions()
	opts.segmentBytes = 20_000
	s, err := Open(filepath.Join(dir, "spool"), opts)
	if err != nil {
		return err
	}
	failed := make(chan error)
	first, err := strconv.Atoi(os.Getenv(killedEnv + "_FIRST"))
	if err != nil {
		return err
	}
	for worker := range 4 {
		go func() {
			for i := first + worker; ; i += 4 {
				lines := []string{line("a", i), line(string(rune('b'+i%3)), i)}
				if err := s.Append(context.Background(), batchOf(lines...)); err != nil {
					failed <- err
				}
				if _, err := fmt.Println(i); err != nil {
					failed <- err
				}
			}
		}()
	}
	folder := filepath.Join(dir, "store")
	b, err := readFolder(folder) // nobody else writes there now
	if err != nil {
		return err
	}
	go func() {
		known := make(map[string]bool)
		for {
			for _, st := range s.Streams() {
				if err := shipToFolder(st, b, folder, known); err != nil {
					failed <- err
				}
			}
		}
	}()
	return <-failed
}

// shipToFolder ships a chunk as a file, whole or not at all; b is what the folder has.
func shipToFolder(st *Stream, b *store, dir string, known map[string]bool) error {
	offset, before := b.stored(st.Key()), b.stored(st.Key())
	if _, err := shipOne(st, b, 2000, known, lost); err != nil {
		return err
	}
	body, ok := b.chunks[st.Key()][offset]
	if !ok || b.stored(st.Key()) == before {
		return nil
	}
	temp := filepath.Join(dir, ".temp")
	if err := os.WriteFile(temp, body, 0o600); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, fmt.Sprintf("%s.%d", st.Key(), offset))); err != nil {
		return err
	}
	st.Shipped(offset + int64(len(body)))
	return nil
}

func readFolder(dir string) (*store, error) {
	b := newStore()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		stream, digits, _ := strings.Cut(e.Name(), ".")
		offset, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue // the temporary file
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if err := b.create(stream, offset, body); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// TestKill kills a process that appends and ships, again and again, at random instants. Everything it was told is kept
// is stored, once.
func TestKill(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "store"), 0o700))
	random := rand.New(rand.NewPCG(4, 2))
	answered := make(map[int]bool)
	for round := range rounds {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), killedEnv+"="+dir, fmt.Sprintf("%s_FIRST=%d", killedEnv, round*1_000_000))
		var stderr strings.Builder
		child.Stderr = &stderr
		out := must.Get(child.StdoutPipe())(t)
		must.OK(t, child.Start())
		// It lives for a number of answers, and a moment: so it is killed at any instant of what it does, on machines
		// of any speed.
		var kill sync.Once
		stop := func() { kill.Do(func() { _ = child.Process.Kill() }) }
		left, moment := random.IntN(40), time.Duration(random.IntN(3000))*time.Microsecond
		r := bufio.NewReader(out)
		for {
			text, err := r.ReadString('\n')
			if errors.Is(err, io.EOF) {
				break // an unfinished line was not read by anybody
			}
			must.OK(t, err)
			i, err := strconv.Atoi(strings.TrimSpace(text))
			must.OK(t, err)
			answered[i] = true
			if left--; left < 0 {
				go func() { time.Sleep(moment); stop() }()
			}
		}
		stop()
		if err := child.Wait(); stderr.Len() > 0 || err == nil {
			t.Fatalf("round %d ended by itself: %v %s", round, err, stderr.String())
		}
	}
	b := must.Get(readFolder(filepath.Join(dir, "store")))(t)
	s := reopen(t, filepath.Join(dir, "spool"), testOptions())
	drain(t, s, b, 1<<20)
	stored := b.lines()
	for i := range answered {
		for _, l := range []string{line("a", i), line(string(rune('b'+i%3)), i)} {
			says.Equal(t, stored[batchOf(l)[0].Stream+": "+l], 1, "event %d is stored", i)
		}
	}
	for l, n := range stored {
		says.True(t, n <= 1, "%d times stored: %s", n, l)
	}
	t.Logf("killed %d times: %d batches answered for, %d lines stored, none lost, none twice", rounds, len(answered),
		len(stored))
}
