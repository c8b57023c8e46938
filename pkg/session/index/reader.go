package index

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/guard"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/entities"
)

// reader reads the tables of one index, several at a time.
type reader struct {
	store  blob.Reader
	root   string
	ref    layout.Session
	stored map[string]int64 // sizes of the stored tables, by key
	memory *memoryBudget

	ctx      context.Context
	group    *errgroup.Group
	metadata *metadata
}

func (r *reader) table(name string, size int64) *storedTable {
	return &storedTable{store: r.store, key: layout.IndexKey(r.root, r.ref, name), size: size}
}

// readTables reads all tables, in goroutines of the group. Of the rows it reads only the footer: rows are read when
// they are requested.
func (r *reader) readTables() *session.Tables {
	m := r.metadata
	out := &session.Tables{Fingerprint: m.Fingerprint, Start: m.Start, End: m.End, Warnings: m.Warnings,
		Damage: m.Damage}
	out.Rows, out.First, out.States = m.Rows, m.First, m.States
	r.goRead(rowsTableName, func(o *storedTable) error {
		rows, err := openRows(r.ctx, o, m, r.memory)
		if err == nil {
			out.Source, out.GroupBytes = rows, rows.groupBytes
			err = r.memory.take(3 * out.GroupBytes) // as stored, decompressed, and in pages
		}
		return err
	})
	r.goReadAll(textsTable, func(t *table) (err error) {
		out.Strings, err = t.byteStrings(r.memory, "text")
		return err
	})
	r.goReadAll(definitionsTable, func(t *table) (err error) {
		out.Definitions, err = readDefinitions(t, r.memory)
		return err
	})
	r.goReadAll(profilersTable, func(t *table) (err error) {
		out.Profilers, err = readProfilers(t, r.memory)
		return err
	})
	readEntities(r, actorsTable, &out.Actors)
	readEntities(r, nodesTable, &out.Nodes)
	readEntities(r, jobsTable, &out.Jobs)
	readEntities(r, submissionsTable, &out.Submissions)
	readEntities(r, workersTable, &out.Workers)
	readEntities(r, groupsTable, &out.PlacementGroups)
	readEntities(r, platformTable, &out.PlatformEvents)
	return out
}

// readCheckpoint reads what replay needs to go on: the checkpoint, and the objects that the tables were made of.
func (r *reader) readCheckpoint(meta *table, out *session.Tables) {
	r.goReadAll(checkpointTable, func(t *table) error {
		states, err := t.byteStrings(r.memory, "state")
		if err == nil && len(states) != 1 {
			err = fmt.Errorf("%s has %d rows, want 1", t.key, len(states))
		}
		if err != nil {
			return err
		}
		out.Checkpoint = states[0]
		return r.memory.take(jsonMemory(out.Checkpoint, 80))
	})
	r.goRead(metaTable, func(*storedTable) error {
		sources, err := readSources(r.ctx, meta, r.memory)
		for _, s := range sources {
			out.Objects = append(out.Objects, blob.Object{Key: s.Key, Size: s.Size, ETag: s.ETag})
		}
		return err
	})
}

// goRead reads a table in a goroutine of the group.
func (r *reader) goRead(name string, read func(*storedTable) error) {
	o := r.table(name, r.metadata.Tables[name])
	r.group.Go(func() error { return guard.Do(o.key, func() error { return read(o) }) })
}

// goReadAll is goRead for a table that is read into memory completely.
func (r *reader) goReadAll(name string, read func(*table) error) {
	r.goRead(name, func(o *storedTable) error {
		t, err := o.open(r.ctx, r.memory)
		if err != nil {
			return err
		}
		if err := r.metadata.checkBelongs(t); err != nil {
			return err
		}
		if err := t.readAll(r.ctx, r.memory); err != nil {
			return err
		}
		return read(t)
	})
}

// readEntities reads the column of a small table that holds all of each row.
func readEntities[E any](r *reader, name string, into *[]E) {
	r.goReadAll(name, func(t *table) error {
		rows, err := t.byteStrings(r.memory, "row")
		if err != nil {
			return err
		}
		if err := r.memory.take(int64(len(rows)) * int64(unsafe.Sizeof(*new(E)))); err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(text []byte) bool { return string(text) == noRow })
		all := make([]E, len(rows))
		for i, text := range rows {
			most := jsonMemory(text, 2*int64(unsafe.Sizeof(entities.ActorTransition{})))
			if err := r.memory.take(most); err != nil {
				return err
			}
			if err := json.Unmarshal(text, &all[i]); err != nil {
				return fmt.Errorf("read row %d of %s: %w", i, t.key, err)
			}
			r.memory.giveBack(most - entities.MemoryBytes(&all[i]))
		}
		*into = all
		return nil
	})
}
