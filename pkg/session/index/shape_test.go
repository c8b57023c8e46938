package index

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/tabledocs"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
	"github.com/rayhistory/historyserver/pkg/session/taskstate"
)

// TestFormatVersion: testdata/format.txt has the shape of what an index holds for the server besides rows of tasks, the
// numbers of their states, from which those of newer ones count on, the columns of all its tables, and the version of
// the format in which it has this shape. UPDATE_FORMAT=1 writes it.
func TestFormatVersion(t *testing.T) {
	const name = "testdata/format.txt"
	var now strings.Builder
	fmt.Fprintf(&now, "version %d\n", formatVersion)
	writeShape(&now, "meta", reflect.TypeFor[metadata]())
	writeShape(&now, "definition", reflect.TypeFor[eventjson.Definition]())
	writeShape(&now, "profiler", reflect.TypeFor[eventjson.Profiler]())
	writeShape(&now, "entities", reflect.TypeFor[entities.Set]())
	for state := range taskstate.Known {
		fmt.Fprintf(&now, "state %d %s\n", state, taskstate.NewRegistry(nil).Name(state))
	}
	for _, table := range writtenTables(t) {
		now.WriteString(table.String() + "\n")
	}
	known := string(must.Get(os.ReadFile(name))(t))
	version, _, _ := strings.Cut(known, "\n")
	switch {
	case known == now.String():
	case version == fmt.Sprintf("version %d", formatVersion):
		t.Errorf("what an index holds has changed: raise formatVersion in doc.go, because an index that was stored "+
			"before would be read wrongly or lack something; then run this with UPDATE_FORMAT=1 (-stored +now):\n%s",
			cmp.Diff(known, now.String()))
	case os.Getenv("UPDATE_FORMAT") == "":
		t.Errorf("%s is of another version: run UPDATE_FORMAT=1 go test ./pkg/session/index -run FormatVersion", name)
	default:
		must.OK(t, os.WriteFile(name, []byte(now.String()), 0o644))
	}
}

// writtenTables are the schemas of the tables of an index, named after them.
func writtenTables(t *testing.T) (tables []*parquet.Schema) {
	t.Helper()
	s := generated(t, 50)
	s.write(s.load())
	for _, key := range s.indexKeys() {
		data := s.read(key)
		file := must.Get(parquet.OpenFile(bytes.NewReader(data), int64(len(data))))(t)
		name := strings.TrimSuffix(path.Base(key), ".parquet")
		tables = append(tables, parquet.NewSchema(name, file.Root()))
	}
	return tables
}

// TestDocsHaveColumns: docs/analysis.md has the columns of the tables that people read.
func TestDocsHaveColumns(t *testing.T) {
	for _, table := range writtenTables(t) {
		switch table.Name() {
		case rowsTableName, textsTable, definitionsTable, checkpointTable: // for the server only
		default:
			tabledocs.HasColumns(t, "../../..", table)
		}
	}
}

// writeShape writes the fields of a type, those of structs in it after a dot.
func writeShape(b *strings.Builder, name string, of reflect.Type) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		writeShape(b, name+"[]", of.Elem())
	case reflect.Map:
		writeShape(b, name+"{"+of.Key().String()+"}", of.Elem())
	case reflect.Struct:
		for field := range of.Fields() {
			writeShape(b, name+"."+field.Name, field.Type)
		}
	default:
		fmt.Fprintln(b, name, of.Kind())
	}
}
