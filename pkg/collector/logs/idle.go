package logs

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// A session may have half a million logs, of which few still grow. A log that is empty, or that is stored and no longer
// grows, or that was removed, becomes idle: to save memory, only an idleFile of it stays, without its name. When it
// changes, it is followed again, as after a restart of the collector: the walk that saw the change has its name, and
// the store's listing says how much of it is stored. If another file has its path then, all that is stored belongs
// before that file's bytes. The names of empty logs are stored as a list (Options.ListEmpty): an object for each would
// cost as many requests.

// idleKey is a hash of the path of a log, below Ray's temporary folder.
type idleKey uint64

// idleFile is what stays in memory of an idle log.
type idleFile struct {
	prefixSum  uint64 // with prefixSize, its prefix
	ino        uint64 // 0: not known yet, or it was removed: no file is taken for it
	stamp      uint32 // stampOf its size and modification time when all of it was stored, or noStamp
	prefixSize uint16 // 0: it was empty, and nothing of it is stored
	node       uint8  // index into idleLogs.nodes
	scan       uint8  // the last scan that found it, modulo 256
}

// idleLogs has the idle logs of a session.
type idleLogs struct {
	dev   uint64 // all of them are on one file system; 0: it is not known which number that has now
	nodes []rayid.Node
	files map[idleKey]idleFile
	// again are those that are followed again since the state file was saved; the file of idle logs has them, too.
	again map[idleKey]idleFile
	gone  int  // those that the last scans did not find; see maxGone
	dirty bool // the file of idle logs is out of date
	// lastWrite is when a log that is not followed was last written to, Unix ns.
	lastWrite int64
}

const (
	// noStamp is the look of a file that no scan has seen yet.
	noStamp = 0
	// maxIdleNodes bounds the nodes whose logs can be idle. A raylet that is restarted in its pod has a new ID.
	maxIdleNodes = 256
)

func keyOfPath(dir, below string) idleKey {
	return idleKey(hashOf(hashOf(hashOf(fnvStart, dir), "/"), below))
}

// FNV-1a of 64 bits, without the allocations of package hash/fnv: each scan needs the hashes of all paths.
const (
	fnvStart = 14695981039346656037
	fnvPrime = 1099511628211
)

func hashOf[T string | []byte](h uint64, s T) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// stampOf is a hash of a file's size and modification time, by which a change is seen. It is never noStamp. One change
// in four billion is missed until the next.
func stampOf(s seenFile) uint32 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], uint64(s.size))
	binary.LittleEndian.PutUint64(b[8:], uint64(s.changed))
	h := hashOf(fnvStart, b[:])
	return max(uint32(h>>32)^uint32(h), noStamp+1)
}

// nodeIndex finds or adds a node; ok is false if there are maxIdleNodes others already.
func (r *idleLogs) nodeIndex(node rayid.Node) (i uint8, ok bool) {
	for i, known := range r.nodes {
		if known == node {
			return uint8(i), true
		}
	}
	if len(r.nodes) == maxIdleNodes {
		return 0, false
	}
	r.nodes = append(r.nodes, node)
	return uint8(len(r.nodes) - 1), true
}

// adoptDevice makes a file's file system that of the idle logs if there are none yet, and says whether it is theirs.
func (r *idleLogs) adoptDevice(id fileID) (same bool) {
	if r.dev == 0 || len(r.files) == 0 {
		r.dev = id.dev
	}
	return id.dev == r.dev && id.ino != 0
}

// isFile says whether the file s that a walk saw is the idle log f, by its device and inode. After a restart the number
// of the device is not known (r.dev is 0), because the volume may have been mounted again: then the first file with the
// right inode sets it.
func (r *idleLogs) isFile(f idleFile, s seenFile) bool {
	if r.dev == 0 && f.ino == s.id.ino {
		r.dev = s.id.dev
	}
	return s.id == fileID{r.dev, f.ino}
}

// idleLog is an idle log with the path under which it was stored.
type idleLog struct {
	key idleKey
	idleFile
	dir, path string // the logs folder, and the path below it
}

// findIdle finds the idle log that a file is: under the file's own path, or under the one that it had before it was
// moved with its folder, rotated, or moved into a subfolder. ok is false if the file is no idle log.
func (t *tree) findIdle(s seenFile) (log idleLog, ok bool) {
	if len(t.idle.files) == 0 {
		return idleLog{}, false
	}
	isAt := func(dir, path string) bool {
		key := keyOfPath(dir, path)
		f, isIdle := t.idle.files[key]
		if !isIdle || !t.idle.isFile(f, s) {
			return false
		}
		log = idleLog{key, f, dir, path}
		return true
	}
	base, _, rotated := splitRotated(s.path)
	name := path.Base(s.path)
	switch {
	case isAt(s.dir, s.path):
	case s.dir != t.dir && isAt(t.dir, s.path): // moved with its folder
	case rotated && isAt(s.dir, base):
	case name != s.path && isAt(s.dir, name): // moved into a subfolder
	default:
		return idleLog{}, false
	}
	return log, true
}

