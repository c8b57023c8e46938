package spool

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// written is a segment with a few batches, and where each of them ends.
type written struct {
	name  string
	bytes []byte
	lines [][]string // of each batch
	ends  []int
}

func writeSegment(t testing.TB, batches ...[]string) written {
	t.Helper()
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	var w written
	for _, lines := range batches {
		mustAppend(t, s, lines...)
		w.ends = append(w.ends, int(s.active.size))
	}
	w.lines = batches
	must.OK(t, s.Close())
	path := segments(t, dir)[0]
	w.bytes = must.Get(os.ReadFile(path))(t)
	w.name = filepath.Base(path)
	return w
}

func threeBatches(t testing.TB) written {
	return writeSegment(t,
		[]string{line("a", 1), line("a", 2), line("b", 3)},
		[]string{line("b", 4)},
		[]string{line("a", 5), line("c", 6)},
	)
}

// openWith opens a spool that holds the bytes as its only segment.
func openWith(t *testing.T, name string, b []byte) (string, *Spool) {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	opts := testOptions()
	opts.disk = fastDisk{}
	return dir, reopen(t, dir, opts)
}

func quarantined(t *testing.T, dir string) []string {
	t.Helper()
	return must.Get(filepath.Glob(filepath.Join(dir, quarantineDir, "*")))(t)
}

// TestTornTailOnAFailingDisk: the batches before a torn end are stored also if the end cannot be set aside or cut off;
// the next start sets it aside.
func TestTornTailOnAFailingDisk(t *testing.T) {
	w := threeBatches(t)
	torn := w.bytes[:len(w.bytes)-1]
	for _, operation := range []string{"create", "write", "rename", "truncate", "sync"} {
		for _, restarted := range []bool{false, true} {
			dir, opts, disk := t.TempDir(), testOptions(), newFaultyDisk()
			must.OK(t, os.WriteFile(filepath.Join(dir, w.name), torn, 0o600))
			opts.disk = disk
			disk.setFail(failing(syscall.ENOSPC, operation))
			s := reopen(t, dir, opts)
			says.Equal(t, count(s.metrics.diskErrors), 1, "%s fails", operation)
			disk.setFail(nil)
			if restarted {
				must.OK(t, s.Close())
				s = reopen(t, dir, opts)
				tails := quarantined(t, dir)
				says.True(t, len(tails) == 1, "%s fails: set aside %v", operation, tails)
			}
			b := newStore()
			drain(t, s, b, 1<<20)
			checkStored(t, b, slices.Concat(w.lines[:2]...), 1)
			must.OK(t, s.Close())
		}
	}
}

// TestEmptySegment: that a segment is empty, as a disk may leave it that loses its power, is said.
func TestEmptySegment(t *testing.T) {
	dir, opts := t.TempDir(), testOptions()
	log, hook := test.NewNullLogger()
	opts.Log = log
	must.OK(t, os.WriteFile(filepath.Join(dir, segmentName(7)), nil, 0o600))
	must.OK(t, reopen(t, dir, opts).Close())
	e := hook.AllEntries()
	says.True(t, len(e) != 0 && strings.Contains(e[0].Message, segmentName(7)+" is empty"), "the log says %v", e)
}

// TestDamageWhileRunning: what is found damaged when it is shipped is lost, but holds up nothing.
func TestDamageWhileRunning(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	for i := range 3 {
		mustAppend(t, s, line("a", i), line("b", i))
	}
	path := segments(t, dir)[0]
	damage(t, path, line("a", 1))
	b := newStore()
	known := make(map[string]bool)
	for _, st := range s.Streams() {
		if st.Key() != "a" {
			continue
		}
		_, err := shipOne(st, b, 1<<20, known, kept)
		must.True(t, errors.Is(err, errDamaged), "%v, want damage", err)
		_, n, _ := st.Pending(1 << 20)
		says.True(t, n == int64(len(line("a", 0))), "%d bytes are pending before the damage", n)
	}
	drain(t, s, b, 1<<20)
	checkStored(t, b, []string{line("a", 0), line("a", 2), line("b", 0), line("b", 1), line("b", 2)}, 1)
	says.Equal(t, count(s.metrics.damaged), 1, "counted")
	names := quarantined(t, dir)
	says.True(t, len(names) == 1 && len(segments(t, dir)) == 0, "set aside %v, left %v", names, segments(t, dir))
}

