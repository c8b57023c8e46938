package index

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/session/entities"
	"github.com/rayhistory/historyserver/pkg/session/eventjson"
)

// TestFormatVersion: testdata/format.txt has the shape of what an index holds for the server besides rows of tasks, and
// the version of the format in which it has this shape. UPDATE_FORMAT=1 writes it.
func TestFormatVersion(t *testing.T) {
	const name = "testdata/format.txt"
	var now strings.Builder
	fmt.Fprintf(&now, "version %d\n", formatVersion)
	writeShape(&now, "meta", reflect.TypeFor[metadata]())
	writeShape(&now, "definition", reflect.TypeFor[eventjson.Definition]())
	writeShape(&now, "profiler", reflect.TypeFor[eventjson.Profiler]())
	writeShape(&now, "entities", reflect.TypeFor[entities.Set]())
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
