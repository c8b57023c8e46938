package index

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/rayhistory/historyserver/internal/tablefile"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/stringtable"
)

// table is a table whose footer has been read, with as much before it as was read at once.
type table struct {
	*tablefile.File
	*storedTable
	from int64 // where data begins in the file
	data []byte
}

// readAll reads what has not been read yet.
func (t *table) readAll(ctx context.Context, memory *memoryBudget) error {
	if t.from == 0 {
		return nil
	}
	err := memory.take(t.size)
	if err == nil {
		t.data, err = t.read(ctx, 0, t.size)
		t.from = 0
	}
	return err
}

// part returns the bytes [from, to) of the file, which must have been read.
func (t *table) part(from, to int64) []byte { return t.data[from-t.from : to-t.from] }

// columns finds columns by name, and takes the memory that their values need, and rowBytes for each row.
func (t *table) columns(memory *memoryBudget, rowBytes int64, names ...string) ([]int, error) {
	columns := make([]int, len(names))
	for i, name := range names {
		if columns[i] = t.ColumnIndex(name); columns[i] < 0 {
			return nil, fmt.Errorf("%s: %w", t.key, errSchema)
		}
		for g := range t.Groups {
			// Twice, because slices that have grown leave their old arrays to the garbage collector.
			if err := memory.take(2 * min(t.Groups[g].Chunks[columns[i]].Plain, math.MaxInt64/2)); err != nil {
				return nil, err
			}
		}
	}
	return columns, memory.take(int64(t.Rows) * (rowBytes + 8*int64(len(names))))
}

// each calls read for the chunks of a column.
func (t *table) each(column int, read func(c *tablefile.Chunk, data []byte) error) error {
	for g := range t.Groups {
		c := &t.Groups[g].Chunks[column]
		if err := read(c, t.part(c.From, c.To)); err != nil {
			return fmt.Errorf("read %s: %w", t.key, err)
		}
	}
	return nil
}

// byteStrings reads a column of byte strings.
func (t *table) byteStrings(memory *memoryBudget, column string) ([][]byte, error) {
	const slice = 24 // bytes
	columns, err := t.columns(memory, slice, column)
	if err != nil {
		return nil, err
	}
	all := make([][]byte, 0, t.Rows)
	return all, t.each(columns[0], func(c *tablefile.Chunk, data []byte) error {
		return c.Bytes(data, func(text []byte, ends []uint32) {
			text = bytes.Clone(text)
			var from uint32
			for _, end := range ends {
				all = append(all, text[from:end:end])
				from = end
			}
		})
	})
}

// int32s reads columns of numbers, such as references into the string table.
func (t *table) int32s(memory *memoryBudget, rowBytes int64, names ...string) ([][]int32, error) {
	columns, err := t.columns(memory, rowBytes, names...)
	if err != nil {
		return nil, err
	}
	all := make([][]int32, len(columns))
	for i, column := range columns {
		all[i] = make([]int32, 0, t.Rows)
		if err := t.each(column, func(c *tablefile.Chunk, data []byte) (err error) {
			all[i], err = c.Int32s(data, all[i])
			return err
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const definitionBytes, profilerBytes = 128, 64 // memory of a row, with its entry in a map

// readDefinitions reads what many tasks have in common, one row for each number in the table of tasks.
func readDefinitions(t *table, memory *memoryBudget) ([]eventjson.Definition, error) {
	refs, err := t.int32s(memory, definitionBytes, "Kind", "Language", "Name", "Function", "Resources", "Labels",
		"Fallback", "RuntimeEnv", "CallSite", "Group")
	if err != nil {
		return nil, err
	}
	flag, err := t.columns(memory, 0, "HasCallSite")
	if err != nil {
		return nil, err
	}
	sites := make([]bool, 0, t.Rows)
	if err := t.each(flag[0], func(c *tablefile.Chunk, data []byte) (err error) {
		sites, err = c.Booleans(data, sites)
		return err
	}); err != nil {
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
func readProfilers(t *table, memory *memoryBudget) ([]eventjson.Profiler, error) {
	refs, err := t.int32s(memory, profilerBytes, "Kind", "ID", "IP")
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