// TestDamagedRecordsWhileRunning: a record whose header or table is damaged after it was written, and the end of a
// segment that was cut off, are lost when they are to be shipped, and hold up nothing, however large chunks are.
func TestDamagedRecordsWhileRunning(t *testing.T) {
	flip := func(at int) func([]byte, int64) []byte {
		return func(b []byte, record int64) []byte {
			b[record+int64(at)] ^= 0x41
			return b
		}
	}
	all := func(i int) []string { return []string{line("a", i), line("b", i), line("a", i+100)} }
	for name, test := range map[string]struct {
		harm func(b []byte, record int64) []byte
		left [][]string // of the batches 0 to 2
	}{
		"header": {flip(5), [][]string{all(0), all(2)}},
		"table":  {flip(headerBytes + 9), [][]string{all(0), all(2)}},
		"cut":    {func(b []byte, record int64) []byte { return b[:record+headerBytes] }, [][]string{all(0)}},
		"cut within the data": {func(b []byte, record int64) []byte {
			return b[:bytes.Index(b[record:], []byte(line("b", 1)))+int(record)+5]
		}, [][]string{all(0), {line("a", 1)}}},
	} {
		for _, limit := range []int64{1 << 20, 40} {
			t.Run(fmt.Sprintf("%s, %d", name, limit), func(t *testing.T) {
				dir := t.TempDir()
				s := reopen(t, dir, testOptions())
				mustAppend(t, s, all(0)...)
				record := s.active.size
				mustAppend(t, s, all(1)...)
				mustAppend(t, s, all(2)...)
				path := segments(t, dir)[0]
				harmed := test.harm(must.Get(os.ReadFile(path))(t), record)
				must.OK(t, os.WriteFile(path, harmed, 0o600))
				b := newStore()
				drain(t, s, b, limit)
				mustAppend(t, s, all(3)...)
				drain(t, s, b, limit)
				checkStored(t, b, append(slices.Concat(test.left...), all(3)...), 1)
				b.checkGaps(t)
				if names := quarantined(t, dir); len(names) != 1 || len(segments(t, dir)) != 0 {
					t.Errorf("set aside %v, left %v", names, segments(t, dir))
				}
			})
		}
	}
}

// flakyDisk fails once, if fails is set, to read exactly one line's bytes.
type flakyDisk struct {
	fastDisk
	fails bool
}

type flakyFile struct {
	file
	disk *flakyDisk
}

func (d *flakyDisk) open(path string, flags int) (file, error) {
	f, err := d.fastDisk.open(path, flags)
	return flakyFile{f, d}, err
}

func (f flakyFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.disk.fails && len(p) == len(line("a", 0)) {
		f.disk.fails = false
		return 0, syscall.EIO
	}
	return f.file.ReadAt(p, offset)
}

// TestReadErrorPasses: an error while the bytes before a chunk are read costs nothing of the chunk when the store asks
// for it again.
func TestReadErrorPasses(t *testing.T) {
	disk := &flakyDisk{}
	opts := testOptions()
	opts.disk = disk
	s := reopen(t, t.TempDir(), opts)
	must.OK(t, s.Append(t.Context(), []Lines{{"a", []byte(line("a", 0) + line("a", 1))}}))
	b := newStore()
	st := s.Streams()[0]
	must.True(t, must.Get(shipOne(st, b, 1, map[string]bool{}, kept))(t), "no line is shipped")
	offset, n, _ := st.Pending(1)
	r := must.Get(st.Open(offset, n))(t)
	disk.fails = true
	_, err := r.Read(make([]byte, 1))
	must.True(t, errors.Is(err, syscall.EIO), "the error is %v", err)
	must.Get(r.Seek(0, io.SeekStart))(t)
	says.Equal(t, string(must.Get(io.ReadAll(r))(t)), line("a", 1))
	must.OK(t, r.Close())
}

func damage(t *testing.T, path, what string) {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	i := bytes.Index(b, []byte(what))
	must.True(t, i >= 0, "%q is not in %s", what, path)
	b[i+3] ^= 0x10
	must.OK(t, os.WriteFile(path, b, 0o600))
}

