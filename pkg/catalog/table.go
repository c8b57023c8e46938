package catalog

import (
	"hash/maphash"
	"slices"
	"sort"
	"time"

	"github.com/rayhistory/historyserver/pkg/layout"
)

// table holds all sessions of the catalog, in blocks, and the changes since the blocks were made. Readers take its
// list, which does not change.
type table struct {
	names  names
	blocks []*block // in the order of the list
	rows   int      // in all blocks
	// starts has the start of each session, and so its position in the blocks, by the hash of the session's name. If
	// two sessions had the same hash, one would be lost; this does not happen even among millions.
	starts map[uint64]int64
	seed   maphash.Seed
	// changes has the sessions that changed since the blocks were made; nil: the session was removed.
	changes map[layout.Session]*session
	current *list // the list of the blocks; nil: not made yet
}

// minChanges is how many changes may always wait before blocks are made again; changeShare is the share of all rows
// that may wait.
const (
	minChanges  = 1024
	changeShare = 8
)

func newTable() table {
	return table{starts: make(map[uint64]int64), seed: maphash.MakeSeed(), changes: make(map[layout.Session]*session)}
}

// get returns what is known about a session; false if it is not in the list.
func (t *table) get(ref layout.Session) (session, bool) {
	if s, ok := t.changes[ref]; ok {
		if s == nil {
			return session{}, false
		}
		return *s, true
	}
	start, ok := t.starts[t.hash(ref)] // rows are in the order of their starts, so it is needed to find one
	if !ok {
		return session{}, false
	}
	b, i, ok := t.find(key{start, ref})
	if !ok {
		return session{}, false
	}
	return t.blocks[b].session(&t.names, i), true
}

// has says whether a session is in the list.
func (t *table) has(ref layout.Session) bool {
	if s, ok := t.changes[ref]; ok {
		return s != nil
	}
	_, ok := t.starts[t.hash(ref)]
	return ok
}

func (t *table) put(ref layout.Session, s session) {
	t.changes[ref] = &s
	t.applyIfMany()
}

func (t *table) remove(ref layout.Session) {
	t.changes[ref] = nil
	t.applyIfMany()
}

// applyIfMany applies the changes if many wait. A block is copied even for one change, so few are not worth it.
func (t *table) applyIfMany() {
	if len(t.changes) >= max(minChanges, t.rows/changeShare) {
		t.applyChanges()
	}
}

func (t *table) hash(ref layout.Session) uint64 { return maphash.Comparable(t.seed, ref) }

// key is a session's position in the list.
type key struct {
	start int64
	ref   layout.Session
}

// change is a change at a position of the list. A session whose start changes has two: it is removed from the old
// position, and put at the new one.
type change struct {
	key
	record *record // nil: the session is removed from this position
}

// applyChanges applies the changes that wait. Blocks do not change, so each one with a change is replaced by a new one.
func (t *table) applyChanges() {
	if len(t.changes) == 0 {
		return
	}
	all := make([]change, 0, 2*len(t.changes))
	for ref, s := range t.changes {
		hash := t.hash(ref)
		if start, ok := t.starts[hash]; ok { // its old row goes, which may have another place
			all = append(all, change{key: key{start, ref}})
			delete(t.starts, hash)
		}
		if s != nil {
			r := &record{ref, *s}
			start := micros(entryOf(ref, s.facts, s.marked).Start)
			all = append(all, change{key{start, ref}, r})
			t.starts[hash] = start
		}
	}
	t.changes, t.current = make(map[layout.Session]*session), nil
	t.blocks = mergeChanges(&t.names, t.blocks, all)
	t.rows = 0
	for _, b := range t.blocks {
		t.rows += len(b.rows)
	}
}

