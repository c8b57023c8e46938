package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/internal/shared"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/chunks"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// machine is what the dashboard's list of nodes says of a node that its hardware figures do not. What is not known is
// zero.
type machine struct {
	ip     string
	port   int // of its metrics
	head   bool
	cpus   float64
	memory memoryOf
	gpus   []string // their names
}

// memoryOf says which memory a node's figures are of.
type memoryOf uint8

const (
	ofHost memoryOf = iota + 1
	ofCgroup
)

// nodesURL is the dashboard's list of nodes.
const nodesURL = "/nodes?view=summary"

const (
	// maxSnapshots bounds how many of the stored lists of nodes are read: dead nodes stay in the later ones, with less
	// about them.
	maxSnapshots = 8
	// maxNodeRow bounds what is read of one node, in bytes.
	maxNodeRow = 8 << 20
	// maxMachines bounds the texts that are kept of all nodes, in bytes.
	maxMachines = 16 << 20
)

// machines reads the stored lists of nodes once. Safe for concurrent use.
type machines struct {
	snapshots []string // keys
	known     shared.Value[map[rayid.Node]machine]
}

// listNodes returns the keys of the stored lists of nodes that are to be read, at most maxSnapshots: the last one
// first, and then others from all of the session's time, at equal distances in their number.
func listNodes(ctx context.Context, store blob.Lister, root string, ref layout.Session) (keys []string, err error) {
	var found []layout.Object
	keyAt := make(map[int64]string) // by when the list was taken
	for object, err := range store.List(ctx, layout.SnapshotKey(root, ref, nodesURL), blob.ListOptions{}) {
		if err != nil {
			return nil, fmt.Errorf("list nodes of session %s: %w", ref, err)
		}
		if o, err := layout.ParseObject(root, ref, object.Key); err == nil && o.Kind == layout.Snapshot &&
			o.Path == nodesURL {
			found = append(found, o)
			keyAt[o.Offset] = object.Key
		}
	}
	slices.SortFunc(found, func(a, b layout.Object) int { return cmp.Compare(b.Offset, a.Offset) })
	wanted := min(len(found), maxSnapshots)
	for i := range wanted {
		keys = append(keys, keyAt[found[i*len(found)/wanted].Offset])
	}
	return keys, nil
}

// read returns what is known of the nodes' machines, which is read once for all that ask. What is damaged is left out,
// and reported to one of those that ask, by damaged.
func (m *machines) read(ctx context.Context, store chunks.Store,
	damaged func(key string, err error)) (map[rayid.Node]machine, error) {
	var found []func() // they report what is damaged; only the caller that reads gets any
	known, err := m.known.Get(ctx, func(ctx context.Context) (map[rayid.Node]machine, error) {
		known, texts := make(map[rayid.Node]machine), newAllowance(maxMachines)
		for _, key := range m.snapshots {
			err := readNodes(ctx, store, key, known, texts)
			if damage := (*damagedNodes)(nil); errors.As(err, &damage) {
				found = append(found, func() { damaged(key, err) })
			} else if err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		return known, nil
	})
	if err != nil {
		return nil, err
	}
	for _, report := range found {
		report()
	}
	return known, nil
}

// nodeRow is what is read of one node.
type nodeRow struct {
	CPUs      []float64 `json:"cpus"`
	HostMem   []float64 `json:"hostMem"` // Ray 2.60 and later
	CgroupMem []float64 `json:"cgroupMem"`
	GPUs      []struct {
		Name string `json:"name"`
	} `json:"gpus"`
	Raylet struct {
		NodeID            string `json:"nodeId"`
		Address           string `json:"nodeManagerAddress"`
		MetricsExportPort int    `json:"metricsExportPort"`
		IsHeadNode        bool   `json:"isHeadNode"`
	} `json:"raylet"`
}

// UnmarshalJSON implements json.Unmarshaler. A field that has another type counts as missing.
func (n *nodeRow) UnmarshalJSON(text []byte) error {
	type fields nodeRow
	return jsonstream.Lenient(text, (*fields)(n))
}

type damagedNodes struct{ error }

func (d *damagedNodes) Unwrap() error { return d.error }

// readNodes adds to known what a stored list of nodes says that later lists did not. The texts take memory from texts.
// A list that cannot be read to its end is a damagedNodes; what was read of it stays.
func readNodes(ctx context.Context, store chunks.Store, key string, known map[rayid.Node]machine,
	texts *allowance) error {
	object, err := store.Get(ctx, key, 0, blob.ToEnd)
	if err != nil {
		return fmt.Errorf("read the stored list of nodes: %w", err)
	}
	defer func() { _ = object.Close() }()
	in := jsonstream.New(jsonstream.FromPython(object), maxNodeRow)
	err = errors.Join(in.Enter("data"), in.Enter("summary"))
	if err == nil {
		err = jsonstream.Each(in, math.MaxInt, func(row nodeRow) error { return addNode(row, known, texts) })
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case in.Failed() != nil:
		return fmt.Errorf("read the stored list of nodes: %w", in.Failed())
	case err != nil:
		return &damagedNodes{fmt.Errorf("stored list of nodes: %w", err)}
	}
	return nil
}

// addNode adds what a row says of its node to what is known. The error says that there are too many nodes, or too much
// text about them.
func addNode(row nodeRow, known map[rayid.Node]machine, texts *allowance) error {
	node, err := rayid.Parse[rayid.Node](row.Raylet.NodeID)
	if err != nil {
		return nil // it has no figures
	}
	m, isKnown := known[node]
	if !isKnown && len(known) == maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	more := m.mergedWith(row)
	if texts.take(more.textBytes()-m.textBytes()) != nil {
		return fmt.Errorf("more than %d bytes about nodes", maxMachines)
	}
	known[node] = more
	return nil
}

// textBytes returns what its texts take.
func (m machine) textBytes() int64 {
	n := len(m.ip)
	for _, gpu := range m.gpus {
		n += len(gpu) + gpuBytes
	}
	return int64(n)
}

// gpuBytes is what the name of a GPU takes besides its letters.
const gpuBytes = 16

// mergedWith returns the machine with what a row of a list of nodes says of it that is not known yet.
func (m machine) mergedWith(row nodeRow) machine {
	if m.ip == "" {
		m.ip, m.port, m.head = row.Raylet.Address, row.Raylet.MetricsExportPort, row.Raylet.IsHeadNode
	}
	if m.cpus == 0 && len(row.CPUs) > 0 {
		m.cpus = row.CPUs[0]
	}
	if m.memory == 0 && len(row.HostMem) > 0 {
		m.memory = ofHost
		if len(row.CgroupMem) > 0 {
			m.memory = ofCgroup
		}
	}
	if m.gpus == nil {
		for _, gpu := range row.GPUs {
			m.gpus = append(m.gpus, gpu.Name)
		}
	}
	return m
}
