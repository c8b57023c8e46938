package logs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// A session may have half a million logs, of which few still grow. A log that is empty, or that is stored and no longer
// grows, becomes idle: to save memory, only an idleFile of it stays, without its name. When it changes, it is followed
// again, as after a restart of the collector: the walk that saw the change has its name, and the store's listing says
// how much of it is stored. The names of empty logs are stored as a list (Options.ListEmpty): an object for each would
// cost as many requests.

// idleKey is a hash of the path of a log, below Ray's temporary folder.
type idleKey uint64

// idleFile is what stays in memory of an idle log.
type idleFile struct {
	sum  uint64 // with n its prefix
	ino  uint64 // 0: not known yet
	look uint32 // hash of its size and modification time; see lookOf
	n    uint16
	node uint8 // index into idleLogs.nodes
	scan uint8 // the last scan that found it, modulo 256
}

// idleLogs has the idle logs of a session.
type idleLogs struct {
	dev   uint64 // all of them are on one file system; 0: it is not known which number that has now
	nodes []rayid.Node
	files map[idleKey]idleFile
}

const (
	// noLook is the look of a file that no scan has seen yet.
	noLook = 0
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

// lookOf tells a file from how it was before: one change in four billion is missed until the next.
func lookOf(s seenFile) uint32 {
	h := uint64(fnvStart)
	for _, v := range [...]uint64{uint64(s.size), uint64(s.changed)} {
		for ; v > 0; v >>= 8 {
			h = (h ^ v&0xff) * fnvPrime
		}
		h *= fnvPrime
	}
	return max(uint32(h>>32)^uint32(h), noLook+1)
}

// nodeIndex returns the index of a node; ok is false if there are too many.
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

// accepts says whether a file's file system is that of the idle logs.
func (r *idleLogs) accepts(id fileID) bool {
	if r.dev == 0 || len(r.files) == 0 {
		r.dev = id.dev
	}
	return id.dev == r.dev && id.ino != 0
}

func (r *idleLogs) put(key idleKey, f idleFile) {
	if r.files == nil {
		r.files = make(map[idleKey]idleFile)
	}
	r.files[key] = f
}

// is says whether a file that a walk saw is the idle one, by its inode. After a restart, the first that is found tells
// the device: the volume may have been mounted again.
func (r *idleLogs) is(f idleFile, s seenFile) bool {
	if r.dev == 0 && f.ino == s.id.ino {
		r.dev = s.id.dev
	}
	return s.id == fileID{r.dev, f.ino}
}

// find finds the idle log that a file is: under its own path, or under the one that it had before it was rotated or
// moved. at is the path, below the logs folder dir, under which it was stored.
func (r *idleLogs) find(t *tree, s seenFile) (key idleKey, f idleFile, dir, at string, ok bool) {
	if len(r.files) == 0 {
		return 0, idleFile{}, "", "", false
	}
	try := func(d, p string) bool {
		k := keyOfPath(d, p)
		found, isIdle := r.files[k]
		if !isIdle || !r.is(found, s) {
			return false
		}
		key, f, dir, at, ok = k, found, d, p, true
		return true
	}
	if try(s.dir, s.path) {
		return
	}
	base, _, rotated := rotation(s.path)
	name := path.Base(s.path)
	_ = (s.dir != t.dir && try(t.dir, s.path)) || (rotated && try(s.dir, base)) || (name != s.path && try(s.dir, name))
	return
}

// markSeen notes that the current walk found an idle log.
func (t *tree) markSeen(key idleKey, f idleFile) {
	f.scan = uint8(t.scans + 1)
	t.idle.put(key, f)
}

// follow follows an idle log again, whose file was last seen at s, as one that the state file has.
func (t *tree) follow(key idleKey, f idleFile, at string, s seenFile) {
	delete(t.idle.files, key)
	stream := t.streamOf(t.idle.nodes[f.node], at)
	if len(stream.files) > 0 {
		return // another file has the path now, and the idle one is stored
	}
	followed := &file{
		seenFile: seenFile{dir: s.dir, path: at, id: fileID{t.idle.dev, f.ino}},
		state:    restored, stream: stream, prefix: prefix{n: int64(f.n), sum: f.sum}, lastScan: t.scanNumber(),
	}
	stream.files, stream.current = []*file{followed}, followed
	t.files[followed.id] = followed
	t.dirty, t.idleDirty = true, true
}

// forgetIdle forgets idle logs that two scans in a row did not find, also those in a folder that the collector has no
// right to read now: without their names, they cannot be told from removed ones. If they are seen again, they are new,
// and the store's listing says that they are stored.
func (t *tree) forgetIdle() {
	now := uint8(t.scans)
	for key, f := range t.idle.files {
		if f.scan != now && f.scan != now-1 {
			delete(t.idle.files, key)
			t.idleDirty = t.idleDirty || f.n > 0
		}
	}
}

// findIdle makes the logs idle that are stored and were not written to for idle. If other logs wait for places, those
// of which nothing could be stored for idleAfter give theirs up: they become candidates again.
func (t *tree) findIdle(now time.Time, idle time.Duration) {
	t.pinned = 0
	for _, f := range t.files {
		switch s := f.stream; {
		case !f.isWhole():
			if s.state == listed && s.unread(f) == 0 {
				t.pinned++
			}
		case s.state == listed && f.state == following && f.sized && s.pos == f.size && now.Sub(f.grown) >= idle:
			t.makeIdle(f, lookOf(f.seenFile))
		case t.waiting > 0 && s.state != inFlight && now.Sub(s.progress) >= idleAfter:
			t.makeIdle(f, noLook)
		}
	}
}

// isWhole says whether the file is all that its stream has, and was always: what an idleFile does not tell is then
// zero.
func (f *file) isWhole() bool {
	s, t := f.stream, f.stream.tree
	home := f.path == s.path && (f.dir == t.dir || t.nodes[f.dir] == s.node)
	return home && !s.unsaved && len(s.files) == 1 && s.current == f && s.base == 0 && s.from == 0 && f.read == 0 &&
		f.limit == 0 &&
		f.size > 0 && t.removed[f.id] == nil && !isDump(f.path)
}

// makeIdle stops following a log. look is the log's look if all of it is stored, or noLook, so that the next scan makes
// it a candidate.
func (t *tree) makeIdle(f *file, look uint32) {
	s := f.stream
	node, ok := t.idle.nodeIndex(s.node)
	if !ok || !t.idle.accepts(f.id) {
		return
	}
	t.idle.put(keyOfPath(f.dir, f.path), idleFile{
		sum: f.prefix.sum, n: uint16(f.prefix.n), ino: f.id.ino, look: look, node: node, scan: uint8(t.scans),
	})
	delete(t.files, f.id)
	delete(t.streams, streamID{s.node, s.path})
	f.on(fileFinished)
	t.dirty, t.idleDirty = true, true
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
	chosen []seenFile

	waiting      int   // logs for which there is no place
	waitingBytes int64 // their bytes
	oldest       int64 // when the oldest of them was written, Unix ns
}

func (c *candidates) add(s seenFile) {
	c.files = append(c.files, s)
	if len(c.files) >= 2*c.free+batchSize {
		c.cut()
	}
}

// cut leaves as many as there are places.
func (c *candidates) cut() {
	if len(c.files) <= c.free {
		return
	}
	slices.SortFunc(c.files, func(a, b seenFile) int { return cmp.Compare(a.changed, b.changed) })
	old := c.free / 2
	young := len(c.files) - (c.free - old)
	for _, s := range c.files[old:young] {
		c.waiting++
		c.waitingBytes += s.size
		if c.oldest == 0 || s.changed < c.oldest {
			c.oldest = s.changed
		}
	}
	c.files = slices.Delete(c.files, old, young)
}

// sort decides what becomes of the files that a walk saw: they are looked at because they are followed, they stay idle,
// or they are candidates.
func (t *tree) sort(files []seenFile, c *candidates) {
	now := time.Now().UnixNano()
	for _, s := range files {
		if t.files[s.id] != nil {
			c.chosen = append(c.chosen, s)
			continue
		}
		key := keyOfPath(s.dir, s.path)
		f, isIdle := t.idle.files[key]
		if !isIdle || !t.idle.is(f, s) {
			if k, found, _, _, ok := t.idle.find(t, s); ok {
				key, f, isIdle = k, found, true // it was moved
			}
		}
		if !isDump(s.path) && s.changed <= now {
			t.lastIdleWrite = max(t.lastIdleWrite, s.changed)
		}
		switch {
		case isIdle && t.idle.is(f, s) && f.look == lookOf(s): // not written to since
			t.markSeen(key, f)
		case s.size == 0 && isIdle && f.n == 0: // still empty, perhaps made again
			f.ino, f.look = s.id.ino, lookOf(s)
			t.markSeen(key, f)
		case s.size == 0 && !isIdle && t.addEmpty(key, s):
		default:
			if isIdle {
				t.markSeen(key, f)
			}
			c.add(s)
		}
	}
}

// maxUnlisted bounds the names of empty logs that wait to be listed, in bytes for a node: more empty logs are looked at
// again by the next scan.
const maxUnlisted = 1 << 20

// addEmpty adds an empty log to the list of its node and makes it idle; false if it is to be followed like others.
func (t *tree) addEmpty(key idleKey, s seenFile) bool {
	node := t.nodeOf(s.dir)
	logPath := keyPath(s.path)
	if isDump(s.path) || t.streams[streamID{node, s.path}] != nil || layout.CheckLogPath(logPath) != nil {
		return false
	}
	i, ok := t.idle.nodeIndex(node)
	if !ok {
		return false
	}
	if t.unlistedFull || (len(t.unlisted[node])+len(logPath) >= maxUnlisted && t.listEmpty() != nil) {
		t.unlistedFull = true
		return true
	}
	t.unlisted[node] = append(append(t.unlisted[node], logPath...), '\n')
	t.idle.accepts(s.id)
	t.markSeen(key, idleFile{sum: prefixOf(nil).sum, ino: s.id.ino, look: lookOf(s), node: i})
	t.emptyDirty = true
	return true
}

// listEmpty lists the empty logs that were added. A name is listed twice if the collector is killed before the idle
// logs are saved.
func (t *tree) listEmpty() error {
	for node, lines := range t.unlisted {
		if err := t.tailer.opts.ListEmpty(t.session, node, lines); err != nil {
			return fmt.Errorf("list empty logs: %w", err)
		}
		delete(t.unlisted, node)
	}
	return nil
}

// admit follows the candidates that there are places for.
func (t *tree) admit(c *candidates) {
	c.cut()
	for _, s := range c.files {
		key, f, dir, at, isIdle := t.idle.find(t, s)
		// perhaps another file has the path of an idle one, or one that was in the list of empty logs has its first
		// bytes
		if !isIdle {
			key, dir, at = keyOfPath(s.dir, s.path), s.dir, s.path
			f, isIdle = t.idle.files[key]
		}
		switch {
		case isIdle && f.n == 0 && at == s.path:
			delete(t.idle.files, key) // nothing of it is stored
		case isIdle:
			seen := s
			seen.dir = dir
			t.follow(key, f, at, seen)
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
