package tasktable

import (
	"cmp"
	"math"
	"slices"

	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// groupByName replaces siblings of one name by a group of them, here and at every level below. A sibling whose name no
// other has stays. earliest is the earliest time of the siblings and of what is below them, 0 if none is known; nodes
// get the earliest time of what is below them too.
func (b *lineageBuilder) groupByName(siblings []int32) (merged []int32, earliest int64) {
	for _, i := range siblings {
		if len(b.nodes[i].children) == 0 {
			continue
		}
		var inner int64
		b.nodes[i].children, inner = b.groupByName(b.nodes[i].children)
		if inner != 0 && inner < unknownLast(b.nodes[i].time) {
			b.nodes[i].time = inner
		}
	}
	first := int32(len(b.nodes)) // of these siblings' groups
	for _, i := range siblings {
		name, time := b.nodes[i].name, b.nodes[i].time
		g := b.groups[name]
		if g < first { // none, or one of other siblings
			g = int32(len(b.nodes))
			b.groups[name] = g
			b.nodes = append(b.nodes, lineageNode{kind: groupNode, name: name})
		}
		group := &b.nodes[g]
		group.children = append(group.children, i)
		if time != 0 && time < unknownLast(group.time) {
			group.time = time
			if time < unknownLast(earliest) {
				earliest = time
			}
		}
	}
	for g := first; g < int32(len(b.nodes)); g++ {
		if children := b.nodes[g].children; len(children) == 1 {
			merged = append(merged, children[0])
		} else {
			merged = append(merged, g)
		}
	}
	return merged, earliest
}

// unknownLast puts an unknown time after all others.
func unknownLast(t int64) int64 {
	if t == 0 {
		return math.MaxInt64
	}
	return t
}

// addCount adds n attempts in a state; there are few different states.
func addCount(states []numberCount, state taskstate.State, n int) []numberCount {
	for i := range states {
		if states[i].state == state {
			states[i].rows += n
			return states
		}
	}
	return append(states, numberCount{state, n})
}

// addCountsBelow adds the counts of everything below a node to its own, and sorts its children.
func (b *lineageBuilder) addCountsBelow(i int32) {
	n := &b.nodes[i]
	for _, child := range n.children {
		b.addCountsBelow(child)
		for _, c := range b.nodes[child].states {
			n.states = addCount(n.states, c.state, c.rows)
		}
	}
	b.sortSiblings(n.children)
}

// lineageRank is what siblings are sorted by.
type lineageRank struct {
	running, pending, failed int
	time                     int64
	creates                  int // 1: it creates an actor
	place                    int // before sorting
	node                     int32
}

// sortSiblings sorts siblings in place by the number of running, then of pending, then of failed attempts, the most
// first, then by time. Of those with the same time an actor's creation comes first.
func (b *lineageBuilder) sortSiblings(siblings []int32) {
	if len(siblings) < 2 {
		return
	}
	ranks := make([]lineageRank, len(siblings))
	for place, i := range siblings {
		n := &b.nodes[i]
		rank := lineageRank{time: unknownLast(n.time), place: place, node: i}
		if n.kind == creatingTask {
			rank.creates = 1
		}
		for _, c := range n.states {
			switch {
			case c.state.IsRunning():
				rank.running += c.rows
			case c.state.IsPending():
				rank.pending += c.rows
			case c.state == taskstate.Failed:
				rank.failed += c.rows
			}
		}
		ranks[place] = rank
	}
	slices.SortFunc(ranks, compareRanks)
	for place, rank := range ranks {
		siblings[place] = rank.node
	}
}

// compareRanks puts the siblings first of which most run, then wait, then failed, as Ray's dashboard does.
func compareRanks(x, y lineageRank) int {
	return cmp.Or(y.running-x.running, y.pending-x.pending, y.failed-x.failed, cmp.Compare(x.time, y.time),
		y.creates-x.creates, x.place-y.place)
}
