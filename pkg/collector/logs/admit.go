package logs

import (
	"cmp"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// maxFollowed is how many logs are followed at a time. Each takes some 2 KB, with what the shipper knows of it. Where there are more with
// something to ship, those that are stored rest, and the others take turns.
var maxFollowed = 16 << 10

// restAfter is how long a log does not grow before it rests, while half of maxFollowed are followed.
const restAfter = 10 * time.Minute

// candidates are the logs that a walk found to have something to ship, and that are not followed yet. If there are more than room, half of the
// places go to the newest ones, so that what is written now does not wait behind all that is old, and half to the oldest.
type candidates struct {
	room  int
	files []seenFile
	// chosen are the files to look at: those that are followed, and those candidates that found a place.
	chosen []seenFile

	left      int   // logs that found no place
	leftBytes int64 // their bytes
	oldest    int64 // when the oldest of them was written, Unix ns
}

func (c *candidates) add(s seenFile) {
	c.files = append(c.files, s)
	if len(c.files) >= 2*c.room+batchSize {
		c.cut()
	}
}

// cut leaves as many as there is room for.
func (c *candidates) cut() {
	if len(c.files) <= c.room {
		return
	}
	slices.SortFunc(c.files, func(a, b seenFile) int { return cmp.Compare(a.changed, b.changed) })
	old := c.room / 2
	young := len(c.files) - (c.room - old)
	for _, s := range c.files[old:young] {
		c.left++
		c.leftBytes += s.size
		if c.oldest == 0 || s.changed < c.oldest {
			c.oldest = s.changed
		}
	}
	c.files = slices.Delete(c.files, old, young)
}

// sort decides what becomes of the files that a walk saw: they are looked at because they are followed, they rest, or they are candidates.
func (t *tree) sort(now time.Time, files []seenFile, c *candidates) {
	for _, s := range files {
		if t.files[s.id] != nil {
			c.chosen = append(c.chosen, s)
			continue
		}
		key := keyOfPath(s.dir, s.path)
		f, rests := t.resting.files[key]
		if !rests || !t.resting.is(f, s) {
			if k, found, _, _, ok := t.resting.find(t, s); ok {
				key, f, rests = k, found, true // it was moved
			}
		}
		if !isDump(s.path) {
			t.restLast = max(t.restLast, s.changed)
		}
		switch {
		case rests && t.resting.is(f, s) && f.look == lookOf(s):
			t.markSeen(key, f)
		case s.size == 0 && rests && f.n == 0:
			f.ino, f.look = s.id.ino, lookOf(s)
			t.markSeen(key, f)
		case s.size == 0 && !rests && t.addEmpty(now, key, s):
		default:
			if rests {
				t.markSeen(key, f)
			}
			c.add(s)
		}
	}
}

// addEmpty adds an empty log to the list of its node, and lets it rest; false if it is to be followed like others.
func (t *tree) addEmpty(now time.Time, key restingKey, s seenFile) bool {
	node := t.nodeOf(s.dir)
	logPath := keyPath(s.path)
	if isDump(s.path) || t.streams[streamID{node, s.path}] != nil || layout.CheckLogPath(logPath) != nil {
		return false
	}
	i, ok := t.resting.nodeIndex(node)
	if !ok {
		return false
	}
	list := t.empty[node]
	if list == nil {
		list = newEmptyLogs(t.emptyKey(node), t.emptyPath(node))
		t.empty[node] = list
	}
	if list.add(now, logPath) { // otherwise the next scan tries it again
		t.resting.accepts(s.id)
		t.markSeen(key, restingFile{sum: prefixOf(nil).sum, ino: s.id.ino, look: lookOf(s), node: i})
	}
	return true
}

// admit follows the candidates that there is room for.
func (t *tree) admit(c *candidates) {
	c.cut()
	for _, s := range c.files {
		key, f, dir, at, rests := t.resting.find(t, s)
		if !rests { // perhaps another file has the path of a resting one, or one that was in the list of empty logs has its first bytes
			key, dir, at = keyOfPath(s.dir, s.path), s.dir, s.path
			f, rests = t.resting.files[key]
		}
		switch {
		case rests && f.n == 0 && at == s.path:
			delete(t.resting.files, key) // nothing of it is stored
		case rests:
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
