package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rayhistory/historyserver/internal/jsonstream"
	"github.com/rayhistory/historyserver/pkg/collector/internal/answer"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// nodeFigures are the fields that are read of one node in the answer to summaryURL. No list or object takes more memory
// than its bytes in JSON: {} has 3 of them.
type nodeFigures struct {
	Now  float64    `json:"now"` // Unix seconds
	CPU  float64    `json:"cpu"`
	Mem  [4]float64 `json:"mem"` // total, available, percent, used
	Disk struct {
		Ray  *diskUsage `json:"/tmp/ray"` // nil: it is no mount of its own
		Root diskUsage  `json:"/"`
	} `json:"disk"`
	DiskIO [2]float64 `json:"diskIoSpeed"`
	Net    [2]float64 `json:"networkSpeed"` // sent, received
	GPUs   gpuList    `json:"gpus"`
	Raylet struct {
		NodeID    string  `json:"nodeId"`
		State     string  `json:"state"`
		Workers   int     `json:"numWorkers"`
		Used      float64 `json:"objectStoreUsedMemory"`
		Available float64 `json:"objectStoreAvailableMemory"`
	} `json:"raylet"`
}

type diskUsage struct {
	Total float64 `json:"total"`
	Used  float64 `json:"used"`
}

// maxGPUs bounds the GPUs of one node: more are left out.
const maxGPUs = 256

type gpuList []layout.GPUSample

// UnmarshalJSON implements json.Unmarshaler. What is no list has no GPUs.
func (l *gpuList) UnmarshalJSON(data []byte) error {
	type gpu struct {
		Util  float64 `json:"utilizationGpu"`
		Used  float64 `json:"memoryUsed"`
		Total float64 `json:"memoryTotal"`
	}
	list := jsonstream.New(bytes.NewReader(data), answer.MaxRow)
	_ = jsonstream.Each(list, maxGPUs, func(text json.RawMessage) error {
		var g gpu
		err := jsonstream.Lenient(text, &g)
		*l = append(*l, layout.GPUSample{Util: g.Util, Used: int64(g.Used), Total: int64(g.Total)})
		return err
	})
	return nil
}

// summaryNode is one node of the answer to summaryURL.
type summaryNode struct {
	id     rayid.Node
	alive  bool
	sample layout.Sample
}

// UnmarshalJSON implements json.Unmarshaler. If a field has an unexpected type, the others are used.
func (f *nodeFigures) UnmarshalJSON(data []byte) error {
	type plain nodeFigures
	return jsonstream.Lenient(data, (*plain)(f))
}

// readSummary reads the dashboard's list of nodes, one by one. Nodes without a valid ID are left out.
func readSummary(r io.Reader) (nodes []summaryNode, err error) {
	err = answer.Each(r, []string{"data", "summary"}, "nodes", answer.MaxNodes, func(f nodeFigures) error {
		if id, err := rayid.Parse[rayid.Node](f.Raylet.NodeID); err == nil {
			nodes = append(nodes, summaryNode{id: id, alive: f.Raylet.State == "ALIVE", sample: f.toSample(id)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the dashboard's nodes: %w", err)
	}
	return nodes, nil
}

// toSample returns a node's hardware figures as a row of its series. Figures that Ray does not answer are 0. Pairs are
// used and total, or read and written, or received and sent.
func (f nodeFigures) toSample(id rayid.Node) layout.Sample {
	disk := f.Disk.Root
	if f.Disk.Ray != nil {
		disk = *f.Disk.Ray
	}
	return layout.Sample{
		Time: int64(f.Now * 1000), Node: id.String(), CPU: f.CPU, Workers: f.Raylet.Workers, GPUs: f.GPUs,
		Mem:    [2]int64{int64(f.Mem[3]), int64(f.Mem[0])},
		Disk:   [2]int64{int64(disk.Used), int64(disk.Total)},
		Store:  [2]int64{int64(f.Raylet.Used), int64(f.Raylet.Used + f.Raylet.Available)},
		DiskIO: [2]int64{int64(f.DiskIO[0]), int64(f.DiskIO[1])},
		Net:    [2]int64{int64(f.Net[1]), int64(f.Net[0])},
	}
}

func encodeLines(samples []layout.Sample) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, s := range samples {
		if err := encoder.Encode(s); err != nil {
			return nil, fmt.Errorf("encode hardware figures: %w", err)
		}
	}
	return out.Bytes(), nil
}

// spoolFigures spools the hardware figures of the living nodes. An error is logged and counted: the next round has
// newer ones.
func (t *Taker) spoolFigures(ctx context.Context, s *sessionState, nodes []summaryNode) {
	var samples []layout.Sample
	for _, n := range nodes {
		if n.alive && n.sample.Time > 0 {
			samples = append(samples, n.sample)
		}
	}
	if len(samples) == 0 {
		return
	}
	data, err := encodeLines(samples)
	if err == nil {
		err = t.opts.Series(ctx, s.Session, time.Now().UTC().Truncate(time.Hour), data)
	}
	if err != nil && ctx.Err() == nil {
		t.metrics.errors.Inc()
		t.unstored.Warn(time.Now(), "could not keep the nodes' hardware figures of this moment", err)
	}
}
