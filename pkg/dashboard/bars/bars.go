// Package bars draws a session's tasks and actors as bars over time, for a screen of some width: one pass over the few
// columns of tasks that say when and where attempts ran.
//
//	rows of tasks ──► a lane for each node and worker ──► bars of attempts that are wide enough to be seen, each,
//	                                                      and cells of a pixel, that say how many others there were
//
// So the size of an answer depends on the screen, not on the number of tasks.
package bars

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/rayhistory/historyserver/internal/budget"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// Limits of a drawing.
const (
	minPixels, usualPixels, maxPixels = 10, 1000, 2000

	maxNodes   = 200    // that have lanes; the others share one
	maxWorkers = 400    // that have lanes; if there are more, none has
	maxBars    = 4000   // of attempts, and as many of actors
	maxCells   = 60_000 // so that many lanes get wider pixels
	maxGroups  = 12     // of colours; all others share one
	maxLongest = 10     // attempts that are listed, too
	// Memory is what a drawing takes at most while it is made, in bytes.
	Memory = (maxNodes + maxWorkers) * maxPixels * 24
)

// Question is what is to be drawn.
type Question struct {
	// From and To are Unix nanoseconds; 0 is the session's begin or end.
	From, To int64
	Pixels   int    // width of the screen; 0: 1000
	Colour   string // one of Colours; "": the first
	Node     string // only this node and its workers, by ID in hex; "": all
}

// drawer makes a drawing.
type drawer struct {
	*Drawing
	q        Question
	from, to int64   // Unix ns
	unit     float64 // ns a pixel
	tasks    *tasktable.Table
	bars     int                    // of attempts, so far
	nodes    map[stringtable.ID]int // what nodeOf returned, by the string table's number of the node's ID
	byID     map[string]int         // places in Nodes, by ID in hex; "": the node that stands for others
	known    moment.Nodes
	onNode   []cells                  // of all attempts on each of Nodes
	lanes    map[stringtable.ID]*Lane // by the string table's number of the worker's ID; nil if folded
	groups   map[string]int           // places in Groups, by name
	ofKind   []int                    // by tasktable.Row.Kind: the place in Groups plus one; 0: not looked up yet
	total    []int                    // attempts, by place in Groups
}

// Draw draws a session's tasks and actors up to a moment, each attempt as a bar or, where bars would be too small, as a
// share of cells. An error is that of the store, of the context, or budget.ErrBusy.
func Draw(ctx context.Context, m *moment.Moment, q Question) (*Drawing, error) {
	began, ended := m.Life(ctx)
	d := &drawer{
		Drawing: &Drawing{Groups: []Group{}, Nodes: []Node{}, Lanes: []*Lane{}, Longest: []Longest{},
			Notes: []string{}},
		q: q, from: cmp.Or(q.From, began.UnixNano()), to: cmp.Or(q.To, ended.UnixNano()),
		nodes: map[stringtable.ID]int{}, byID: map[string]int{}, lanes: map[stringtable.ID]*Lane{},
		groups: map[string]int{}, tasks: m.Session.Tasks,
	}
	d.to = max(d.to, d.from+int64(time.Millisecond))
	d.Begin, d.End, d.From, d.To = milliseconds(began.UnixNano()), milliseconds(ended.UnixNano()),
		milliseconds(d.from), milliseconds(d.to)
	d.Pixels = min(max(cmp.Or(q.Pixels, usualPixels), minPixels), maxPixels)
	d.unit = float64(d.to-d.from) / float64(d.Pixels)
	if q.Colour == ByOutcome {
		for _, name := range []string{"finished", "failed", "running"} { // groupOf counts on this order
			d.group(name)
		}
	}
	release, err := m.Memory.Reserve(ctx, budget.Work, Memory)
	if err != nil {
		return nil, fmt.Errorf("draw tasks over time: %w", err)
	}
	defer release()
	if d.known, err = m.Nodes(ctx); err != nil {
		return nil, err
	}
	d.addNodes(q.Node)
	query := tasktable.Query{ExcludeDriver: true, At: m.At, Stop: func() error { return context.Cause(ctx) }}
	if err := tasktable.Each(d.tasks, query, func(n int, r tasktable.PlacedRow) {
		d.add(n, r, ended.UnixNano())
	}); err != nil {
		return nil, err
	}
	if err := d.nameBars(); err != nil {
		return nil, err
	}
	if err := d.addActors(ctx, m, ended.UnixNano()); err != nil {
		return nil, err
	}
	d.finish()
	return d.Drawing, nil
}

