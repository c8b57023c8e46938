package index

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/race"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/session"
	"github.com/rayhistory/historyserver/pkg/session/tasktable"
)

// serverTables are the tables that the server reads.
var serverTables = []string{
	metaTable, rowsTableName, textsTable, definitionsTable, checkpointTable, actorsTable, nodesTable,
	jobsTable,
	submissionsTable, workersTable, groupsTable, platformTable,
}

// sources are what is listed of a session's index, asked for by a fingerprint.
func (s *stored) sources(fingerprint string) session.Sources {
	out := session.Sources{Fingerprint: fingerprint}
	for o, err := range s.store.List(s.t.Context(), strings.TrimSuffix(s.key(metaTable), metaTable+".parquet"),
		blob.ListOptions{}) {
		must.OK(s.t, err)
		out.Index = append(out.Index, o)
	}
	return out
}

// TestChangedBytes: an index of which one byte was changed is refused or read, whichever byte it is. A panic would end
// the test, as it would the server.
func TestChangedBytes(t *testing.T) {
	tries := 400 // of each table
	if race.Enabled {
		tries = 40
	}
	s := generated(t, 60)
	loaded := s.load()
	s.write(loaded)
	store := storetest.New() // files take a third of the time
	for _, table := range serverTables {
		store.Objects[s.key(table)] = s.read(s.key(table))
	}
	for _, fingerprint := range []string{loaded.Fingerprint(), "of more"} {
		sources := s.sources(fingerprint)
		for _, table := range serverTables {
			whole := store.Objects[s.key(table)]
			refused, step := 0, max(1, len(whole)/tries)
			for i := 0; i < len(whole); i += step {
				damaged := bytes.Clone(whole)
				damaged[i] += 1 << (i % 8)
				o := s.opener()
				o.Store = changed{store, s.key(table), damaged}
				tables, err := o.Open(t.Context(), s.ref, sources, nil)
				if tables == nil {
					refused++
					continue
				}
				must.OK(t, err)
				for g := range tables.First {
					for _, part := range []tasktable.Part{tasktable.ScanPart, tasktable.LineagePart, tasktable.AllParts} {
						_, _ = tables.Source.Blocks(g, part)
					}
				}
			}
			if refused == 0 && !race.Enabled && (table != checkpointTable && table != rowsTableName || fingerprint == "of more" &&
				table == checkpointTable) {
				t.Errorf("%s: whatever byte is changed, it is read", table)
			}
		}
	}
}

// changed is a store one object of which has other bytes.
type changed struct {
	blob.Reader
	key  string
	body []byte
}

func (c changed) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if key != c.key {
		return c.Reader.Get(ctx, key, offset, n)
	}
	return io.NopCloser(io.NewSectionReader(bytes.NewReader(c.body), offset, n)), nil
}

// TestRowsThatCannotBeRead: an index whose rows a store never gives, though it gives the rest, does not keep a session
// from being answered.
func TestRowsThatCannotBeRead(t *testing.T) {
	s := generated(t, 300)
	events := s.load()
	want := must.Get(list(events))(t)
	s.write(events)
	o := s.opener()
	o.Store = withoutRows{s.store, s.key(rowsTableName), int64(len(s.read(s.key(rowsTableName))))}
	for range 2 { // a store that fails once may give them the next time
		loaded := s.loadAuto(o)
		if _, err := list(loaded); err == nil || !loaded.Indexed() || !loaded.Broken() {
			t.Errorf("error %v, indexed %v, broken %v", err, loaded.Indexed(), loaded.Broken())
		}
	}
	loaded := s.loadAuto(o)
	if got, err := list(loaded); got != want || err != nil || loaded.Indexed() {
		t.Errorf("%d rows, want %d; indexed %v, %v", got, want, loaded.Indexed(), err)
	}
	s.write(loaded)
	o.Store = s.store
	o.Accept(s.ref)
	says.True(t, s.loadAuto(o).Indexed(), "the new index is not used")
}

// withoutRows is a store that gives of one object only what its end belongs to.
type withoutRows struct {
	blob.Reader
	key  string
	size int64
}

func (s withoutRows) Get(ctx context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	if key == s.key && offset+n < s.size {
		return nil, io.ErrNoProgress
	}
	return s.Reader.Get(ctx, key, offset, n)
}

// TestRefusedIndexIsNamed: who looks at a session is told that its index was not used.
func TestRefusedIndexIsNamed(t *testing.T) {
	s := generated(t, 100)
	s.write(s.load())
	damaged := s.read(s.key(definitionsTable))
	s.put(s.key(definitionsTable), append(damaged[:len(damaged)-5], "\x7fPAR1"...))
	for _, what := range []string{"damaged", "a moment later"} {
		loaded := s.loadAuto(s.opener())
		if !slices.ContainsFunc(loaded.Warnings,
			func(w string) bool { return strings.Contains(w, s.key(definitionsTable)) }) || loaded.Indexed() {
			t.Errorf("%s: warnings %q, indexed %v", what, loaded.Warnings, loaded.Indexed())
		}
		says.True(t, len(loaded.Damage()) == 0, "%s: events were read whole, and yet there is damage: %q", what,
			loaded.Damage())
	}
	s.write(s.loadAuto(s.opener()))
	if loaded := s.loadAuto(s.opener()); !loaded.Indexed() || len(loaded.Warnings) > 0 {
		t.Errorf("indexed anew: %v, %q", loaded.Indexed(), loaded.Warnings)
	}
}

// TestIndexThatTakesTooMuchMemory: room is asked before tables are read.
func TestIndexThatTakesTooMuchMemory(t *testing.T) {
	s := generated(t, 100)
	loaded := s.load()
	s.write(loaded)
	var most int64
	tables, err := s.opener().Open(t.Context(), s.ref, s.sources(loaded.Fingerprint()), func(held int64) bool {
		most = max(most, held)
		return true
	})
	must.True(t, tables != nil && err == nil && most >= 100_000 && most <= minBudget, "%d bytes asked for, %v", most,
		err)
	// What the files claim counts, not what they have.
	claims := &memoryBudget{reserve: func(held int64) bool { return held < 1<<30 }}
	says.True(t, claims.take(1<<31) != nil, "2 GiB are taken of 1")
	says.True(t, claims.take(-1) != nil, "a negative number of bytes is taken")
	for _, text := range []string{strings.Repeat("null,", 100), strings.Repeat("{},", 100)} {
		n := jsonMemory([]byte(text), 200)
		says.True(t, n >= 100*200, "%d bytes are taken for 100 structs of 200", n)
	}
	object := sourceOf(s.store, layout.IndexKey(layout.DefaultRoot, s.ref, textsTable), 1<<40, claims)
	says.True(t, says.Err(object.Open(t.Context())) != nil, "an object of another size is read")
}
