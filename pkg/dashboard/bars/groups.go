package bars

import (
	"cmp"
	"slices"

	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// What colours may stand for: functions, or the outcomes of attempts.
const (
	ByFunction = "function"
	ByOutcome  = "outcome"
)

// Colours are what a Question may ask colours to stand for, the usual one first.
var Colours = []string{ByFunction, ByOutcome}

// Group is what one colour stands for: a function, or an outcome.
type Group struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
}

// groupOf returns the number of an attempt's group, which decides its colour: that of its outcome or of its function.
// state is "", failed or running.
func (d *drawer) groupOf(r tasktable.PlacedRow, state string) int {
	if d.q.Colour == ByOutcome {
		return map[string]int{"": 0, "failed": 1, "running": 2}[state]
	}
	kind := r.Kind() // ofKind has, by the attempt's kind, the group's number plus one; 0 if there is none yet
	if kind >= len(d.ofKind) {
		d.ofKind = append(d.ofKind, make([]int, kind+1-len(d.ofKind))...)
	}
	if d.ofKind[kind] == 0 {
		d.ofKind[kind] = d.group(shortName(r.Function())) + 1
	}
	return d.ofKind[kind] - 1
}

// shortName is a function's name, which may have any length.
func shortName(name []byte) string { return string(name[:min(len(name), 200)]) }

// group returns the number of the group with a name, which it adds if it is new. When there are maxCounted groups, new
// names share one. More than maxGroups are counted, because only at the end it is known which are the largest.
func (d *drawer) group(name string) int {
	const maxCounted = 10 * maxGroups
	n, ok := d.groups[name]
	if !ok {
		if len(d.Groups) >= maxCounted {
			name = "other functions"
		}
		if n, ok = d.groups[name]; !ok {
			n = len(d.Groups)
			d.groups[name] = n
			d.Groups, d.total = append(d.Groups, Group{Name: name}), append(d.total, 0)
		}
	}
	return n
}

// rankGroups puts the groups in order: the maxGroups with the most attempts first, and then one of all others. numbers
// has, by the number that a group had, its new one. Outcomes keep the numbers that groupOf gives them.
func (d *drawer) rankGroups() (numbers []int) {
	order := make([]int, len(d.Groups))
	for i := range order {
		order[i] = i
		d.Groups[i].Tasks = d.total[i]
	}
	numbers = slices.Clone(order)
	if d.q.Colour == ByOutcome {
		return numbers
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.total[b], d.total[a]), cmp.Compare(d.Groups[a].Name, d.Groups[b].Name))
	})
	var ranked []Group
	for place, i := range order {
		if place == maxGroups {
			ranked = append(ranked, Group{Name: "all others"})
		}
		if numbers[i] = min(place, maxGroups); place >= maxGroups {
			ranked[maxGroups].Tasks += d.total[i]
		} else {
			ranked = append(ranked, d.Groups[i])
		}
	}
	if d.Groups = ranked; ranked == nil {
		d.Groups = []Group{}
	}
	return numbers
}
