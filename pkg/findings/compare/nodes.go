package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// Nodes counts nodes.
type Nodes struct {
	Count int `json:"count"`
	Lost  int `json:"lost"` // died, and nobody wanted it
}

// nodeType is what nodes of the same type have in common.
type nodeType struct {
	name     string // head, or the worker group's name, and the machine's type
	cpu, gpu float64
}

// counted are the nodes of a type, and the largest memory of one of them, in bytes: Ray measures at its start how much is free.
type counted struct {
	Nodes
	memory float64
}

// lifetime is the part of a node's life in the measured time.
type lifetime struct {
	ip    string
	hours float64
}

// readNodes counts the nodes that existed between two times, and what they had and used.
func (s *Side) readNodes(ctx context.Context, r *moment.Moment, e catalog.Entry, began, ended time.Time, metrics Metrics) error {
	nodes, err := r.Nodes(ctx)
	if err != nil {
		return err
	}
	s.nodes = map[nodeType]*counted{}
	var lives []lifetime
	for _, n := range nodes.All {
		start, end := began, ended
		if at := time.Unix(0, n.Start); at.After(began) {
			start = at
		}
		died := time.Unix(0, n.End)
		if n.State == moment.Dead && n.End != 0 && died.Before(ended) {
			end = died
		}
		if end.Before(start) {
			continue // it did not exist between the times
		}
		kind, memory := typeOf(n), sane(n.Amount("memory"))
		of := s.nodes[kind]
		if of == nil {
			of = &counted{}
			s.nodes[kind] = of
		}
		of.memory = max(of.memory, memory)
		of.Count++
		s.Nodes.Count++
		if n.Lost() && !died.After(ended) {
			of.Lost++
			s.Nodes.Lost++
		}
		hours := end.Sub(start).Hours()
		lives = append(lives, lifetime{n.IP, hours})
		s.Asked.add(Hours{kind.cpu, kind.gpu, memory / (1 << 30)}, hours)
	}
	s.Asked.round()
	return s.readUse(ctx, r, e, ended, ended.Sub(began), lives, metrics)
}

func (h *Hours) add(of Hours, hours float64) {
	h.CPU += of.CPU * hours
	h.GPU += of.GPU * hours
	h.Memory += of.Memory * hours
}

func (h *Hours) round() { h.CPU, h.GPU, h.Memory = round(h.CPU), round(h.GPU), round(h.Memory) }

// typeOf returns a node's type.
func typeOf(n *moment.Node) nodeType {
	t := nodeType{name: cmp.Or(n.Group, "worker"), cpu: sane(n.Amount("CPU")), gpu: sane(n.Amount("GPU"))}
	if n.Head {
		t.name = "head"
	}
	if n.Machine != "" {
		t.name += " (" + n.Machine + ")"
	}
	t.name = clipped(t.name)
	return t
}

// sane returns an amount of a resource, 0 for one that JSON cannot represent.
func sane(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 1e18 {
		return 0
	}
	return v
}

// uses are what nodes used on average, by their addresses (label ip), from Ray's own metrics.
var uses = []struct {
	expression string // %d is the time to look back, in seconds
	add        func(h *Hours, v float64)
}{
	{
		"sum by (ip) (avg_over_time(ray_node_cpu_utilization[%[1]ds]) / 100 * avg_over_time(ray_node_cpu_count[%[1]ds]))",
		func(h *Hours, v float64) { h.CPU += v },
	},
	{"sum by (ip) (avg_over_time(ray_node_gpus_utilization[%[1]ds])) / 100", func(h *Hours, v float64) { h.GPU += v }},
	{"sum by (ip) (avg_over_time(ray_node_mem_used[%[1]ds]))", func(h *Hours, v float64) { h.Memory += v / (1 << 30) }},
}

// readUse reads from the stored metrics what nodes used: for each its average while it was measured, times its life.
func (s *Side) readUse(ctx context.Context, r *moment.Moment, e catalog.Entry, end time.Time, length time.Duration, lives []lifetime, metrics Metrics) error {
	if metrics == nil || length < time.Second {
		return nil
	}
	byIP := map[string]float64{}
	for _, l := range lives {
		byIP[l.ip] += l.hours
	}
	used, measured := Hours{}, false
	for _, u := range uses {
		expression := fmt.Sprintf(u.expression, int64(math.Ceil(length.Seconds())))
		err := metrics.Values(ctx, e.Ref, s.Running, end, expression, func(label func(string) string, value float64) {
			if hours, ok := byIP[label("ip")]; ok && !math.IsNaN(value) && !math.IsInf(value, 0) {
				measured = true
				u.add(&used, value*hours)
			}
		})
		if errors.Is(err, context.Canceled) || context.Cause(ctx) != nil {
			return err
		}
		if err != nil {
			r.Log.WithError(err).WithField("session", e.Ref.String()).Warn("cannot compute the resources that a session's nodes used")
			s.Notes = append(s.Notes, "What its nodes used could not be read from the stored metrics; the history server's log says why.")
			return nil
		}
	}
	if measured {
		used.round()
		s.Used = &used
	}
	return nil
}