// idleAt finds the idle log that had a file's path, whichever file that was: in the file's own folder or, as the file
// may have been moved with its folder before a scan saw it, in the one that its node wrote to.
func (t *tree) idleAt(s seenFile) (log idleLog, ok bool) {
	log = idleLog{key: keyOfPath(s.dir, s.path), dir: s.dir, path: s.path}
	if log.idleFile, ok = t.idle.files[log.key]; ok || s.dir == t.dir {
		return log, ok
	}
	log.key, log.dir = keyOfPath(t.dir, s.path), t.dir
	log.idleFile, ok = t.idle.files[log.key]
	return log, ok && t.idle.nodes[log.node] == t.nodeOf(s.dir)
}

// markSeen notes that the current walk found an idle log.
func (t *tree) markSeen(key idleKey, f idleFile) {
	f.scan = uint8(t.scans.number + 1)
	t.idle.files[key] = f
}

// followAgain makes an idle log a followed one, in the state in which files come from the state file. The scan that is
// under way compares it with what it saw.
func (t *tree) followAgain(log idleLog) {
	delete(t.idle.files, log.key)
	t.idle.again[log.key], t.idle.dirty = log.idleFile, true
	stream := t.streamOf(t.idle.nodes[log.node], log.path)
	if len(stream.files) > 0 {
		return // another file has the path now, and the idle one is stored
	}
	followed := &file{
		seenFile: seenFile{dir: log.dir, path: log.path, id: fileID{t.idle.dev, log.ino}},
		state:    restored, stream: stream, prefix: prefix{n: int64(log.prefixSize), sum: log.prefixSum},
		lastScan: t.scans.current(),
	}
	stream.files, stream.current = []*file{followed}, followed
	if log.ino == 0 || t.files[followed.id] != nil { // it was removed, and another file may have its inode
		followed.handle(fileFinished)
		stream.base, stream.fileOffset = followed.prefix.n, followed.prefix.n // startAgain doubts a short listing
	} else {
		t.files[followed.id] = followed
	}
	t.dirty = true
}

// maxGone is how many idle logs of all sessions stay known that no scan finds any more, the last ones: a file that gets
// the path of one must not be taken for it.
var maxGone = 128 << 10

// ageOf is how many scans ago one found the idle log, with the one that is under way or the next: up to 255.
func (t *tree) ageOf(f idleFile) uint8 { return uint8(t.scans.number+1) - f.scan }

// ageIdle forgets empty idle logs that two scans in a row did not find, and counts the others of these by their age.
// They were removed, so another file may get the inode of one and begin with the same bytes: unless the collector has
// no right to read a folder now. Logs in it cannot be told from removed ones, because their names are not known.
func (t *tree) ageIdle(gone *[256]int) {
	t.idle.gone = 0
	areRemoved := len(t.walked.forbidden) == 0 && len(t.walked.unseen) == 0
	for key, f := range t.idle.files {
		switch age := t.ageOf(f); {
		case age < 3:
			continue
		case f.prefixSize == 0:
			delete(t.idle.files, key)
			continue
		case age == 255:
			f.scan++ // it stays as old
		}
		if areRemoved && f.ino != 0 {
			f.ino, t.idle.dirty = 0, true
		}
		t.idle.files[key] = f
		t.idle.gone++
		gone[t.ageOf(f)]++
	}
}

// forgetGone forgets the oldest of more than maxGone idle logs that are gone.
func (t *Tailer) forgetGone(gone *[256]int) {
	left := maxGone
	for age, n := range gone { // from here on: how many of them to forget
		gone[age], left = max(n-left, 0), max(left-n, 0)
	}
	if left > 0 {
		return
	}
	for tree := range t.lockedTrees() {
		for key, f := range tree.idle.files {
			if n := &gone[tree.ageOf(f)]; *n > 0 {
				*n--
				tree.idle.gone--
				tree.idle.dirty = true
				delete(tree.idle.files, key)
			}
		}
	}
}

// retireRemoved makes logs idle whose files are gone. Where logs come and go, what is known of them would add up.
func (t *tree) retireRemoved() {
	for _, s := range t.streams {
		f := s.current
		settled := s.state != inFlight && !s.unsaved // the listing tells what is stored
		// idleAt finds it under its path where its node writes to.
		settled = settled && f.dir == t.dir && s.node == t.node
		if f.state == finished && len(s.files) == 1 && settled && f.prefix.n > 0 && !isDump(f.path) {
			t.makeIdle(f, noStamp)
		}
	}
}