// TestUnreadableSegment: a file that is no segment at all does not keep the spool from opening.
func TestUnreadableSegment(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "short": "RHS",
		"text": strings.Repeat("not a segment\n", 100), "zeros": strings.Repeat("\x00", 5000)} {
		t.Run(name, func(t *testing.T) {
			_, s := openWith(t, segmentName(7), []byte(content))
			mustAppend(t, s, line("a", 1))
			got := segments(t, s.dir)
			says.True(t, len(got) == 1 && filepath.Base(got[0]) == segmentName(8), "segments %v", got)
			b := newStore()
			drain(t, s, b, 1<<20)
			checkStored(t, b, []string{line("a", 1)}, 1)
		})
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir, testOptions())
	for i := range 12 {
		path := filepath.Join(dir, segmentName(uint64(i)))
		must.OK(t, os.WriteFile(path, nil, 0o600))
		must.OK(t, os.Truncate(path, quarantineBytes/8))
		must.OK(t, s.quarantine(path))
	}
	names := quarantined(t, dir)
	says.Equal(t, len(names), 8, "kept %v", names)
	says.Equal(t, filepath.Base(names[0]), segmentName(4), "kept %v", names)
}

// TestDamagedPositions: without positions a spool ships again what it holds, behind what is stored; nothing is lost.
func TestDamagedPositions(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"gone":    os.Remove,
		"garbage": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("?", 100)), 0o600) },
		"torn":    func(path string) error { return os.Truncate(path, slotBytes-1) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := reopen(t, dir, testOptions())
			b := newStore()
			mustAppend(t, s, line("a", 1))
			must.Get(shipOne(s.Streams()[0], b, 1<<20, map[string]bool{}, lost))(t)
			mustAppend(t, s, line("a", 2))
			must.OK(t, s.Close())
			must.OK(t, change(filepath.Join(dir, positionsFile)))
			s = reopen(t, dir, testOptions())
			drain(t, s, b, 1<<20)
			checkStored(t, b, []string{line("a", 1), line("a", 2)}, 2)
		})
	}
}

// FuzzLoader: from any bytes the loader takes blocks that lie within them, do not overlap and have the right checksums,
// and says where to go on behind what it skips.
func FuzzLoader(f *testing.F) {
	for _, seed := range append(someSegments(), realSegments(f)...) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = sealed(b)
		s := &Spool{streams: make(map[string]*Stream)}
		seg := &segment{skip: make(map[int64]int64)}
		l := loader{spool: s, segment: seg, window: newWindow(bytes.NewReader(b), int64(len(b))), buf: make([]byte, 64)}
		end, err := l.addRecords()
		must.True(t, err == nil && end <= int64(len(b)), "end %d of %d, %v", end, len(b), err)
		var last int64
		for _, e := range l.spans {
			must.True(t, e.span.n > 0 && e.span.at >= last && e.span.at+headerBytes+e.span.n <= end && e.stream != nil,
				"%+v behind byte %d, the segment ends at %d", e.span, last, end)
			last = e.span.at
		}
		for from, to := range seg.skip {
			must.True(t, to > from && to <= end && seg.damaged, "skips from %d to %d of %d, damaged %v", from, to, end,
				seg.damaged)
		}
	})
}

// realSegments are segment files as they were written, whole, torn, damaged in a header, a table and the data, and
// joined.
func realSegments(t testing.TB) [][]byte {
	w := threeBatches(t)
	list := [][]byte{w.bytes, w.bytes[:w.ends[2]-7], append(bytes.Clone(w.bytes), w.bytes[len(segmentMagic):]...)}
	for _, at := range []int{len(segmentMagic) + 5, len(segmentMagic) + headerBytes + 9, w.ends[0] - 3,
		w.ends[0] + 20} {
		damaged := bytes.Clone(w.bytes)
		damaged[at] ^= 0x41
		list = append(list, damaged)
	}
	return list
}

func someSegments() [][]byte {
	var list [][]byte
	for _, table := range [][]block{
		{{key: []byte("a"), streamID: 1, n: 2}},
		{{key: []byte("a"), streamID: 1, start: 5, n: 1}, {key: []byte("b"), streamID: 2, start: maxOffset, n: 1}},
	} {
		var encoded []byte
		for _, e := range table {
			e.checksum = crc32.Checksum([]byte("x\n")[:e.n], castagnoli)
			encoded = appendBlock(encoded, e, string(e.key))
		}
		record := string(appendHeader(nil, encoded, 2, 0)) + string(encoded) + "x\n"
		list = append(list, []byte(segmentMagic+record+"garbage"+record), []byte(segmentMagic+record+record[:20]))
	}
	return list
}

