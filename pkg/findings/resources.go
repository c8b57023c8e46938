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

// demandOf returns how much of each resource an attempt asked for; nil if that cannot be read.
func demandOf(row tasktable.Row) (resources map[string]float64) {
	if err := json.Unmarshal(row.Resources(), &resources); err != nil {
		return nil
	}
	return resources
}

// selectorOf returns the label selector of an attempt. It is nil if the attempt has none, or if its fallback strategy
// allows other labels, too.
func selectorOf(row tasktable.Row) (labels map[string]string) {
	if len(row.Fallback()) > 0 || json.Unmarshal(row.Labels(), &labels) != nil {
		return nil
	}
	return labels
}

// joinAmounts joins, in the order of the names, what text returns for each element of a map.
func joinAmounts[V any](byName map[string]V, text func(name string, v V) string) string {
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
	return " on a node with the labels " + joinAmounts(labels, func(name, value string) string { return name + "=" + value })
}

// labelsMatch reports whether a node has the labels that a selector asks for. A selector's values are "x", "!x",
// "in(x,y)" and "!in(x,y)" (src/ray/common/scheduling/label_selector.cc of Ray). It is true if no labels of the node
// are known: Ray gives each node some.
func labelsMatch(labels map[string]string, n *entities.Node) bool {
	for name, want := range labels {
		want, negated := strings.CutPrefix(want, "!")
		values := []string{want}
		if list, isList := strings.CutPrefix(want, "in("); isList {
			values = strings.Split(strings.TrimSuffix(list, ")"), ",")
		}
		label, known := n.Labels[name]
		isIn := known && slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == label })
		if isIn == negated && len(n.Labels) > 0 {
			return false
		}
	}
	return true
}

// covers reports whether a node's resources are at least what is asked for.
func covers(total, resources map[string]float64) bool {
	for r, amount := range resources {
		if total[r] < amount {
			return false
		}
	}
	return true
}

// resourceText returns resources as people write them, such as "1 CPU, 2 GPU"; "no resources" if there are none.
func resourceText(resources map[string]float64) string {
	return cmp.Or(joinAmounts(resources, func(r string, n float64) string { return amountText(r, n) + " " + r }),
		"no resources")
}

// amountText returns an amount of a resource as people write it: memory, which Ray counts in bytes, with its unit.
func amountText(resource string, amount float64) string {
	if resource == "memory" || resource == "object_store_memory" {
		return human.Bytes(int64(min(amount, 1<<60)))
	}
	return fmt.Sprintf("%g", amount)
}

// demandAmount matches one resource of a demand as Python prints it, such as {'CPU': 1.0, 'GPU': 8.0}.
var demandAmount = lazyregexp.New(`'([^']{1,200})': ([0-9.]{1,20})`)

// resourcesIn reads the resources that a message has as Python prints them, such as {'CPU': 1.0}.
func resourcesIn(message string) map[string]float64 {
	demand := map[string]float64{}
	for _, m := range demandAmount().FindAllStringSubmatch(output.Clip(message, output.MaxText), -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			demand[m[1]] = n
		}
	}
	return demand
}