// mergeChanges returns the blocks of a list with changes applied; blocks without a change are shared. It sorts all in
// place, and adds names to n. Small blocks that follow each other are joined.
func mergeChanges(n *names, blocks []*block, all []change) []*block {
	slices.SortFunc(all, func(a, b change) int {
		if c := compareKeys(a.key, b.key); c != 0 {
			return c
		}
		return boolToInt(a.record != nil) - boolToInt(b.record != nil) // first the removal, then the new record
	})
	if len(all) == 0 {
		return blocks
	}
	out := make([]*block, 0, len(blocks)+1+len(all)/blockRows)
	if len(blocks) == 0 {
		blocks = []*block{{}}
	}
	for at, b := range blocks {
		// This block gets the changes before the first row of the next block; the last block gets all others.
		end := len(all)
		if at+1 < len(blocks) {
			next := blocks[at+1]
			end, _ = slices.BinarySearchFunc(all, 0, func(c change, _ int) int {
				return -compareRow(n, next, 0, c.key)
			})
		}
		own := all[:end]
		all = all[end:]
		parts := []*block{b}
		if len(own) > 0 {
			parts = b.withChanges(n, own)
		}
		for _, b := range parts {
			if last := len(out) - 1; last >= 0 && len(out[last].rows)+len(b.rows) <= blockRows {
				out[last] = joinBlocks(out[last], b)
			} else {
				out = append(out, b)
			}
		}
	}
	return out
}

// joinBlocks returns a block with the rows of both.
func joinBlocks(a, b *block) *block {
	both := &block{rows: make([]row, 0, len(a.rows)+len(b.rows)), text: make([]byte, 0, len(a.text)+len(b.text))}
	for _, from := range []*block{a, b} {
		for i := range from.rows {
			both.copyRow(from, i)
		}
	}
	return both
}

// withChanges returns the blocks, at most blockRows rows each, that a block becomes with changes, which are in the
// order of the list. The block itself stays as it is.
func (b *block) withChanges(n *names, changes []change) []*block {
	const usualText = 100 // bytes of a session
	all := &block{rows: make([]row, 0, len(b.rows)+len(changes)),
		text: make([]byte, 0, len(b.text)+usualText*len(changes))}
	i := 0
	for _, c := range changes {
		for i < len(b.rows) && compareRow(n, b, i, c.key) < 0 {
			all.copyRow(b, i)
			i++
		}
		if i < len(b.rows) && compareRow(n, b, i, c.key) == 0 {
			i++ // this row is removed, or replaced by the record
		}
		if c.record != nil {
			all.add(n, c.record)
		}
	}
	for ; i < len(b.rows); i++ {
		all.copyRow(b, i)
	}
	// Rows that come in order, as from packs, fill blocks. A full block that gets rows in its middle is cut into blocks
	// of equal size, because it may get more.
	size := blockRows
	if inMiddle := len(b.rows) > 0 && compareRow(n, b, len(b.rows)-1, changes[0].key) >= 0; inMiddle {
		count := (len(all.rows) + blockRows - 1) / blockRows
		size = (len(all.rows) + count - 1) / max(1, count)
	}
	return all.split(size)
}

// split cuts a block into blocks of size rows; the last one has the rest. A block without rows becomes none.
func (b *block) split(size int) []*block {
	var out []*block
	for from := 0; from < len(b.rows); from += size {
		to := min(from+size, len(b.rows))
		part := &block{rows: make([]row, 0, to-from), text: make([]byte, 0, int(b.rows[to-1].textEnd)-b.textFrom(from))}
		for i := from; i < to; i++ {
			part.copyRow(b, i)
		}
		out = append(out, part)
	}
	return out
}

// find returns the position of a session in the blocks: the index at of its block, and the index i of its row in it.
func (t *table) find(k key) (at, i int, found bool) {
	at, _ = slices.BinarySearchFunc(t.blocks, k, func(b *block, k key) int {
		return compareRow(&t.names, b, len(b.rows)-1, k)
	})
	if at == len(t.blocks) {
		return 0, 0, false
	}
	b := t.blocks[at]
	i, found = searchRows(&t.names, b, k)
	return at, i, found
}

// searchRows returns the index of the first row that is not before a key, and whether that row has the key.
func searchRows(n *names, b *block, k key) (i int, found bool) {
	return sort.Find(len(b.rows), func(i int) int { return -compareRow(n, b, i, k) })
}

// list applies the changes that wait and returns the table's rows as a list, which does not change. quiet is
// Options.Quiet.
func (t *table) list(quiet time.Duration) *list {
	t.applyChanges()
	if t.current == nil {
		t.current = &list{names: t.names, blocks: t.blocks, rows: t.rows, quiet: quiet}
	}
	return t.current
}
