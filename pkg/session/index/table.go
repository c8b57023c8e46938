package index

import (
	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

const definitionBytes, profilerBytes = 128, 64 // memory of a row, with its entry in a map

// readRefs reads columns of numbers of the string table, and takes the memory of rows of so many bytes.
func readRefs(t *tablefile.Table, rowBytes int64, names ...string) (refs [][]int32, err error) {
	refs = make([][]int32, len(names))
	for i, name := range names {
		if refs[i], err = t.Int32s(name); err != nil {
			return nil, err
		}
	}
	return refs, t.Take(int64(t.Rows) * rowBytes)
}

// readDefinitions reads what many tasks have in common, one row for each number in the table of tasks.
func readDefinitions(t *tablefile.Table) ([]eventjson.Definition, error) {
	refs, err := readRefs(t, definitionBytes, "Kind", "Language", "Name", "Function", "Resources", "Labels", "Fallback",
		"RuntimeEnv", "CallSite", "Group")
	if err != nil {
		return nil, err
	}
	sites, err := t.Booleans("HasCallSite")
	if err != nil {
		return nil, err
	}
	all := make([]eventjson.Definition, t.Rows)
	for i := range all {
		ref := func(column int) stringtable.ID { return stringtable.ID(refs[column][i]) }
		all[i] = eventjson.Definition{
			Kind: ref(0), Language: ref(1), Name: ref(2), Function: ref(3), Resources: ref(4), Labels: ref(5),
			Fallback:   ref(6),
			RuntimeEnv: ref(7), CallSite: ref(8), Group: ref(9), HasCallSite: sites[i],
		}
	}
	return all, nil
}

// readProfilers reads the processes that reported profile events.
func readProfilers(t *tablefile.Table) ([]eventjson.Profiler, error) {
	refs, err := readRefs(t, profilerBytes, "Kind", "ID", "IP")
	if err != nil {
		return nil, err
	}
	all := make([]eventjson.Profiler, t.Rows)
	for i := range all {
		all[i] = eventjson.Profiler{Kind: stringtable.ID(refs[0][i]), ID: stringtable.ID(refs[1][i]),
			IP: stringtable.ID(refs[2][i])}
	}
	return all, nil
}
