package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/rayid"
)

// nodeFigures is what is read of one node in the answer to summaryURL.
type nodeFigures struct {
	Now    float64              `json:"now"` // Unix seconds
	CPU    float64              `json:"cpu"`
	Mem    []float64            `json:"mem"` // total, available, percent, used
	Disk   map[string]diskUsage `json:"disk"`
	DiskIO []float64            `json:"diskIoSpeed"`
	Net    []float64            `json:"networkSpeed"`
	GPUs   []struct {
		Util  float64 `json:"utilizationGpu"`
		Used  float64 `json:"memoryUsed"`
		Total float64 `json:"memoryTotal"`
	} `json:"gpus"`
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

// summaryNode is one node of the answer to summaryURL.
type summaryNode struct {
	id     rayid.Node
	alive  bool
	sample layout.Sample
}

// readSummary reads the nodes one by one. Nodes without an ID are left out.
func readSummary(r io.Reader) ([]summaryNode, error) {
	in := json.NewDecoder(r)
	if err := enter(in, "data", "summary"); err != nil {
		return nil, fmt.Errorf("read the dashboard's nodes: %w", err)
	}
	var nodes []summaryNode
	for in.More() {
		var f nodeFigures
		if err := in.Decode(&f); err != nil {
			var kind *json.UnmarshalTypeError
			if !errors.As(err, &kind) {
				return nil, fmt.Errorf("read the dashboard's nodes: %w", err)
			}
			// A field of a type that is not expected: what was read of the node serves.
		}
		id, err := rayid.Parse[rayid.Node](f.Raylet.NodeID)
		if err != nil {
			continue
		}
		nodes = append(nodes, summaryNode{id: id, alive: f.Raylet.State == "ALIVE", sample: f.sample(id)})
	}
	return nodes, nil
}

// enter reads up to the first element of the array that is found by going through objects by keys.
func enter(in *json.Decoder, path ...string) error {
	for _, key := range path {
		if err := expect(in, '{'); err != nil {
			return err
		}
		for {
			token, err := in.Token()
			if err != nil {
				return err
			}
			if token == key {
				break
			}
			if _, isKey := token.(string); !isKey {
				return fmt.Errorf("no %q in the answer", key)
			}
			var skipped json.RawMessage
			if err := in.Decode(&skipped); err != nil {
				return err
			}
		}
	}
	return expect(in, '[')
}

func expect(in *json.Decoder, want json.Delim) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("got %v, want %v", token, want)
	}
	return nil
}

func (f nodeFigures) sample(id rayid.Node) layout.Sample {
	s := layout.Sample{Time: int64(f.Now * 1000), Node: id.String(), CPU: f.CPU, Workers: f.Raylet.Workers}
	if len(f.Mem) >= 4 {
		s.Mem = [2]int64{int64(f.Mem[3]), int64(f.Mem[0])}
	}
	disk, ok := f.Disk["/tmp/ray"]
	if !ok {
		disk = f.Disk["/"]
	}
	s.Disk = [2]int64{int64(disk.Used), int64(disk.Total)}
	s.Store = [2]int64{int64(f.Raylet.Used), int64(f.Raylet.Used + f.Raylet.Available)}
	if len(f.DiskIO) >= 2 {
		s.DiskIO = [2]int64{int64(f.DiskIO[0]), int64(f.DiskIO[1])}
	}
	if len(f.Net) >= 2 {
		// Ray tells sent, then received.
		s.Net = [2]int64{int64(f.Net[1]), int64(f.Net[0])}
	}
	for _, g := range f.GPUs {
		s.GPUs = append(s.GPUs, layout.GPUSample{Util: g.Util, Used: int64(g.Used), Total: int64(g.Total)})
	}
	return s
}

// lines spells samples as JSON Lines.
func lines(samples []layout.Sample) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, s := range samples {
		if err := encoder.Encode(s); err != nil {
			return nil, fmt.Errorf("encode hardware figures: %w", err)
		}
	}
	return out.Bytes(), nil
}

// readJobs lists the job IDs in the answer to jobsURL, and whether each has ended. Submissions that have not started have none.
func readJobs(r io.Reader) (map[string]bool, error) {
	in := json.NewDecoder(r)
	if err := expect(in, '['); err != nil {
		return nil, fmt.Errorf("read the dashboard's jobs: %w", err)
	}
	ended := make(map[string]bool)
	for in.More() {
		var job struct {
			ID     string `json:"job_id"`
			Status string `json:"status"`
		}
		if err := in.Decode(&job); err != nil {
			return nil, fmt.Errorf("read the dashboard's jobs: %w", err)
		}
		if _, err := rayid.Parse[rayid.Job](job.ID); err == nil {
			ended[job.ID] = job.Status == "SUCCEEDED" || job.Status == "FAILED" || job.Status == "STOPPED"
		}
	}
	return ended, nil
}
