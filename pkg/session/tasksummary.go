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

func (c *TaskCounts) add(kind []byte, n int) {
	switch string(kind) {
	case "NORMAL_TASK":
		c.Tasks += n
	case "ACTOR_TASK":
		c.ActorTasks += n
	case "ACTOR_CREATION_TASK":
		c.ActorsScheduled += n
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
	b := summaryBuilder{Summary: &Summary{}, byFunction: byFunction, defs: make([]defCount, t.defs.n), byName: make(map[string]int32), reprs: make(map[kin]int32)}
	var err error
	b.Listed, err = t.each(q, ScanPart, func(_ int, r Row) { b.add(r) })
	for id, d := range b.defs {
		if d.rows > 0 {
			b.TaskCounts.add(t.texts.get(t.defs.at(id).kind), d.rows)
		}
	}
	for i := range b.Groups {
		for _, c := range b.counts[i] {
			b.Groups[i].States = append(b.Groups[i].States, StateCount{State: t.states.name(c.state), Count: c.rows})
		}
	}
	return b.Summary, err
}

// summaryBuilder counts rows. What rows of one definition share is worked out once.
type summaryBuilder struct {
	*Summary
	byFunction bool
	defs       []defCount
	byName     map[string]int32
	reprs      map[kin]int32
	counts     [][]numberCount // by group, in the order of their first rows
}

type defCount struct {
	rows  int
	group int32 // of rows whose actor does not show itself, plus one
}

// kin have the same name: rows of one definition whose actors show themselves alike.
type kin struct {
	def  defID
	repr textID
}

// numberCount is a StateCount with the state's number.
type numberCount struct {
	state taskState
	rows  int
}

func (b *summaryBuilder) add(r Row) {
	b.Matching++
	d := &b.defs[r.p.def[r.i]]
	d.rows++
	state, _ := r.state()
	g := b.group(r, d)
	b.counts[g] = addCount(b.counts[g], state, 1)
}

// group finds the row's group, a new one if its name is new.
func (b *summaryBuilder) group(r Row, d *defCount) int32 {
	repr := r.p.reprName[r.i]
	if repr == 0 && d.group > 0 {
		return d.group - 1
	}
	k := kin{r.p.def[r.i], repr}
	g, known := b.reprs[k]
	if !known {
		name := string(r.summaryName(b.byFunction))
		if g, known = b.byName[name]; !known {
			g = int32(len(b.Groups))
			b.byName[name] = g
			b.Groups = append(b.Groups, Group{Name: name, Type: string(r.Type())})
			b.counts = append(b.counts, nil)
		}
		b.reprs[k] = g
	}
	if repr == 0 {
		d.group = g + 1
	}
	return g
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