func milliseconds(ns int64) float64 { return float64(ns/1000) / 1000 }

// addNodes adds the nodes, the head first and then in the order of their start, each with when it was there and, if it
// was lost, why: all of them up to maxNodes, or the one whose ID only is, if that is not "".
func (d *drawer) addNodes(only string) {
	all := slices.Clone(d.known.All)
	slices.SortStableFunc(all, func(a, b *moment.Node) int {
		if a.Head != b.Head && a.Head {
			return -1
		} else if a.Head != b.Head {
			return 1
		}
		return cmp.Compare(a.Start, b.Start)
	})
	for _, n := range all {
		if only != "" && n.ID != only {
			continue
		}
		if len(d.Nodes) == maxNodes {
			d.Notes = append(d.Notes, fmt.Sprintf("%d of %d nodes are shown, the others as one.", maxNodes, len(all)))
			break
		}
		role := "worker "
		if n.Head {
			role = "head "
		}
		node := Node{ID: n.ID, Name: role + cmp.Or(n.IP, n.ID[:min(12, len(n.ID))])}
		if n.Start != 0 {
			node.Start = milliseconds(n.Start)
		}
		if n.End != 0 {
			node.End = milliseconds(n.End)
		}
		if n.Lost() {
			node.Lost = cmp.Or(n.Message, n.Reason, "it died")
		}
		d.byID[n.ID] = d.addNode(node)
	}
}

// addNode adds a node with empty cells, and returns its place in d.Nodes.
func (d *drawer) addNode(n Node) int {
	d.Nodes = append(d.Nodes, n)
	d.onNode = append(d.onNode, newCells(d.Pixels))
	return len(d.Nodes) - 1
}

// nodeOf returns the place in d.Nodes of the node with an ID, of which id is the number in the table's strings; -1 if
// it is not drawn because another one was asked for. Nodes that are not known, or too many, share one place.
func (d *drawer) nodeOf(id stringtable.ID) int {
	if n, ok := d.nodes[id]; ok {
		return n
	}
	n, ok := d.byID[hex.EncodeToString(d.tasks.String(id))]
	switch {
	case ok:
	case d.q.Node != "":
		n = -1
	default:
		if n, ok = d.byID[""]; !ok {
			name := "unknown node"
			if len(d.known.All) > maxNodes {
				name = "other nodes"
			}
			n = d.addNode(Node{Name: name})
			d.byID[""] = n
		}
	}
	d.nodes[id] = n
	return n
}

// add draws an attempt, row n of the table. One that has no end runs until sessionEnd, Unix nanoseconds. One outside of
// the time range, or of another node than the one asked for, is left out.
func (d *drawer) add(n int, r tasktable.PlacedRow, sessionEnd int64) {
	start, end, ok := r.Span()
	if !ok {
		return
	}
	failed, state := r.Failed(), ""
	switch {
	case failed:
		state = "failed"
	case end == 0:
		state = "running"
	}
	if end == 0 {
		end = max(start, sessionEnd)
	}
	if end < d.from || start > d.to {
		return
	}
	nodeID, workerID := r.Place()
	node := d.nodeOf(nodeID)
	if node < 0 {
		return
	}
	group := d.groupOf(r, state)
	d.Tasks++
	if d.Nodes[node].ID == "" && len(d.known.All) <= maxNodes { // the node is not known, not only one too many
		d.Unplaced++
	}
	d.total[group]++
	a := attempt{start: float64(start-d.from) / d.unit, end: float64(end-d.from) / d.unit, group: group, failed: failed}
	d.onNode[node].add(a)
	bar := Bar{Start: milliseconds(start), End: milliseconds(end), Group: group, State: state, row: n}
	d.addLongest(bar, r, node, workerID)
	const barPixels = 2 // a shorter bar would hardly be seen
	lane := d.lane(node, workerID, start)
	switch {
	case lane == nil: // only its node shows it
	case a.end-a.start >= barPixels && d.bars < maxBars:
		d.bars++
		lane.Bars = append(lane.Bars, bar)
	default:
		if lane.cells == nil {
			lane.cells = newCells(d.Pixels)
		}
		lane.cells.add(a)
	}
}

