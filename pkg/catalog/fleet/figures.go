package fleet

import "slices"

// Figure is one of the figures of Hours: tables have a column of it, and can be ranked by it.
type Figure struct {
	By    string // its name in Query.By
	Title string // such as "CPU hours"
	Head  string // of its column, such as "CPU h"; "": the currency
	csv   string // its column in CSV
	// Of returns the figure and, unless it is about nodes or money, what of the resource was in use, or else nil.
	Of func(*Hours) (float64, *Resource)
}

// ByCost ranks by what was paid.
const ByCost = "cost"

// figures are all, in the order of the columns; the cost is the last one.
var figures = [...]Figure{
	{"node", "Node hours", "Node h", "node_hours", func(h *Hours) (float64, *Resource) { return h.Node, nil }},
	{"cpu", "CPU hours", "CPU h", "cpu_hours", func(h *Hours) (float64, *Resource) { return h.CPU.Offered, &h.CPU }},
	{"gpu", "GPU hours", "GPU h", "gpu_hours", func(h *Hours) (float64, *Resource) { return h.GPU.Offered, &h.GPU }},
	{"memory", "GiB hours of memory", "GiB h", "memory_gib_hours",
		func(h *Hours) (float64, *Resource) { return h.Memory.Offered, &h.Memory }},
	{ByCost, "Cost", "", "cost", func(h *Hours) (float64, *Resource) { return h.Cost, nil }},
}

// Resources are the names by which tables can be ranked; ByCost only with prices.
var Resources = func() (names []string) {
	for _, f := range figures {
		names = append(names, f.By)
	}
	return names
}()

// Figures are those that a report has: the cost only with prices.
func Figures(priced bool) []Figure {
	if priced {
		return slices.Clone(figures[:])
	}
	return slices.Clone(figures[:len(figures)-1])
}

// Of returns the figure with one of the names Resources.
func (h *Hours) Of(by string) (amount float64) {
	for _, f := range figures {
		if f.By == by {
			amount, _ = f.Of(h)
		}
	}
	return amount
}
