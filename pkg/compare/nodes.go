package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/dashboard/nodes/summary"
	"github.com/rayhistory/historyserver/pkg/dashboard/request"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/moment"
	"github.com/rayhistory/historyserver/pkg/pyjson"
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

// groupLabel is the label in which KubeRay and Ray's autoscaler put the name of a node's group.
const groupLabel = "ray.io/node-group"

// lifetime is the part of a node's life in the measured time.
type lifetime struct {
	ip    string
	hours float64
}

// readNodes counts the nodes that existed between two times, and what they had and used.
func (s *Side) readNodes(r *request.Request, e catalog.Entry, began, ended time.Time, metrics Metrics) error {
	all, err := summary.Read(r)
	if err != nil {
		return err
	}
	s.nodes = map[nodeType]*counted{}
	var lives []lifetime
	for _, id := range all.Order {
		raylet := all.Node(id).Object("raylet")
		start, end := began, ended
		if ms := raylet.Int("startTimeMs"); ms > began.UnixMilli() {
			start = time.UnixMilli(ms)
		}
		dead := raylet.String("state") == moment.Dead
		died := raylet.Int("endTimeMs")
		if dead && died != 0 && died < ended.UnixMilli() {
			end = time.UnixMilli(died)
		}
		if end.Before(start) {
			continue // it did not exist between the times
		}
		kind, memory := typeOf(r, id, raylet)
		of := s.nodes[kind]
		if of == nil {
			of = &counted{}
			s.nodes[kind] = of
		}
		of.memory = max(of.memory, memory)
		of.Count++
		s.Nodes.Count++
		if findings.Lost(raylet) && died <= ended.UnixMilli() {
			of.Lost++
			s.Nodes.Lost++
		}
		hours := end.Sub(start).Hours()
		lives = append(lives, lifetime{all.IP(id), hours})
		s.Asked.add(Hours{kind.cpu, kind.gpu, memory / (1 << 30)}, hours)
	}
	s.Asked.round()
	return s.readUse(r, e, ended, ended.Sub(began), lives, metrics)
}

func (h *Hours) add(of Hours, hours float64) {
	h.CPU += of.CPU * hours
	h.GPU += of.GPU * hours
	h.Memory += of.Memory * hours
}

func (h *Hours) round() { h.CPU, h.GPU, h.Memory = round(h.CPU), round(h.GPU), round(h.Memory) }

// typeOf returns a node's type and its memory in bytes, from its events, otherwise from its summary.
func typeOf(r *request.Request, id string, raylet *pyjson.Object) (t nodeType, memory float64) {
	t = nodeType{name: raylet.String("nodeTypeName")}
	machine, head := raylet.String("instanceTypeName"), raylet.Bool("isHeadNode")
	amount := func(name string) float64 { return summary.Number(raylet.Object("resourcesTotal").Get(name)) }
	if n := summary.Find(r.Session, id); n != nil {
		t.name, machine = cmp.Or(n.Labels[groupLabel], t.name), cmp.Or(n.InstanceType, machine)
		if state, _ := moment.NodeAt(n, r.At); len(state.Resources) > 0 {
			head = head || summary.IsHead(state.Resources)
			amount = func(name string) float64 { return state.Resources[name] }
		}
	}
	t.name = cmp.Or(t.name, "worker")
	if head {
		t.name = "head"
	}
	if machine != "" {
		t.name += " (" + machine + ")"
	}
	t.name = clipped(t.name)
	t.cpu, t.gpu = sane(amount("CPU")), sane(amount("GPU"))
	return t, sane(amount("memory"))
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
func (s *Side) readUse(r *request.Request, e catalog.Entry, end time.Time, length time.Duration, lives []lifetime, metrics Metrics) error {
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
		err := metrics.Values(r.Context(), e.Ref, s.Running, end, expression, func(label func(string) string, value float64) {
			if hours, ok := byIP[label("ip")]; ok && !math.IsNaN(value) && !math.IsInf(value, 0) {
				measured = true
				u.add(&used, value*hours)
			}
		})
		if errors.Is(err, context.Canceled) || r.Stop() != nil {
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