// FuzzSegment: whatever a segment file and the file of positions hold, the spool opens, ships what is good of it and is
// usable.
func FuzzSegment(f *testing.F) {
	for _, seed := range someSegments() {
		f.Add(seed, encodeSlot(nil, position{streamID: 1, mapping: mapping{0, 100}, tried: 1}, 1))
	}
	for _, seed := range realSegments(f) {
		f.Add(seed, []byte{})
	}
	f.Fuzz(func(t *testing.T, segment, positions []byte) {
		dir := t.TempDir()
		must.OK(t,
			errors.Join(os.WriteFile(filepath.Join(dir, segmentName(1)), sealed(segment), 0o600),
				os.WriteFile(filepath.Join(dir, positionsFile), positions, 0o600)))
		opts := testOptions()
		opts.disk = fastDisk{}
		s := reopen(t, dir, opts)
		known, b := make(map[string]bool), newStore()
		for rounds := 0; len(s.Streams()) > 0; rounds++ {
			must.True(t, rounds <= 10_000, "never empty")
			for _, st := range s.Streams() {
				// Data that are no lines are none of the spool's own; they are read all the same.
				_, _ = shipOne(st, b, []int64{1 << 20, 40}[rounds%2], known, kept)
				if offset, n, _ := st.Pending(1 << 20); n > 0 {
					st.Shipped(offset + n)
				}
			}
		}
		mustAppend(t, s, line("new", 1))
		drain(t, s, b, 1<<20)
		must.True(t, b.lines()["new: "+line("new", 1)] == 1, "what was appended is not stored")
		must.True(t, len(segments(t, dir)) == 0, "left %v", segments(t, dir))
	})
}

// sealed makes checksums of a fuzzed segment's records right, so that the fuzzer gets behind them. Bytes that say where
// they are not meant to be right keep them.
func sealed(segment []byte) []byte {
	b := bytes.Clone(segment)
	for i := 0; i+headerBytes <= len(b); i++ {
		if string(b[i:i+4]) != recordMagic {
			continue
		}
		n := int(b[i+4]) | int(b[i+5])<<8
		if i+headerBytes+n > len(b) {
			continue
		}
		table := b[i+headerBytes : i+headerBytes+n]
		header := appendHeader(nil, table, int64(b[i+8]), 0)
		copy(b[i:], header)
	}
	return b
}

// FuzzDamage: of a segment that is cut where the process was killed, or flipped at one place, only lines of the batch
// there are lost, of a torn batch all. That is counted, the file is set aside, and what comes next is stored.
func FuzzDamage(f *testing.F) {
	w := threeBatches(f)
	for i := range w.bytes {
		f.Add(uint16(i), uint8(1<<(i%8)), uint16(0))
		f.Add(uint16(0), uint8(0), uint16(i+1))
	}
	f.Add(uint16(40), uint8(1), uint16(300))
	f.Fuzz(func(t *testing.T, at uint16, flip uint8, cut uint16) {
		size := len(w.bytes) - int(cut)%(len(w.bytes)+1)
		flipped := flip != 0 && int(at) < size
		damaged := bytes.Clone(w.bytes[:size])
		if flipped {
			damaged[at] ^= flip
		}
		dir, s := openWith(t, w.name, damaged)
		next := line("a", 100)
		mustAppend(t, s, next)
		b := newStore()
		drain(t, s, b, 1<<20)
		stored := b.lines()
		takeOut := func(lines []string) (lost int) {
			for _, l := range lines {
				key := batchOf(l)[0].Stream + ": " + l
				if stored[key] == 0 {
					lost++
				} else if stored[key] > 1 {
					t.Errorf("%q is stored %d times", l, stored[key])
				}
				delete(stored, key)
			}
			return lost
		}
		start, whole := len(segmentMagic), size == 0 || size == len(segmentMagic)
		for i, lines := range w.lines {
			end, lost := w.ends[i], takeOut(lines)
			hurt := flipped && start <= int(at) && int(at) < end
			says.True(t, (size >= end || lost >= len(lines)) && (size < end || hurt == (lost > 0)),
				"batch %d, which ends at %d of %d, lost %d of %d lines", i, end, size, lost, len(lines))
			start, whole = end, whole || size == end
		}
		says.True(t, takeOut([]string{next}) == 0 && len(stored) == 0,
			"what comes next is lost, or stored is what was never appended: %v", stored)
		torn, bad, aside := count(s.metrics.torn), count(s.metrics.damaged), len(quarantined(t, dir))
		switch {
		case flipped && size == len(w.bytes):
			says.True(t, torn+bad == 1 && aside == 1, "flipped: %v torn, %v damaged, %d set aside", torn, bad, aside)
		case !flipped:
			says.True(t, bad == 0 && torn == map[bool]float64{true: 0, false: 1}[whole] && aside > 0 != whole,
				"cut: %v torn, %v damaged, %d set aside", torn, bad, aside)
		}
		must.OK(t, s.Close())
	})
}