// retireStored makes the logs idle that are stored and did not grow for the time unchanged. If other logs wait for
// places, logs of which nothing could be stored for idleAfter give their places up, too: the next scan makes them
// candidates again. A log that was rotated stays, because an idleFile cannot say where it is in its stream; t.pinned
// counts these.
func (t *tree) retireStored(now time.Time, unchanged time.Duration) {
	t.pinned = 0
	for _, f := range t.files {
		switch s := f.stream; {
		case !f.isWhole(): // it was rotated, or a part of its stream
			if s.state != inFlight && s.shippableBytes(f) == 0 {
				t.pinned++ // all that can be stored of it is
			}
		case s.state == listed && f.state == following && f.sizeIsExact && s.storedEnd == f.size &&
			now.Sub(f.lastGrowth) >= unchanged: // the store's listing and the last scan agree that all of it is stored
			t.makeIdle(f, stampOf(f.seenFile))
		case t.waiting.count > 0 && s.state != inFlight && now.Sub(s.lastProgress) >= idleAfter:
			t.makeIdle(f, noStamp)
		}
	}
}

// isWhole says whether the file is all that its stream has, and was always: what an idleFile does not tell is then
// zero. Empty logs, removed ones and dumps are no idle files.
func (f *file) isWhole() bool {
	s, t := f.stream, f.stream.tree
	// The file is where its log is written to, so it was not rotated.
	isHome := f.path == s.path && (f.dir == t.dir || t.nodes[f.dir] == s.node)
	isOnlyFile := len(s.files) == 1 && s.current == f && !s.unsaved
	// Both begin with the same byte, and no byte belongs to another node's stream.
	isSameRange := s.base == 0 && s.fileOffset == 0 && f.read == 0 && f.ownBytes == 0
	return isHome && isOnlyFile && isSameRange && f.size > 0 && t.removed[f.id] == nil && !isDump(f.path)
}

// makeIdle stops following a log, which is whole or was removed, and keeps an idleFile of it. stamp is the stamp of the
// file if all of it is stored, or noStamp, with which the next scan takes the file for changed and makes it a
// candidate. The log stays followed if there is no room for its node, or if it is on another file system than the other
// idle logs.
func (t *tree) makeIdle(f *file, stamp uint32) {
	s := f.stream
	node, ok := t.idle.nodeIndex(s.node)
	if !ok || !t.idle.adoptDevice(f.id) {
		return
	}
	idle := idleFile{prefixSum: f.prefix.sum, prefixSize: uint16(f.prefix.n), ino: f.id.ino, stamp: stamp, node: node,
		scan: uint8(t.scans.number)}
	if f.state == finished { // another file may get its inode, and begin with the same bytes
		idle.ino = 0
	}
	t.idle.files[keyOfPath(f.dir, s.path)] = idle
	if t.files[f.id] == f { // else it was removed, and its inode is another's
		delete(t.files, f.id)
	}
	delete(t.streams, streamID{s.node, s.path})
	f.handle(fileFinished)
	t.dirty, t.idle.dirty = true, true
}

// maxFollowed is how many logs are followed at a time. Each takes some 2 KB, with what the shipper knows of it. Where
// there are more with something to ship, those that are stored become idle, and the others take turns.
var maxFollowed = 16 << 10

// idleAfter is how long a log does not grow before it becomes idle, once half of maxFollowed are followed.
const idleAfter = 10 * time.Minute

// candidates are the logs that a walk found to have something to ship, and that are not followed yet. If there are more
// than are free, half of the places go to the newest ones, so that what is written now does not wait behind all that is
// old, and half to the oldest.
type candidates struct {
	free  int // places
	files []seenFile
	// chosen are the files to look at: those that are followed, and those candidates that found a place.
	chosen  []seenFile
	waiting waitingLogs
}

// waitingLogs are logs for which there is no place.
type waitingLogs struct {
	count  int
	bytes  int64
	oldest int64 // when the oldest of them was written, Unix ns
}

// cutToPlaces counts the candidates for which there is no place as waiting, and removes them from c.files.
func (c *candidates) cutToPlaces() {
	if len(c.files) <= c.free {
		return
	}
	slices.SortFunc(c.files, func(a, b seenFile) int { return cmp.Compare(a.changed, b.changed) })
	old := c.free / 2                      // the oldest files before this index stay
	young := len(c.files) - (c.free - old) // so do the newest from this one on
	for _, s := range c.files[old:young] {
		if w := &c.waiting; w.oldest == 0 || s.changed < w.oldest {
			w.oldest = s.changed
		}
		c.waiting.count++
		c.waiting.bytes += s.size
	}
	c.files = slices.Delete(c.files, old, young)
}

