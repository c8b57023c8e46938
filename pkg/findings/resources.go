package findings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
	"github.com/rayhistory/historyserver/pkg/findings/output"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// demandOf returns the resources that an attempt asked for; nil if they cannot be read.
func demandOf(row tasktable.Row) (resources map[string]float64) {
	if err := json.Unmarshal(row.Resources(), &resources); err != nil {
		return nil
	}
	return resources
}

// selectorOf returns the label selector of an attempt; nil if it has none, or if its fallback strategy allows other
// labels.
func selectorOf(row tasktable.Row) (labels map[string]string) {
	if len(row.Fallback()) > 0 || json.Unmarshal(row.Labels(), &labels) != nil {
		return nil
	}
	return labels
}

// listed joins what a text says of each element of a map, by their names.
func listed[V any](byName map[string]V, text func(name string, v V) string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		parts = append(parts, text(name, byName[name]))
	}
	return strings.Join(parts, ", ")
}

// labelText returns a label selector as a part of a title; "" if it selects all nodes.
func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	return " on a node with the labels " + listed(labels, func(name, value string) string { return name + "=" + value })
}

// selects reports whether a node has the labels that a selector asks for. A selector's values are "x", "!x", "in(x,y)"
// and "!in(x,y)" (src/ray/common/scheduling/label_selector.cc of Ray). It is true if the node's labels are not known:
// Ray gives each node some.
func selects(labels map[string]string, n *entities.Node) bool {
	for name, want := range labels {
		want, not := strings.CutPrefix(want, "!")
		values := []string{want}
		if list, is := strings.CutPrefix(want, "in("); is {
			values = strings.Split(strings.TrimSuffix(list, ")"), ",")
		}
		has, known := n.Labels[name]
		in := known && slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == has })
		if in == not && len(n.Labels) > 0 {
			return false
		}
	}
	return true
}

// has reports whether a node's resources are at least what is asked for.
func has(total, resources map[string]float64) bool {
	for r, amount := range resources {
		if total[r] < amount {
			return false
		}
	}
	return true
}

// resourceText returns resources as people write them, such as "1 CPU, 2 GPU".
func resourceText(resources map[string]float64) string {
	return cmp.Or(listed(resources, func(r string, n float64) string { return amountText(r, n) + " " + r }),
		"no resources")
}

// amountText returns an amount of a resource. Ray counts memory in bytes.
func amountText(resource string, amount float64) string {
	if resource == "memory" || resource == "object_store_memory" {
		return human.Bytes(int64(min(amount, 1<<60)))
	}
	return fmt.Sprintf("%g", amount)
}

// amount matches one resource of a demand as Python prints it, such as {'CPU': 1.0, 'GPU': 8.0}.
var amount = lazyregexp.New(`'([^']{1,200})': ([0-9.]{1,20})`)

// resourcesIn reads resources as Python prints them.
func resourcesIn(message string) map[string]float64 {
	demand := map[string]float64{}
	for _, m := range amount().FindAllStringSubmatch(output.Clip(message, output.MaxText), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			demand[m[1]] = n
		}
	}
	return demand
}
