package session

// Summary counts attempts by name and state (TaskSummaries.to_summary_by_func_name in ray/util/state/common.py).
type Summary struct {
	Groups []Group // in the order of their first rows
	TaskCounts
	// Listed and Matching are those of Selection.
	Listed, Matching int
}

// TaskCounts count attempts by the type of their task.
type TaskCounts struct {
	Tasks, ActorTasks, ActorsScheduled int
}

func (c *TaskCounts) add(kind []byte) {
	switch string(kind) {
	case "NORMAL_TASK":
		c.Tasks++
	case "ACTOR_TASK":
		c.ActorTasks++
	case "ACTOR_CREATION_TASK":
		c.ActorsScheduled++
	}
}

// Group are the attempts of one name.
type Group struct {
	Name   string
	Type   string // of the first one
	States []StateCount
}

// StateCount is how many attempts are in a state.
type StateCount struct {
	State string
	Count int
}

// Summarize groups the rows that q's filters keep by name; with byFunction by the function's name only, as Ray before 2.56 did. The limit
// is not used.
func (t *Tasks) Summarize(q Query, byFunction bool) (*Summary, error) {
	out := &Summary{}
	// Rows with the same definition and the same actor's name have the same name, which need not be put together for each.
	type kin struct {
		def  defID
		repr textID
	}
	groupOf := make(map[kin]int)
	byName := make(map[string]int)
	var err error
	out.Listed, err = t.each(q, false, func(_ int, r Row) {
		out.Matching++
		k := kin{def: r.p.def[r.i], repr: r.p.reprName[r.i]}
		g, known := groupOf[k]
		if !known {
			name := string(r.summaryName(byFunction))
			if g, known = byName[name]; !known {
				g = len(out.Groups)
				byName[name] = g
				out.Groups = append(out.Groups, Group{Name: name, Type: string(r.Type())})
			}
			groupOf[k] = g
		}
		out.Groups[g].count(r.State())
		out.TaskCounts.add(r.Type())
	})
	return out, err
}

// summaryName is what a row is summarised under.
func (r Row) summaryName(byFunction bool) []byte {
	if byFunction {
		return r.Function()
	}
	if name := r.Name(); len(name) > 0 {
		return name
	}
	return r.Function()
}

func (g *Group) count(state string) { g.States = countState(g.States, state, 1) }

// countState adds n attempts in a state; there are few different states, and most attempts are in the first ones.
func countState(states []StateCount, state string, n int) []StateCount {
	for i := range states {
		if states[i].State == state {
			states[i].Count += n
			return states
		}
	}
	return append(states, StateCount{state, n})
}