// classifyFiles divides the files that a walk saw: followed ones are looked at in any case (c.chosen), unchanged idle
// logs and empty ones stay idle or become it, and all others are candidates for a place (c.files).
func (t *tree) classifyFiles(files []seenFile, c *candidates) {
	now := time.Now().UnixNano()
	for _, s := range files {
		log, isIdle := t.idleAt(s)
		if t.files[s.id] != nil {
			if isIdle && t.idle.isFile(log.idleFile, s) { // it is followed under another name, a hard link
				t.markSeen(log.key, log.idleFile)
			}
			c.chosen = append(c.chosen, s)
			continue
		}
		if !isIdle || !t.idle.isFile(log.idleFile, s) {
			if moved, ok := t.findIdle(s); ok { // it has another path now
				log, isIdle = moved, true
			}
		}
		key, f := log.key, log.idleFile
		if !isDump(s.path) && s.changed <= now { // a time that is yet to come says nothing
			t.idle.lastWrite = max(t.idle.lastWrite, s.changed)
		}
		if s.size == 0 && !isIdle {
			if taken := t.addEmpty(s); taken {
				continue // it is idle from the beginning
			}
		}
		switch {
		case isIdle && t.idle.isFile(f, s) && f.stamp == stampOf(s): // not written to since
			t.markSeen(key, f)
		case s.size == 0 && isIdle && f.prefixSize == 0: // still empty, perhaps made again
			f.ino, f.stamp = s.id.ino, stampOf(s)
			t.markSeen(key, f)
		default: // new, or written to: an idle log stays one until the candidate has a place
			if isIdle {
				t.markSeen(key, f)
			}
			if c.files = append(c.files, s); len(c.files) >= 2*c.free+batchSize {
				c.cutToPlaces()
			}
		}
	}
}

// emptyLogs are the empty logs of a session that are not listed yet.
type emptyLogs struct {
	names map[rayid.Node][]byte // a line each, by the node whose logs they are
	// full says that there was no room in names: all further empty logs are left to the next scan. Each try to make
	// room costs as much as all of names.
	full bool
	// unsaved says that the file of idle logs lacks empty ones: the end of a scan is early enough for those, of which
	// there may be half a million.
	unsaved bool
}

func (e *emptyLogs) anyUnlisted() bool { return len(e.names) > 0 || e.full }

// maxUnlisted bounds the names of empty logs that wait to be listed, in bytes for a node: more empty logs are looked at
// again by the next scan.
const maxUnlisted = 1 << 20

// addEmpty adds the name of a new, empty log to the names to list of its node, and makes the log idle. taken is false
// if the log is to be followed like others. It is also true if there is no room for its name: then the next scan sees
// the log as a new one again.
func (t *tree) addEmpty(s seenFile) (taken bool) {
	node := t.nodeOf(s.dir)
	logPath := keyPath(s.path)
	if isDump(s.path) || t.streams[streamID{node, s.path}] != nil || layout.CheckLogPath(logPath) != nil {
		return false
	}
	i, ok := t.idle.nodeIndex(node)
	if !ok {
		return false
	}
	full := len(t.empty.names[node])+len(logPath) >= maxUnlisted
	if t.empty.full || (full && t.listEmpty() != nil) { // listEmpty makes room unless the spool has none
		t.empty.full = true
		return true
	}
	t.empty.names[node] = append(append(t.empty.names[node], logPath...), '\n')
	_ = t.idle.adoptDevice(s.id) // an empty log is told by its path: it may be on another file system
	t.markSeen(keyOfPath(s.dir, s.path),
		idleFile{prefixSum: prefixOf(nil).sum, ino: s.id.ino, stamp: stampOf(s), node: i})
	t.empty.unsaved = true
	return true
}

// listEmpty lists the empty logs that were added. A name is listed twice if the collector is killed before the idle
// logs are saved.
func (t *tree) listEmpty() error {
	for node, lines := range t.empty.names {
		if err := t.tailer.opts.ListEmpty(t.session, node, lines); err != nil {
			return fmt.Errorf("list empty logs: %w", err)
		}
		delete(t.empty.names, node)
	}
	return nil
}

// admitCandidates gives places to as many candidates as there are places: it adds them to the files to look at
// (c.chosen), and follows those again that are idle logs. The scan adds new files itself.
func (t *tree) admitCandidates(c *candidates) {
	c.cutToPlaces()
	for _, s := range c.files {
		log, isIdle := t.findIdle(s)
		if !isIdle { // perhaps another file has the path of an idle log now
			log, isIdle = t.idleAt(s)
		}
		switch {
		case isIdle && log.prefixSize == 0 && log.path == s.path: // it was empty: nothing of it is stored
			delete(t.idle.files, log.key)
		case isIdle:
			t.followAgain(log)
		}
		c.chosen = append(c.chosen, s)
	}
}

// nodeOf is the node whose logs a logs folder has.
func (t *tree) nodeOf(dir string) rayid.Node {
	if node, ok := t.nodes[dir]; ok {
		return node
	}
	return t.node
}