// addLongest puts an attempt into d.Longest, which has the longest attempts first, if it is one of the maxLongest
// longest so far.
func (d *drawer) addLongest(b Bar, r tasktable.PlacedRow, node int, worker stringtable.ID) {
	at := len(d.Longest)
	for at > 0 && d.Longest[at-1].End-d.Longest[at-1].Start < b.End-b.Start {
		at--
	}
	if at == maxLongest {
		return
	}
	b.Name = shortName(r.Function())
	// The shortest of maxLongest makes room.
	d.Longest = slices.Insert(d.Longest[:min(len(d.Longest), maxLongest-1)], at,
		Longest{Bar: b, Node: node, Worker: hex.EncodeToString(d.tasks.String(worker))})
}

// nameBars gives the bars of attempts their IDs, which are not read for all attempts.
func (d *drawer) nameBars() error {
	var named []*Bar
	for i := range d.Longest {
		named = append(named, &d.Longest[i].Bar)
	}
	for _, lane := range d.lanes {
		for i := range lane.Bars {
			named = append(named, &lane.Bars[i])
		}
	}
	slices.SortFunc(named, func(a, b *Bar) int { return cmp.Compare(a.row, b.row) })
	rows := make([]int, len(named))
	for i, b := range named {
		rows[i] = b.row
	}
	rows = slices.Compact(rows)
	ids, err := d.tasks.IDs(rows)
	if err != nil {
		return err
	}
	for _, b := range named {
		n, _ := slices.BinarySearch(rows, b.row)
		b.ID = ids[n].String()
	}
	return nil
}

// lane returns the lane of a worker, in which an attempt began at start; nil if the worker is not known, or if there
// are more than maxWorkers: then all lanes are dropped, and only nodes are drawn.
func (d *drawer) lane(node int, worker stringtable.ID, start int64) *Lane {
	if d.Folded || worker == 0 {
		return nil
	}
	lane := d.lanes[worker]
	if lane == nil {
		if len(d.lanes) == maxWorkers {
			d.Folded, d.lanes = true, nil
			d.Notes = append(d.Notes, fmt.Sprintf(
				"More than %d workers ran tasks: nodes are shown. Choose one to see its workers.", maxWorkers))
			return nil
		}
		lane = &Lane{Node: node, Worker: hex.EncodeToString(d.tasks.String(worker)), first: start, Bars: []Bar{},
			Cells: []Cell{}, Actors: []Bar{}}
		d.lanes[worker] = lane
	}
	lane.first = min(lane.first, start)
	return lane
}

// addActors adds to each lane a bar for the actor that lived in its worker, if it did so within the time range. One
// without an end lives until sessionEnd, Unix nanoseconds. There are no lanes, and no bars, if the drawing is folded.
func (d *drawer) addActors(ctx context.Context, m *moment.Moment, sessionEnd int64) error {
	if d.Folded {
		return nil
	}
	actors, err := m.Actors(ctx)
	if err != nil {
		return err
	}
	byWorker := map[string]*Lane{}
	for _, lane := range d.lanes {
		byWorker[lane.Worker] = lane
	}
	drawn := 0
	for i := range actors {
		a := &actors[i]
		for _, p := range a.Processes() {
			start := cmp.Or(p.Begun, a.Started)
			end := max(start, cmp.Or(p.Left, a.Ended, sessionEnd))
			lane := byWorker[p.Worker.String()]
			if lane == nil || start == 0 || end < d.from || start > d.to || drawn == maxBars {
				continue
			}
			drawn++
			lane.Actors = append(lane.Actors, Bar{Start: milliseconds(start), End: milliseconds(end), ID: a.ID,
				Name: a.Name()})
		}
	}
	return nil
}

// finish completes the drawing: lanes in the order of their nodes and of when their workers began, groups numbered by
// their rank, and cells, which are made wider if there are too many.
func (d *drawer) finish() {
	for _, lane := range d.lanes {
		d.Lanes = append(d.Lanes, lane)
	}
	slices.SortFunc(d.Lanes, func(a, b *Lane) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.first, b.first), cmp.Compare(a.Worker, b.Worker))
	})
	numbers := d.rankGroups()
	width := max(1, (d.Pixels*(len(d.Lanes)+len(d.Nodes))+maxCells-1)/maxCells) // of a cell, so that there are maxCells
	for i := range d.Longest {
		d.Longest[i].Group = numbers[d.Longest[i].Group]
	}
	for i := range d.Nodes {
		d.Nodes[i].Cells = d.onNode[i].list(numbers, width)
	}
	for _, lane := range d.Lanes {
		for i := range lane.Bars {
			lane.Bars[i].Group = numbers[lane.Bars[i].Group]
		}
		if lane.cells != nil {
			lane.Cells = lane.cells.list(numbers, width)
		}
	}
}
